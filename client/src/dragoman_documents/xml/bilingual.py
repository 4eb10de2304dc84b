"""Units of bilingual files: translations are added beside the sources.

A unit is read as a whole. Its translation is written with the tags of its source. A unit that
already has a translation, or must not be translated, is not changed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from dragoman_documents.core.languages import (
    DocumentLanguages,
    is_same_language,
    names_language,
)
from dragoman_documents.core.segments import Raw, Segment
from dragoman_documents.core.suggestions import Suggestions, WithSuggestions
from dragoman_documents.xml.bilingual_forms import TMX, XLIFF_1, UnitForm
from dragoman_documents.xml.its_rules import local_name
from dragoman_documents.xml.outline import Item
from dragoman_documents.xml.xliff_suggestions import (
    MATCHES,
    IdentifiedText,
    Layout,
    alternatives,
    matches,
)
from dragoman_documents.xml.xml_roles import XmlRoles
from dragoman_documents.xml.xml_segmenter import XmlSegmenter
from dragoman_documents.xml.xml_spelling import ATTRIBUTE
from dragoman_documents.xml.xml_tokens import XmlToken

MOST_UNIT_BYTES = 1 << 24
"""A longer unit is refused, because it is held in memory."""

_TAG_END = re.compile(r"(?<!\s)\s*+/?>$")


class Places(NamedTuple):
    """Indices of a unit's items; an end index follows the end tag.

    Attributes:
        source: the element to translate.
        targets: the elements that get the translation; empty if a target must be created.
        target: the element that contains them.
        behind: where to insert a new target.
        indent: white space before a new target.
    """

    source: tuple[int, int]
    target: tuple[int, int] | None
    targets: tuple[tuple[int, int], ...]
    behind: int
    indent: bytes


class UnitReader:
    """Reads units from items."""

    def __init__(
        self, form: UnitForm, encoding: str, target_language: str | None, overwrites: bool
    ) -> None:
        """Start before the first item.

        Args:
            form: format of the document.
            encoding: encoding of the document.
            target_language: language of the translations; "und" is any.
            overwrites: whether to replace existing translations.

        Raises:
            ValueError: there is no target language.
        """
        if not target_language:
            raise ValueError(
                "the file is bilingual: give its target language, as target_language or "
                "--target-language"
            )
        self._form, self._encoding = form, encoding
        self._language, self._overwrites = target_language, overwrites
        self._roles = XmlRoles(form.profile, DocumentLanguages())
        self._unit: list[Item] = []
        self._unit_bytes = 0
        self._depth = 0
        self._protecting: set[str] = set()
        """Ids of the open markers of untranslated text."""
        self._source_language = ""
        self._is_wanted = True
        """Whether the translations at this place are in the target language."""
        self._languages: dict[str, bool] = {}
        """Target languages that the document declares, and whether each is the requested one."""
        self._out: list[Raw | Segment] = []

    @property
    def warnings(self) -> list[str]:
        """Warnings about ITS rules."""
        return self._roles.warnings

    def add(self, token: XmlToken) -> None:
        """Read the next token.

        Raises:
            ValueError: a unit is too long.
        """
        item = self._roles.item(token)
        name = local(token)
        whole = self._form.group or self._form.unit
        if token.kind == "start":
            if self._unit or name == whole:
                self._depth += 1
            elif name == "header":
                self._source_language = token.attributes.get("srclang", "")
        if not self._depth:
            self._out.append(Raw(self.with_language(token, name)))
            return
        self._unit.append(item)
        self._unit_bytes += len(token.raw)
        if self._unit_bytes > MOST_UNIT_BYTES:
            raise ValueError(f"a {whole} of more than {MOST_UNIT_BYTES} bytes")
        if token.kind == "end":
            self._depth -= 1
            if not self._depth:
                written = self._written_group if self._form.group else self.written
                self._out += written(self._unit)
                self._unit, self._unit_bytes = [], 0

    def take(self) -> list[Raw | Segment]:
        """Remove and return the complete parts."""
        out, self._out = self._out, []
        return out

    def finish(self) -> list[Raw | Segment]:
        """Returns the remaining parts.

        Raises:
            ValueError: no translations of the document are in the target language.
        """
        if self._languages and not any(self._languages.values()):
            named = " and ".join(map(repr, self._languages))
            raise ValueError(
                f"its translations are in {named}, not {self._language!r}: "
                f"give that target language, or change {self._form.language[1]}"
            )
        return self.take()

    def with_language(self, token: XmlToken, name: str) -> bytes:
        """Returns a token outside of units, with the target language if it lacks one."""
        element, attribute = self._form.language
        if token.kind != "start" or name != element:
            return token.raw
        named = token.attributes.get(attribute, "")
        is_any = not named or not names_language(self._language)
        self._is_wanted = is_any or is_same_language(named, self._language)
        self._languages[named] = self._is_wanted
        if attribute in token.attributes:
            return token.raw
        return self._tag(token, {attribute: self._language})

    def _written_group(self, group: list[Item]) -> Iterator[Raw | Segment]:
        """Yield units that are read together, of XLIFF 2; suggestions come before all of them."""
        self._protecting.clear()
        parts: list[list[Raw | Segment]] = [[Raw(item.token.raw)] for item in group]
        ids = {item.token.attributes.get("id", "") for item in group}
        new_ids = (name for name in map("s{}".format, count(1)) if name not in ids)
        texts: list[IdentifiedText] = []
        at, own_prefix = 1, None
        for begin, end in children(group):
            token = group[begin].token
            if local(token) == MATCHES and group[end - 1].token.raw:
                at, own_prefix = end - 1, _prefix(token)
            if local(token) != self._form.unit:
                continue
            unit = list(self.written(group[begin:end]))
            parts[begin:end] = [unit, *[[]] * (end - begin - 1)]
            segments = [part for part in unit if isinstance(part, Segment)]
            if len(segments) == 1:
                identity = token.attributes.get("id") or next(new_ids)
                texts.append(IdentifiedText(segments[0], identity))
                if identity not in ids:
                    unit[0] = self._with_id(token, texts[-1])
        layout = Layout(self._encoding, _prefix(group[0].token), _indent(group, 2))
        if texts and own_prefix != layout.prefix:  # the same: of two namespaces
            parts[at].insert(0, matches(texts, layout, own_prefix))
        yield from chain.from_iterable(parts)

    def _with_id(self, token: XmlToken, text: IdentifiedText) -> WithSuggestions:
        """Returns the start tag of a unit, which gets an id if suggestions refer to it."""
        attributes = self._form.unit_attributes
        plain = self._tag(token, attributes)

        def write(_: Sequence[Suggestions]) -> bytes:
            return self._tag(token, {**attributes, "id": text.id})

        return WithSuggestions(plain, segments=[text.segment], write=write)

    def written(self, unit: list[Item]) -> Iterator[Raw | Segment]:
        """Yield a unit, with a translation added if it lacks one."""
        raws = [Raw(item.token.raw) for item in unit]
        places = self.places(unit)
        content = self.content(unit, places.source) if places else []
        if places is None or not content:
            yield from raws
            return
        if self._is_done(unit, places):
            yield Raw(raws[0].content, left="done")
            yield from raws[1:]
            return
        form = self._form
        raws[0] = Raw(self._tag(unit[0].token, form.unit_attributes))
        if places.target is None:
            yield from raws[: places.behind]
            yield Raw(places.indent)
            yield from self._new_target(unit[places.source[0]].token, content)
            yield from self._alternatives(unit, places, content)
            yield from raws[places.behind :]
            return
        start = places.target[0]
        if places.targets != (places.target,):
            raws[start] = Raw(self._tag(unit[start].token, form.target_attributes))
        position = 0
        for begin, end in places.targets:
            is_target = begin == start
            yield from raws[position:begin]
            attributes = form.target_attributes if is_target else {}
            tag = self._tag(unit[begin].token, attributes, is_empty=False)
            yield Raw(tag)
            yield from content
            yield raws[end - 1] if raws[end - 1].content else Raw(self._end_tag(unit[begin].token))
            position = end
        yield from self._alternatives(unit, places, content)
        yield from raws[position:]

    def _alternatives(
        self, unit: list[Item], places: Places, content: list[Raw | Segment]
    ) -> Iterator[WithSuggestions]:
        """Yield the position of a unit's suggestions, behind its target, in XLIFF 1.2."""
        if self._form is not XLIFF_1:
            return
        begin, end = places.source
        inner = [
            (begin + first, begin + last)
            for first, last in children(unit[begin:end])
            if unit[begin + first].token.attributes.get("mtype") == "seg"
        ]
        texts: list[IdentifiedText] = []
        for start, stop in inner or [places.source]:
            parts = self.content(unit, (start, stop)) if inner else content
            segments = [part for part in parts if isinstance(part, Segment)]
            if len(segments) == 1:
                mid = unit[start].token.attributes.get("mid", "")
                texts.append(IdentifiedText(segments[0], mid))
        if texts:
            layout = Layout(self._encoding, _prefix(unit[0].token), places.indent)
            yield alternatives(texts, layout)

    def _is_done(self, unit: list[Item], places: Places) -> bool:
        """Whether a unit must not be changed."""
        if not (self._is_wanted and unit[places.source[0]].is_translated):
            return True
        known = dict(unit[0].token.attributes)
        has_text = False
        if places.target is not None:
            begin, end = places.target
            known |= unit[begin].token.attributes
            has_text = any(
                item.has_text or (item.token.kind == "start" and local(item.token) not in _HOLDING)
                for item in unit[begin + 1 : end - 1]
            )
        if self._overwrites:
            return False
        if is_among(known, self._form.closed):
            return True
        return has_text and not is_among(known, self._form.replaced)

    def content(self, unit: list[Item], source: tuple[int, int]) -> list[Raw | Segment]:
        """Returns the texts of an element, and the bytes between them."""
        begin, end = source
        profile = replace(self._form.profile, preserves=unit[begin].preserves)
        segmenter = XmlSegmenter(profile, self._encoding)
        for item in _with_kept_elements(unit[begin + 1 : end - 1]):
            self._follow_markers(item)
            segmenter.add(item._replace(is_translated=False) if self._protecting else item)
        return segmenter.finish()

    def _follow_markers(self, item: Item) -> None:
        token = item.token
        if _begins_protection(token) and item.role != "keep":
            self._protecting.add(token.attributes.get("id", ""))
        elif token.kind == "start" and local(token) == "em":
            self._protecting.discard(token.attributes.get("startRef", ""))

    def places(self, unit: list[Item]) -> Places | None:
        """Locate source and target; None: there is nothing to translate, or no target for it."""
        if self._form is TMX:
            return self._places_of_languages(unit)
        elements = list(children(unit))
        named = {local(unit[begin].token): (begin, end) for begin, end in reversed(elements)}
        source = next((named[name] for name in self._form.sources if name in named), None)
        if source is None:
            return None
        target = named.get(self._form.target)
        indent = _indent(unit, source[0])
        if target is None:
            return Places(source, None, (), source[1], indent)
        targets: tuple[tuple[int, int], ...] = (target,)
        if unit[0].token.attributes.get("numerus") == "yes":
            begin, end = target
            inner = [(begin + start, begin + stop) for start, stop in children(unit[begin:end])]
            targets = tuple(
                (start, stop)
                for start, stop in inner
                if local(unit[start].token) == self._form.slots
            )
        return Places(source, target, targets, source[1], indent) if targets else None

    def _places_of_languages(self, unit: list[Item]) -> Places | None:
        source = None
        for begin, end in children(unit):
            if local(unit[begin].token) != "tuv":
                continue
            attributes = unit[begin].token.attributes
            language = attributes.get("xml:lang", attributes.get("lang", ""))
            if is_same_language(language, self._language):
                return None
            if source is None and is_same_language(language, self._source_language):
                source = begin, end
        if source is None:
            return None
        begin, end = source
        for start, stop in children(unit[begin:end]):
            if local(unit[begin + start].token) == "seg":
                inner = begin + start, begin + stop
                return Places(inner, None, (), end, _indent(unit, begin))
        return None

    def _new_target(
        self, source: XmlToken, content: list[Raw | Segment]
    ) -> Iterator[Raw | Segment]:
        """Yield a new target element with its translation."""
        form = self._form
        prefix = _prefix(source)
        name = prefix + form.target
        attributes: dict[str, str | None] = {
            attribute: value
            for attribute, value in source.attributes.items()
            if attribute == "xml:space" or attribute.startswith("xmlns")
        }
        attributes |= {form.language[1]: self._language} if form is TMX else form.target_attributes
        inner = f"<{prefix}seg>" if form is TMX else ""
        yield Raw(f"<{name}{_attributes(attributes)}>{inner}".encode(self._encoding))
        yield from content
        yield Raw(f"{inner.replace('<', '</')}</{name}>".encode(self._encoding))

    def _tag(
        self, token: XmlToken, attributes: Mapping[str, str | None], *, is_empty: bool | None = None
    ) -> bytes:
        """Returns a start tag with changed attributes; None removes one."""
        written = token.raw.decode(self._encoding)
        written = ATTRIBUTE.sub(lambda match: "" if match[1] in attributes else match[0], written)
        end = _TAG_END.search(written)
        if end is None:
            return token.raw
        last = ">" if is_empty is False else end[0]
        return f"{written[: end.start()]}{_attributes(attributes)}{last}".encode(self._encoding)

    def _end_tag(self, token: XmlToken) -> bytes:
        return f"</{token.name}>".encode(self._encoding)


_HOLDING = frozenset({"mrk", "numerusform"})
"""Elements that do not count as content by themselves."""


def local(token: XmlToken) -> str:
    """Returns the name of an element without its prefix."""
    return local_name(token.name)


def _prefix(token: XmlToken) -> str:
    """Returns the prefix of an element's name, with its colon."""
    return token.name[: -len(local(token))]


def is_among(known: Mapping[str, str], values: Mapping[str, frozenset[str]]) -> bool:
    """Whether an element has one of the values of an attribute."""
    return any(known.get(name) in some for name, some in values.items())


def _attributes(attributes: Mapping[str, str | None]) -> str:
    return "".join(f" {n}={quoteattr(v)}" for n, v in attributes.items() if v is not None)


def _begins_protection(token: XmlToken) -> bool:
    """Whether a token is a marker that begins untranslated text."""
    is_marker = token.kind == "start" and local(token) == "sm"
    return is_marker and token.attributes.get("translate") == "no"


def _with_kept_elements(items: Sequence[Item]) -> list[Item]:
    """Returns the items, with protected text between two markers as an element to keep."""
    new_items, ends = list(items), _ends_of_protection(items)
    index = 0
    while index < len(items):
        item = items[index]
        last = ends.get(index)
        if last is not None:
            new_items[index] = item._replace(role="keep", is_translated=True)
            for inner in (index + 1, last):
                tag = replace(items[inner].token, kind="other")
                new_items[inner] = items[inner]._replace(token=tag)
            index = last
        index += 1
    return new_items


def _ends_of_protection(items: Sequence[Item]) -> dict[int, int]:
    """Returns the index of the end marker for each marker with one in the same element."""
    ends: dict[int, int] = {}
    waiting: list[dict[str | None, list[int]]] = [{}]
    """The markers without an end, by id, for each open element."""
    for index, item in enumerate(items):
        token = item.token
        if token.kind == "end":
            waiting.pop()
            waiting = waiting or [{}]
        elif token.kind == "start":
            if local(token) == "em":
                begins = waiting[-1].pop(token.attributes.get("startRef"), ())
                ends |= dict.fromkeys(begins, index)
            elif _begins_protection(token):
                waiting[-1].setdefault(token.attributes.get("id"), []).append(index)
            waiting.append({})
    return ends


def children(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the child elements of the element that the items form."""
    depth = begin = 0
    for index, item in enumerate(items):
        if item.token.kind == "start":
            depth += 1
            begin = index if depth == 2 else begin
        elif item.token.kind == "end":
            depth -= 1
            if depth == 1:
                yield begin, index + 1


def _indent(unit: Sequence[Item], begin: int) -> bytes:
    """Returns the white space before an element."""
    before = unit[begin - 1].token
    return before.raw if before.kind == "text" and not before.text.strip() else b""
