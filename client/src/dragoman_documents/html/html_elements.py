"""Tracks the open elements of HTML, as browsers do.

The standard says which tags close which elements, and which are ignored. Changes by scripts, frames
and templates are not followed. A formatting element that is not closed is reopened after the block
that it began in.

Source: https://html.spec.whatwg.org/multipage/parsing.html#parsing-main-inbody
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dragoman_documents.html.html_profile import IN_HEAD, NOT_IN_FOREIGN, names

_FORMATTING: Final = names("a b big code em font i nobr s small strike strong tt u")
"""Formatting elements, which are reopened."""
_MARKERS: Final = frozenset(("applet", "caption", "marquee", "object", "td", "template", "th"))
"""After the end of these, formatting elements that began in them are not reopened."""
_HEADINGS: Final = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_TABLE: Final = frozenset(("table", "tbody", "tfoot", "thead", "tr"))
"""Elements whose own text is placed before the table."""
_PARTS_OF_TABLES: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("td", "th"), _TABLE),
    "tr": _TABLE - {"tr"},
    **dict.fromkeys(("caption", "colgroup", "tbody", "tfoot", "thead"), frozenset(("table",))),
}
"""Elements that belong directly in one of others, and close the elements in between."""
_SCOPE: Final = _MARKERS | {"html", "table", "select", "svg", "math"}
"""End tags of blocks do not close elements outside these."""
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
"""End tags of other elements do not close elements outside these."""
_BEYOND_ITEMS: Final = _SPECIAL - {"address", "div", "p"}
_BEYOND_PARAGRAPHS: Final = _SCOPE | {"button"}
_CLOSED_BEFORE: Final[Mapping[str, tuple[tuple[str, ...], frozenset[str]]]] = {
    "li": (("li",), _BEYOND_ITEMS),
    **dict.fromkeys(("dd", "dt"), (("dd", "dt"), _BEYOND_ITEMS)),
    "button": (("button",), _SCOPE),
    **dict.fromkeys(("input", "select", "textarea"), (("select",), _SCOPE)),
    "option": (("option",), _SPECIAL),
    "optgroup": (("option", "optgroup"), _SPECIAL),
}
"""Elements that a start tag closes, and those that limit how far it looks for them."""
_NOT_REOPENING: Final = (
    _ENDING_P
    | _TABLE
    | IN_HEAD
    | frozenset(_PARTS_OF_TABLES)
    | names("body col frame frameset iframe noembed param rb rp rt rtc source textarea track")
)
"""Elements before which formatting elements are not reopened."""
_HTML_IN_FOREIGN: Final = _MARKERS | names(
    "annotation-xml desc foreignobject mi mn mo ms mtext title"
)
"""Elements in SVG or MathML that may contain HTML elements."""
_OF_TEXT: Final = names(
    "iframe noembed noframes noscript plaintext script style textarea title xmp"
)
"""Elements that contain only text."""
_MOST_OPEN: Final = 512
"""Maximum depth; a deeper element replaces the element around it, as in browsers."""

_MOST_ALIKE: Final = 3
"""Maximum number of equal elements that are reopened, as in browsers."""


@dataclass(slots=True)
class Element:
    """An open element.

    Attributes:
        name: name of the element.
        says: whether its attributes allow translation; None: inherited.
        says_foreign: whether its attributes name another language than the page's; None: inherited.
        is_skipped: whether its content is never translated.
        may_translate: whether translation is allowed, after inheritance.
        is_foreign: whether it is in another language than the page, after inheritance.
        preserves: whether its white space is significant.
        is_apart: whether its text is one of its own unless there are words beside it, like links.
        waiting: elements that are reopened after it, but not in it.
    """

    name: str
    says: bool | None = None
    says_foreign: bool | None = None
    is_skipped: bool = False
    may_translate: bool = True
    is_foreign: bool = False
    preserves: bool = False
    is_apart: bool = False
    waiting: list[Element] = field(default_factory=list)

    @property
    def is_translated(self) -> bool:
        """Whether its text is translated."""
        return self.may_translate and not self.is_foreign and not self.is_skipped

    def inherit(self, around: Element) -> None:
        """Inherit unset properties from the element around it."""
        self.may_translate = around.may_translate if self.says is None else self.says
        self.is_foreign = around.is_foreign if self.says_foreign is None else self.says_foreign
        self.is_skipped |= around.is_skipped
        self.preserves |= around.preserves
        self.is_apart |= around.is_apart


class OpenElements:
    """Tracks the open elements of a document."""

    def __init__(self) -> None:
        """Start outside all elements."""
        self._outside = Element("")
        self._open: list[Element] = []
        self._counts: Counter[str] = Counter()
        self._waiting: list[Element] = []
        """Formatting elements that the next text reopens."""
        self.is_in_body = False
        """Whether the page's body has begun, and has not ended."""

    def __len__(self) -> int:
        """Number of open elements."""
        return len(self._open)

    @property
    def last(self) -> Element:
        """The element opened last."""
        return self._open[-1] if self._open else self._outside

    @property
    def around(self) -> Element:
        """The element that text belongs to; text in a table but outside its cells is before it."""
        if self.last.name not in _TABLE:
            return self.last
        table = self._find(("table",), _MARKERS)
        return self._open[table - 1] if table else self._outside

    def parent_of(self, name: str) -> Element:
        """The element that a new one belongs to; parts of a table belong to what is open in it."""
        return self.last if name in _PARTS_OF_TABLES else self.around

    @property
    def is_full(self) -> bool:
        """Whether the next element replaces the last one."""
        return len(self._open) >= _MOST_OPEN

    @property
    def is_settled(self) -> bool:
        """Whether text opens only the elements of its own tags."""
        return (self.is_in_body and not self._waiting) or self.last.name in _OF_TEXT

    def has(self, name: str) -> bool:
        """Whether an element with this name is open."""
        return self._counts[name] > 0

    @property
    def _is_foreign(self) -> bool:
        """Whether new elements here are SVG or MathML."""
        return self._find(("svg", "math"), _HTML_IN_FOREIGN) is not None

    @staticmethod
    def settles(name: str) -> bool:
        """Whether an element reopens formatting elements, as text does."""
        return name not in _NOT_REOPENING

    def settle(self) -> None:
        """Reopen formatting elements, before text."""
        self._close(("head",), frozenset())
        self.is_in_body = True
        waiting, self._waiting = self._waiting, []
        for element in waiting:
            self._push(element)

    def open(self, element: Element) -> None:
        """Open an element in the last one."""
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
        """Close the elements that a start tag closes."""
        if name not in IN_HEAD:
            self._close(("head",), frozenset())
            self.is_in_body = True
        if name in NOT_IN_FOREIGN and name != "font":  # `font` only with some attributes
            while self._is_foreign:
                self._close(("svg", "math"), _HTML_IN_FOREIGN)
        if self._is_foreign:
            return
        if name in _ENDING_P:
            self._close(("p",), _BEYOND_PARAGRAPHS)
        if name in _HEADINGS and self.last.name in _HEADINGS:
            self._leave(len(self._open) - 1)
        elif name in _CLOSED_BEFORE:
            self._close(*_CLOSED_BEFORE[name])
        elif name in ("a", "nobr"):
            self._close_formatting(name)
        elif name == "table" and self.last.name in _TABLE:
            self._close(("table",), _MARKERS)
        elif name in _PARTS_OF_TABLES:
            index = self._find(tuple(_PARTS_OF_TABLES[name]), frozenset(("template",)))
            if index is not None:
                self._leave(index + 1)

    def closes(self, name: str) -> bool:
        """Whether the start tag of a non-block element closes others, and so splits texts."""
        if self._is_foreign:
            return False
        if name == "input":
            return self.has("select")
        is_waiting = any(element.name == name for element in self._waiting)
        return name in ("a", "nobr") and (self.has(name) or is_waiting)

    def close(self, name: str) -> None:
        """Close the elements that an end tag closes."""
        if name in ("body", "html"):
            self.is_in_body = False  # until more content follows
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
        """Approximates the standard's adoption agency: blocks in the element stay open."""
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
        between = [
            element for element in self._open[index + 1 : block] if element.name in _FORMATTING
        ]
        self._open[index:block] = between
        self._counts = Counter(element.name for element in self._open)
        self._inherit_from(index)

    def _close(self, names: tuple[str, ...], beyond: frozenset[str]) -> None:
        """Close the last element with a name and its content, unless it is outside `beyond`."""
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
        """Close all elements from an index on; formatting elements will be reopened."""
        while len(self._open) > index:
            element = self._open.pop()
            self._counts[element.name] -= 1
            if element.name in _MARKERS:
                self._waiting = element.waiting
            elif element.name in _FORMATTING and not element.is_skipped:
                alike = sum(
                    (other.name, other.says) == (element.name, element.says)
                    for other in self._waiting
                )
                if alike < _MOST_ALIKE:
                    self._waiting.insert(0, element)

    def _push(self, element: Element) -> None:
        if self.is_full:
            self._counts[self._open.pop().name] -= 1
        element.inherit(self.last if element.name in _PARTS_OF_TABLES else self.around)
        self._open.append(element)
        self._counts[element.name] += 1

    def _put_below(self, element: Element) -> None:
        """Put an element around all others; their text may come before its tag."""
        if self.has(element.name):
            return
        self._open.insert(int(element.name == "body" and self.has("html")), element)
        self._counts[element.name] += 1
        self._inherit_from(0)

    def _inherit_from(self, index: int) -> None:
        for at in range(index, len(self._open)):
            self._open[at].inherit(self._open[at - 1] if at else self._outside)
