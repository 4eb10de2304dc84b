"""Bilingual formats: XLIFF 1.2 and 2.x, Qt ts and TMX.

Source: XLIFF 1.2 and 2.1 (OASIS), https://doc.qt.io/qt-6/linguist-ts-file-format.html, TMX 1.4b.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from dragoman_documents.xml.xml_profiles import (
    LINE_BREAK_TAG,
    PLACEHOLDERS,
    PairedElement,
    Rule,
    XmlProfile,
    roles,
)
from dragoman_documents.xml.xml_tokens import XmlToken

_TAG_OF_ANGULAR = re.compile(r"(?:(?P<first>START)|CLOSE)_(?P<name>.+?)(?:_\d+)?")
"""Ids such as `START_LINK_1` and `CLOSE_LINK`."""


@dataclass(frozen=True)
class UnitForm:
    """A format with units, each with a source and an optional translation.

    Attributes:
        profile: profile of the content of a source.
        unit: name of the element with a source and its translation.
        group: name of the element with units that is read as a whole; empty: each unit is.
        sources: names of source elements; the first one in a unit is read.
        target: name of the element of the translation.
        slots: name of elements in the target that each have a translation.
        language: element and attribute that name the target language.
        replaced: attribute values of unit or target that mark a translation as missing.
        closed: attribute values of a unit that must not be changed.
        unit_attributes: attributes set on a unit that gets a translation; None: removed.
        target_attributes: attributes set on the translation.
    """

    profile: XmlProfile
    unit: str
    sources: tuple[str, ...]
    target: str
    language: tuple[str, str]
    source_language: str = ""
    group: str = ""
    slots: str = ""
    replaced: Mapping[str, frozenset[str]] = field(default_factory=dict)
    closed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    unit_attributes: Mapping[str, str | None] = field(default_factory=dict)
    target_attributes: Mapping[str, str | None] = field(default_factory=dict)


XLIFF_1 = UnitForm(
    XmlProfile(
        roles=roles(text="source seg-source", inline="g mrk", opaque="x bx ex bpt ept ph it"),
        otherwise="block",
        rules=(
            Rule("x", "ctype", re.compile("lb"), "break"),
            Rule("ph", "ctype", re.compile("lb"), "break"),
            Rule("x", "equiv-text", LINE_BREAK_TAG, "break"),
            Rule("mrk", "mtype", re.compile("protected"), "keep"),
            Rule("mrk", "mtype", re.compile("seg"), "block"),
        ),
        pairs={
            "x": PairedElement("tag", ("id",), value=_TAG_OF_ANGULAR),
            "bx": PairedElement("x", ("rid", "id"), True),
            "ex": PairedElement("x", ("rid", "id"), False),
            "bpt": PairedElement("pt", ("rid", "id"), True),
            "ept": PairedElement("pt", ("rid", "id"), False),
        },
        subflows=frozenset({"sub"}),
        preserving=frozenset({"source", "seg-source"}),
        keep=PLACEHOLDERS,
        has_tags_as_text=True,
    ),
    unit="trans-unit",
    sources=("seg-source", "source"),
    target="target",
    language=("file", "target-language"),
    source_language="source-language",
    replaced={"state": frozenset({"new", "needs-translation"})},
    closed={"approved": frozenset({"yes"}), "state": frozenset({"final", "signed-off"})},
    target_attributes={"state": "needs-review-translation", "state-qualifier": "mt-suggestion"},
)

XLIFF_2 = UnitForm(
    XmlProfile(
        roles=roles(text="source", inline="pc mrk", opaque="ph sc ec sm em cp"),
        otherwise="block",
        rules=(
            Rule("ph", "subType", re.compile("xlf:lb"), "break"),
            Rule("ph", "equiv", re.compile("LINE_BREAK"), "break"),  # of Angular
            Rule("ph", "disp", LINE_BREAK_TAG, "break"),
        ),
        pairs={
            "sc": PairedElement("c", ("id",), True),
            "ec": PairedElement("c", ("startRef",), False),
            "sm": PairedElement("m", ("id",), True),
            "em": PairedElement("m", ("startRef",), False),
        },
        keep=PLACEHOLDERS,
    ),
    unit="segment",
    group="unit",
    sources=("source",),
    target="target",
    language=("xliff", "trgLang"),
    source_language="srcLang",
    replaced={"state": frozenset({"initial"})},
    closed={"state": frozenset({"reviewed", "final"})},
    unit_attributes={"state": "translated", "subState": "dragoman:machine-translation"},
)

QT = UnitForm(
    XmlProfile(
        roles=roles(text="source", opaque="byte"),
        otherwise="block",
        preserving=frozenset({"source"}),
        keep=PLACEHOLDERS,
        has_tags_as_text=True,
        mnemonics=("&amp;",),
    ),
    unit="message",
    sources=("source",),
    target="translation",
    language=("TS", "language"),
    source_language="sourcelanguage",
    slots="numerusform",
    closed={"type": frozenset({"vanished", "obsolete"})},
    target_attributes={"type": "unfinished"},
)

TMX = UnitForm(
    XmlProfile(
        roles=roles(text="seg", inline="hi", opaque="bpt ept ph it ut"),
        otherwise="block",
        rules=(Rule("ph", "type", re.compile("lb"), "break"),),
        pairs={"bpt": PairedElement("pt", ("i",), True), "ept": PairedElement("pt", ("i",), False)},
        subflows=frozenset({"sub"}),
    ),
    unit="tu",
    sources=("seg",),
    target="tuv",
    language=("tuv", "xml:lang"),
)


def form_of(root: XmlToken) -> UnitForm | None:
    """Returns the format of a document by its root element; None: it is not bilingual."""
    name = root.name.rpartition(":")[2]
    if name == "xliff":
        return XLIFF_1 if root.attributes.get("version", "").startswith("1.") else XLIFF_2
    return {"TS": QT, "tmx": TMX}.get(name)
