"""The elements around a text of HTML, as browsers find them.

Which tags end which elements, and which are ignored, is the standard's; what scripts, frames and
templates change is not followed. Elements of formatting that are not closed are opened again behind
the block that they began in.

Source: https://html.spec.whatwg.org/multipage/parsing.html#parsing-main-inbody
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dragoman_client.markup.html_profile import IN_HEAD, NOT_IN_FOREIGN, names

_FORMATTING: Final = names("a b big code em font i nobr s small strike strong tt u")
"""Elements that are opened again."""
_MARKERS: Final = frozenset(("applet", "caption", "marquee", "object", "td", "template", "th"))
"""Elements behind whose ends none that began in them is opened again."""
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_TABLE: Final = frozenset(("table", "tbody", "tfoot", "thead", "tr"))
"""Elements whose own text stands before the table."""
_PARTS_OF_TABLES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("td", "th"), _TABLE),
    "tr": _TABLE - {"tr"},
    **dict.fromkeys(("caption", "colgroup", "tbody", "tfoot", "thead"), frozenset(("table",))),
}
"""Elements that are in one of others, and close what is between."""
_SCOPE: Final = _MARKERS | {"html", "table", "select", "svg", "math"}
"""End tags of blocks do not reach beyond these."""
_ENDING_P: Final = names(
    "address article aside blockquote center details dialog dir div dl fieldset "
    "figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr li dd dt "
    "listing main menu nav ol p plaintext pre search section summary table ul xmp"
)
_SPECIAL: Final = (
    _ENDING_P
    | _SCOPE
    | _TABLE
    | names(
        "area base basefont bgsound body br button col colgroup embed frame frameset head "
        "iframe img input keygen link meta noembed noframes noscript param script source "
        "style textarea title track wbr"
    )
)
"""The end tag of another element does not reach beyond these."""
_BEYOND_ITEMS: Final = _SPECIAL - {"address", "div", "p"}
_BEYOND_PARAGRAPHS: Final = _SCOPE | {"button"}
_NOT_REOPENING: Final = (
    _ENDING_P
    | _TABLE
    | IN_HEAD
    | frozenset(_PARTS_OF_TABLES)
    | names("body col frame frameset iframe noembed param rb rp rt rtc source textarea track")
)
"""Elements before which none is opened again."""
_HTML_IN_FOREIGN: Final = _MARKERS | names(
    "annotation-xml desc foreignobject mi mn mo ms mtext title"
)
"""Elements in SVG or MathML that may hold elements of HTML."""
_OF_TEXT: Final = names(
    "iframe noembed noframes noscript plaintext script style textarea title xmp"
)
"""Elements that hold nothing but text."""
_MOST_OPEN: Final = 512
"""A deeper element takes the place of the one around it, as in browsers."""

_MOST_ALIKE: Final = 3
"""So many elements of a kind are opened again, as in browsers."""


@dataclass(slots=True)
class Element:
    """An element that is open.

    Attributes:
        name: of it.
        says: whether its text is to be translated; None: as that around it.
        says_foreign: whether it is in another language than the page; None: as that around it.
        is_skipped: whether nothing in it is text, whatever it says.
        may_translate: whether its text is to be translated, by what it and those around it say.
        is_foreign: whether it is in another language than the page, likewise.
        preserves: whether its white space counts.
        waiting: elements that are opened again behind it, and not in it.
    """

    name: str
    says: bool | None = None
    says_foreign: bool | None = None
    is_skipped: bool = False
    may_translate: bool = True
    is_foreign: bool = False
    preserves: bool = False
    waiting: list[Element] = field(default_factory=list)

    @property
    def is_translated(self) -> bool:
        """Whether its text is."""
        return self.may_translate and not self.is_foreign and not self.is_skipped

    def inherit(self, around: Element) -> None:
        """Take from the element around it what it does not say itself."""
        self.may_translate = around.may_translate if self.says is None else self.says
        self.is_foreign = around.is_foreign if self.says_foreign is None else self.says_foreign
        self.is_skipped |= around.is_skipped
        self.preserves |= around.preserves


class OpenElements:
    """Follows the tags of a document."""

    def __init__(self) -> None:
        """Begin outside of all elements."""
        self._outside = Element("")
        self._open: list[Element] = []
        self._counts: Counter[str] = Counter()
        self._waiting: list[Element] = []
        """Elements of formatting that the next text opens again."""
        self.is_in_body = False
        """Whether the page's body has begun, and has not ended."""

    def __len__(self) -> int:
        """How many are open."""
        return len(self._open)

    @property
    def last(self) -> Element:
        """The one that was opened last."""
        return self._open[-1] if self._open else self._outside

    @property
    def around(self) -> Element:
        """The one that text stands in: that of a table, outside of its cells, is before it."""
        if self.last.name not in _TABLE:
            return self.last
        table = self._find(("table",), _MARKERS)
        return self._open[table - 1] if table else self._outside

    @property
    def is_full(self) -> bool:
        """Whether the next element takes the place of the last one."""
        return len(self._open) >= _MOST_OPEN

    @property
    def is_settled(self) -> bool:
        """Whether text opens nothing but what its tags say."""
        return (self.is_in_body and not self._waiting) or self.last.name in _OF_TEXT

    def has(self, name: str) -> bool:
        """Whether an element of a name is open."""
        return self._counts[name] > 0

    @property
    def _is_foreign(self) -> bool:
        """Whether elements that come now are SVG or MathML."""
        return self._find(("svg", "math"), _HTML_IN_FOREIGN) is not None

    @staticmethod
    def settles(name: str) -> bool:
        """Whether an element is text, for elements that are opened again."""
        return name not in _NOT_REOPENING

    def settle(self) -> None:
        """Text comes: open again what it opens."""
        self._close(("head",), frozenset())
        self.is_in_body = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._push(one)

    def open(self, element: Element) -> None:
        """An element begins, in the last one."""
        name = element.name
        is_lost = name in _PARTS_OF_TABLES and not self.has("table")
        if is_lost or (name == "head" and (self.has(name) or self.is_in_body)):
            return  # browsers ignore it
        if name in ("body", "html"):
            self._put_below(element)
            return
        self._push(element)
        if name in _MARKERS:
            element.waiting, self._waiting = self._waiting, []

    def close_before(self, name: str) -> None:
        """Close what the start tag of an element closes."""
        if name not in IN_HEAD:
            self._close(("head",), frozenset())
            self.is_in_body = True
        if name in NOT_IN_FOREIGN and name != "font":  # that one only with some attributes
            while self._is_foreign:
                self._close(("svg", "math"), _HTML_IN_FOREIGN)
        if self._is_foreign:
            return
        if name in _ENDING_P:
            self._close(("p",), _BEYOND_PARAGRAPHS)
        if name in _HEADINGS and self.last.name in _HEADINGS:
            self._leave(len(self._open) - 1)
        elif name == "li":
            self._close(("li",), _BEYOND_ITEMS)
        elif name in ("dd", "dt"):
            self._close(("dd", "dt"), _BEYOND_ITEMS)
        elif name in ("a", "nobr"):
            self._close_formatting(name)
        elif name in ("button", "select"):
            self._close((name,), _SCOPE)
        elif name in ("input", "textarea"):
            self._close(("select",), _SCOPE)
        elif name in ("option", "optgroup"):
            self._close(("option", name), _SPECIAL)
        elif name == "table" and self.last.name in _TABLE:
            self._close(("table",), _MARKERS)
        elif name in _PARTS_OF_TABLES:
            index = self._find(tuple(_PARTS_OF_TABLES[name]), frozenset(("template",)))
            if index is not None:
                self._leave(index + 1)

    def closes(self, name: str) -> bool:
        """Whether the start tag of an element that is no block closes others, and parts texts."""
        if self._is_foreign:
            return False
        if name == "input":
            return self.has("select")
        is_waiting = any(one.name == name for one in self._waiting)
        return name in ("a", "nobr") and (self.has(name) or is_waiting)

    def close(self, name: str) -> None:
        """Close what an end tag closes."""
        if name in ("body", "html"):
            self.is_in_body = False  # until something comes
        elif name in _FORMATTING:
            self._close_formatting(name)
        elif name in _HEADINGS:
            self._close(tuple(_HEADINGS), _SCOPE)
        elif name == "table" or name in _PARTS_OF_TABLES:
            self._close((name,), frozenset(("table", "template")))
        elif name in ("select", "svg", "math", "template"):
            self._close((name,), frozenset())
        elif name in ("p", "li"):
            self._close((name,), _BEYOND_PARAGRAPHS if name == "p" else _SCOPE | {"ol", "ul"})
        else:
            self._close((name,), _SCOPE if name in _SPECIAL else _SPECIAL)

    def _close_formatting(self, name: str) -> None:
        """As the standard's adoption agency, nearly: blocks in the element stay open."""
        for at in range(len(self._waiting) - 1, -1, -1):
            if self._waiting[at].name == name:
                del self._waiting[at]
                return
        index = self._find((name,), _MARKERS | {"table", "html"})
        if index is None:
            return
        above = range(index + 1, len(self._open))
        block = next((at for at in above if self._open[at].name in _SPECIAL), None)
        if block is None:
            self._leave(index + 1)
            self._counts[self._open.pop().name] -= 1
            return
        between = [one for one in self._open[index + 1 : block] if one.name in _FORMATTING]
        self._open[index:block] = between
        self._counts = Counter(one.name for one in self._open)
        self._inherit_from(index)

    def _close(self, names: tuple[str, ...], beyond: frozenset[str]) -> None:
        """Close the last element of a name, and what is in it, unless it is beyond some others."""
        index = self._find(names, beyond)
        if index is not None:
            self._leave(index)

    def _find(self, names: tuple[str, ...], beyond: frozenset[str]) -> int | None:
        if not any(map(self.has, names)):
            return None
        for index in range(len(self._open) - 1, -1, -1):
            name = self._open[index].name
            if name in names:
                return index
            if name in beyond:
                return None
        return None

    def _leave(self, index: int) -> None:
        """Close the elements from one on; those of formatting are opened again."""
        while len(self._open) > index:
            one = self._open.pop()
            self._counts[one.name] -= 1
            if one.name in _MARKERS:
                self._waiting = one.waiting
            elif one.name in _FORMATTING and not one.is_skipped:
                alike = sum((it.name, it.says) == (one.name, one.says) for it in self._waiting)
                if alike < _MOST_ALIKE:
                    self._waiting.insert(0, one)

    def _push(self, element: Element) -> None:
        if self.is_full:
            self._counts[self._open.pop().name] -= 1
        element.inherit(self.last if element.name in _PARTS_OF_TABLES else self.around)
        self._open.append(element)
        self._counts[element.name] += 1

    def _put_below(self, element: Element) -> None:
        """Put an element around all others, whose text may come before its tag."""
        if self.has(element.name):
            return
        self._open.insert(int(element.name == "body" and self.has("html")), element)
        self._counts[element.name] += 1
        self._inherit_from(0)

    def _inherit_from(self, index: int) -> None:
        for at in range(index, len(self._open)):
            self._open[at].inherit(self._open[at - 1] if at else self._outside)
