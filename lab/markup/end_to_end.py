"""Sentences with tags, translated as documents by a server: how well the tags are placed.

CORPORA and the test sets are those of `lab.markup.placement`: lines with the same tags as
their references, of which at least one needs an alignment. Each line is an XML document. The client
reads it, a server of the shipped model translates its texts and places their codes, and the client
writes it again. The output is compared with the reference.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar
from xml.sax.saxutils import escape

from dragoman_client import Translation, Translator
from dragoman_client.files.document_translation import read_text
from dragoman_documents.xml.xml_reader import XmlReader

from lab.markup.placement import CORPORA, PART, SETS
from lab.markup.tag_quality import TagQuality, bleu, tag_quality
from lab.markup.tagged_pairs import TaggedLine, TaggedPair, read_tagged_pairs, tagged_line
from lab.measurement import Results, program, progress
from lab.report import markdown_table, percent
from lab.servers import serve

_BATCH = 64
"""Texts in a request."""
_TIMEOUT_S = 300.0
_HEAD = '<!DOCTYPE para SYSTEM "para.dtd">'
"""With it, a document may use entities declared in other files, as PHP's manual does."""
_ROOTS = {"php": "para"}
"""Root elements of the DocBook sets; other lines get an element of generic XML."""
_ENTITY = re.compile(r"&amp;(\w+;)")
TABLE = (
    *("set", "lines", "elements", "once", "in their parent", "uncertain", "matched"),
    *("BLEU without tags", "of pieces", "ratio", "of best pieces", "ratio", "of untagged"),
)

_Item = TypeVar("_Item")


def translate_lines(
    translator: Translator, language: str, lines: Sequence[TaggedLine], root: str
) -> tuple[list[TaggedLine | None], float]:
    """Translate lines, each as a document.

    Args:
        translator: connected to a server.
        language: target language.
        lines: with their tags.
        root: name of the element around each line; it determines the XML format.

    Returns:
        The lines, None for one whose tags are not a tree; and the share of codes whose position
        is a guess.
    """
    begin, end = f"{_HEAD}<{root}>", f"</{root}>"
    excerpts = [read_text(begin + line_as_xml(line) + end, XmlReader()) for line in lines]
    segments = [segment for excerpt in excerpts for segment in excerpt.segments]
    answers: list[Translation] = []
    for batch in batches(segments):
        texts, markups = [segment.text for segment in batch], [segment.markup for segment in batch]
        answers += translator.translate(texts, markup=markups, **_options(language))
    rest = iter(answers)
    written = [excerpt.written([next(rest) for _ in excerpt.segments]) for excerpt in excerpts]
    tagged = [
        tagged_line(document.decode().removeprefix(begin).removesuffix(end)) for document in written
    ]
    uncertain = sum(answer.codes.uncertain for answer in answers if answer.codes)
    return tagged, uncertain / max(sum(len(segment.markup.codes) for segment in segments), 1)


def root_of(name: str) -> str:
    """The element around each line of a set."""
    return _ROOTS.get(name.split()[0], "s")


def line_as_xml(line: TaggedLine) -> str:
    """A line with its tags."""
    parts = [_written(line.pieces[0])]
    for tag, piece in zip(line.tags, line.pieces[1:], strict=True):
        parts += tag, _written(piece)
    return "".join(parts)


def _written(text: str) -> str:
    return _ENTITY.sub(r"&\1", escape(text))


def _measured(
    translator: Translator, language: str, pairs: Sequence[TaggedPair], root: str
) -> tuple[TagQuality, float, float]:
    """Results of a set, the share of uncertain codes, and BLEU of translations without tags."""
    tagged, uncertain = translate_lines(translator, language, [pair.line for pair in pairs], root)
    untagged: list[Translation] = []
    for batch in batches([pair.source for pair in pairs]):
        untagged += translator.translate(batch, **_options(language))
    plain = bleu(
        [(translation.text, pair.target) for translation, pair in zip(untagged, pairs, strict=True)]
    )
    return tag_quality(pairs, tagged), uncertain, plain


def _options(language: str) -> Any:
    return {"source_language": "en", "target_language": language, "beam_width": 4}


def batches(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """Items in batches, one for each request."""
    remaining = iter(items)
    while batch := list(itertools.islice(remaining, _BATCH)):
        yield batch


def row(name: str, quality: TagQuality, uncertain: float, plain: float) -> list[str]:
    """A row of the table."""
    return [
        *(name, str(quality.lines), str(quality.elements)),
        *map(percent, (quality.once, quality.in_parent, uncertain, quality.matched)),
        f"{quality.bleu:.2f}",
        *(f"{quality.bleu_of_pieces:.2f}", f"{quality.bleu_of_pieces / quality.bleu:.2f}"),
        *(
            f"{quality.bleu_of_best_pieces:.2f}",
            f"{quality.bleu_of_best_pieces / quality.bleu:.2f}",
        ),
        f"{plain:.2f}",
    ]


@program(CORPORA, PART)
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
    rows, results = [], []
    sets = [
        (name.format(f"en-{language}"), language)
        for language in ("de", "fr")
        for name in SETS[arguments.part]
    ]
    with (
        serve() as server,
        Translator(server.grpc_url, timeout_s=_TIMEOUT_S) as translator,
        progress(len(sets)) as advance,
    ):
        for name, language in sets:
            prefix = arguments.corpora / f"markup-{name.replace(' ', '-')}"
            pairs = read_tagged_pairs(prefix, language)
            quality, uncertain, plain = _measured(translator, language, pairs, root_of(name))
            rows.append(row(name, quality, uncertain, plain))
            figures = {"uncertain": uncertain, "bleu_of_untagged": plain}
            results.append({"set": name, **asdict(quality), **figures})
            advance(name)
    print(markdown_table(TABLE, rows))
    return {"results": results}


if __name__ == "__main__":
    sys.exit(main())
