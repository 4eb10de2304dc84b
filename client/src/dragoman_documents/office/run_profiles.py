"""Tables of the formats whose paragraphs consist of runs: texts with equal properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dragoman_documents.xml.xml_spelling import Change

_ESCAPE = re.compile("_x([0-9A-Fa-f]{4})_")


class Range(NamedTuple):
    """One of two empty elements that mark the begin and end of a range.

    Attributes:
        kind: kind of the range; two elements of one kind with the same `id` belong together.
        is_first: whether it marks the begin.
    """

    kind: str
    is_first: bool


@dataclass(frozen=True)
class RunProfile:
    """The elements of a format. Names are local: without their prefix.

    Attributes:
        paragraphs: elements with runs; each is a text.
        run: element with properties, texts and objects.
        text: element of a run with text.
        properties: element of a run with its properties.
        ignored: properties, and attributes of properties, in which runs of a text may differ.
        wrappers: elements around runs, such as a link.
        heads: elements that are the first in a wrapper, such as its properties.
        shells: elements around runs by the name of their inner element with the runs.
        breaks: objects that end a line or a column.
        objects: objects between two words; all others show nothing there.
        dropped: elements that are left out of a translated text.
        characters: elements that stand for a character of a word.
        opaque: elements whose texts are not translated.
        ranges: pairs of empty elements by name.
        direct: elements with text of their own, by name; the value has the names of elements of
            which one must enclose it.
        attributes: attributes with text, by name of the element; a single letter is no text.
        has_space: whether white space at the ends of a text must be declared.
        decode: removes the format's own escapes from unescaped XML text.
        encode: the reverse of `decode`.
    """

    paragraphs: frozenset[str] = frozenset({"p"})
    run: str = "r"
    text: str = "t"
    properties: str = "rPr"
    ignored: frozenset[str] = frozenset()
    wrappers: frozenset[str] = frozenset()
    heads: frozenset[str] = frozenset()
    shells: Mapping[str, str] = field(default_factory=dict)
    breaks: frozenset[str] = frozenset({"br"})
    objects: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    characters: Mapping[str, str] = field(default_factory=dict)
    opaque: frozenset[str] = frozenset()
    ranges: Mapping[str, Range] = field(default_factory=dict)
    direct: Mapping[str, frozenset[str]] = field(default_factory=dict)
    attributes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    has_space: bool = True
    decode: Change = str
    encode: Change = str


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


def _ranges(*kinds: str) -> dict[str, Range]:
    first = {f"{kind}Start": Range(kind, True) for kind in kinds}
    return first | {f"{kind}End": Range(kind, False) for kind in kinds}


_ALT_TEXTS = dict.fromkeys(("docPr", "cNvPr"), _names("descr title"))

WORD = RunProfile(
    ignored=_names("lang noProof w:hint"),
    wrappers=_names("hyperlink ins moveTo smartTag fldSimple customXml dir bdo"),
    heads=_names("smartTagPr customXmlPr fldData"),
    shells={"sdt": "sdtContent"},
    breaks=_names("br cr tab ptab"),
    objects=_names("sym object oMath oMathPara ruby pgNum dayShort dayLong monthShort monthLong"),
    dropped=_names("proofErr lastRenderedPageBreak softHyphen"),
    characters={"noBreakHyphen": "\u2011"},
    opaque=_names("del moveFrom oMath oMathPara ruby"),
    ranges=_ranges(
        "bookmark",
        "commentRange",
        "perm",
        "moveFromRange",
        "moveToRange",
        "customXmlInsRange",
        "customXmlDelRange",
        "customXmlMoveFromRange",
        "customXmlMoveToRange",
    ),
    attributes={
        **_ALT_TEXTS,
        "hyperlink": _names("w:tooltip"),
        "shape": _names("alt"),
        "textpath": _names("string"),
    },
)
"""Parts of DOCX with paragraphs."""

DRAWING = RunProfile(
    ignored=_names("lang altLang noProof dirty err smtClean bmk"),
    breaks=_names("br tab"),
    objects=_names("fld AlternateContent m"),
    opaque=_names("fld AlternateContent oMath"),
    direct={"v": _names("strCache multiLvlStrCache txData"), "pt": _names("strDim")},
    attributes=_ALT_TEXTS,
    has_space=False,
)
"""Slides, notes, charts, diagrams, and drawings of workbooks."""

COMMENTS = replace(DRAWING, direct={"text": _names("cm")})
"""Comments on slides, of both kinds."""


def _decoded(written: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), written)


def _encoded(text: str) -> str:
    return _ESCAPE.sub(lambda match: f"_x005F{match[0]}", text)


STRINGS = RunProfile(
    paragraphs=_names("si is"),
    dropped=_names("rPh phoneticPr"),
    decode=_decoded,
    encode=_encoded,
)
"""Shared strings and sheets of workbooks."""

CELL_COMMENTS = replace(STRINGS, paragraphs=_names("text"))
THREADS = RunProfile(paragraphs=frozenset(), direct={"text": _names("threadedComment")})
"""Comments on cells with answers."""

NUMBERING = RunProfile(paragraphs=frozenset(), attributes={"lvlText": _names("w:val")})
"""Lists of DOCX: their numbers have words, such as `Chapter %1`."""
NO_TEXT = RunProfile(paragraphs=frozenset())
"""Parts in which only the language of the document is set."""
TITLE = replace(NO_TEXT, direct={"title": _names("coreProperties meta metadata")})
"""The same parts, if the title among a document's properties is translated."""
