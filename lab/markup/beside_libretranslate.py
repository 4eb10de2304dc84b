"""HTML through our gateway compared with LibreTranslate's own server, over one engine.

Run from the project's folder:

    python -m lab.markup.beside_libretranslate PAGE.html ... --environment FOLDER \
        --corpora CORPORA --tokenizer-tests FOLDER [--json FILE]

LibreTranslate is installed in the environment's folder unless it is there. Its server is unchanged
except for the translator, which asks the same Triton as our gateway. The invariants are checked
with made-up translators, on pages and on the inputs of html5lib's tokenizer tests. Speed and
requests are measured on whole pages, sent as `format=html` to both servers in turn, without a
cache. Tags are measured as in `lab.markup.end_to_end`; LibreTranslate gets the lines as
HTML.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import statistics
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dragoman_client import Translation, Translator
from dragoman_client.document_translation import read_text
from dragoman_client.markup.html_reader import HtmlReader
from dragoman_options.markup import PlacedCodes

from dragoman.kernel.sentences import split_sentences
from lab.conditions import close
from lab.console import positive, progress
from lab.gateway import argos_stand_in
from lab.gateway.libretranslate_server import VERSION, libretranslate, make_environment
from lab.gateway.made_up_translators import TRANSLATORS
from lab.gateway.running import Running, running
from lab.markup.end_to_end import batches, line_as_xml, root_of, translate_lines
from lab.markup.invariants import INVARIANTS, Holds, Results, judge, marked, shares
from lab.markup.tag_quality import tag_quality
from lab.markup.tagged_pairs import TaggedLine, read_tagged_pairs, tagged_line
from lab.report import markdown_table, percent, spread

_MODULE = "lab.markup.beside_libretranslate"
_SETS = (
    *(("amazon en-de/test-glossary", "de"), ("php en-de/test", "de")),
    *(("amazon en-fr/test-glossary", "fr"), ("php en-fr/test", "fr")),
)
_THREADS = 4
"""Threads of LibreTranslate; its default."""
_TIMEOUT_S = 600.0
_HEAD = (f"LibreTranslate {VERSION}", "Dragoman")

_TAG_BEGIN = re.compile(r"(</?)(?=[A-Za-z])")
_SURROGATE = re.compile("[\ud800-\udfff]")

Translate = Callable[[str], str]
Judged = Sequence[Mapping[str, Holds]]
Lines = Sequence[TaggedLine | None]


def html5lib_inputs(folder: Path) -> Iterator[str]:
    """The inputs of html5lib's tokenizer tests that are valid in UTF-8, without blank ones."""
    for path in sorted(folder.glob("*.test*")):
        content = path.read_bytes()
        tests = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        for test in (one for listed in tests.values() for one in listed):
            text = test["input"]
            if test.get("doubleEscaped"):
                text = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
            if text.strip() and not _SURROGATE.search(text):
                yield text


def by_our_client(name: str) -> Translate:
    """Translates HTML like our client and gateway, with a made-up translator."""

    def translate(page: str) -> str:
        excerpt = read_text(page, HtmlReader(encoding="utf-8"))
        answers = [
            Translation(
                *(TRANSLATORS[name](segment.text), 0, "stop"),
                codes=PlacedCodes(tuple((begin, end) for begin, end, _ in segment.markup.codes)),
            )
            for segment in excerpt.segments
        ]
        return excerpt.written(answers).decode()

    return translate


def by_server(url: str) -> Translate:
    """Translates HTML with a server of LibreTranslate's protocol; an error becomes the result."""

    def translate(page: str) -> str:
        try:
            return str(_ask(url, page))
        except urllib.error.HTTPError as error:
            return f"error {error.code}"

    return translate


def _ask(url: str, texts: str | Sequence[str], language: str = "de") -> Any:
    body = {"q": texts, "source": "en", "target": language, "format": "html"}
    request = urllib.request.Request(  # noqa: S310
        f"{url}/translate", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        return json.load(answer)["translatedText"]


def judged(pages: Sequence[str], translated: Callable[[str, Sequence[str]], list[str]]) -> Judged:
    """Check the invariants on translated pages.

    Args:
        pages: to translate.
        translated: translates pages with the made-up translator of a name.
    """
    with_marks = [marked(page) for page in pages]
    changed = translated("changed", [*pages, *filter(None, with_marks)])
    of_marked = iter(changed[len(pages) :])
    columns = zip(
        *(pages, translated("identity", pages), changed, translated("hostile", pages), with_marks),
        strict=False,
    )
    return [
        judge(Results(*column, next(of_marked) if column[-1] is not None else ""))
        for column in columns
    ]


def _theirs(environment: Path) -> Callable[[str, Sequence[str]], list[str]]:
    def translated(name: str, pages: Sequence[str]) -> list[str]:
        with (
            libretranslate(environment, _THREADS, {argos_stand_in.MADE_UP: name}) as url,
            ThreadPoolExecutor(_THREADS) as threads,
        ):
            return list(threads.map(by_server(url), pages))

    return translated


def _ours(name: str, pages: Sequence[str]) -> list[str]:
    return list(map(by_our_client(name), pages))


def invariants(pages: Sequence[str], environment: Path) -> list[list[str]]:
    """Rows with the share of pages for which each invariant holds."""
    theirs, ours = (shares(judged(pages, one)) for one in (_theirs(environment), _ours))
    return [[name, *(_share(*found[name]) for found in (theirs, ours))] for name in INVARIANTS]


def _share(held: int, of: int) -> str:
    return f"{percent(held / of)} of {of}" if of else "-"


@dataclass(frozen=True)
class Speed:
    """Speed of whole pages through a server.

    Attributes:
        requests: number of requests to the engine.
        rounds_s: seconds of each round.
    """

    requests: int
    rounds_s: list[float]


def speed(pages: Sequence[str], servers: Running, other: str, rounds: int) -> list[Speed]:
    """Translate all pages with LibreTranslate's server and with our gateway, in turns."""
    urls = other, servers.gateway
    taken: list[list[float]] = [[] for _ in urls]
    requests = [0 for _ in urls]
    for _ in range(1 + rounds):  # the first round is a warm-up
        for index, url in enumerate(urls):
            before, begin_s = _engine_requests(servers), time.perf_counter()
            for page in pages:
                _ask(url, page)
            taken[index].append(time.perf_counter() - begin_s)
            requests[index] = _engine_requests(servers) - before
    return [Speed(*one) for one in zip(requests, (one[1:] for one in taken), strict=True)]


def _engine_requests(servers: Running) -> int:
    """Number of requests that Triton has answered."""
    with urllib.request.urlopen(f"{servers.triton}/v2/models/translate/stats") as answer:  # noqa: S310
        (stats,) = json.load(answer)["model_stats"]
    return int(stats["inference_stats"]["success"]["count"])


def translate_as_html(url: str, language: str, lines: Sequence[TaggedLine]) -> Lines:
    """Translate lines with LibreTranslate, with element names that HTML does not define."""
    written = [
        one
        for batch in batches([_TAG_BEGIN.sub(r"\1x-", line_as_xml(line)) for line in lines])
        for one in _ask(url, batch, language)
    ]
    return [
        tagged_line(_with_empty(one.replace("<x-", "<").replace("</x-", "</"), line))
        for one, line in zip(written, lines, strict=True)
    ]


def _with_empty(written: str, line: TaggedLine) -> str:
    """What an HTML parser wrote, with the empty elements of a line written as in XML."""
    for name in {name for name, _, is_empty in line.names if is_empty}:
        written = re.sub(rf"<({re.escape(name)}\b[^<>]*)></{re.escape(name)}>", r"<\1/>", written)
    return written


def tags(corpora: Path, servers: Running, other: str) -> list[list[str]]:
    """Rows with the quality of tags."""
    rows = []
    for name, language in _SETS:
        prefix = corpora / f"markup-{name.replace(' ', '-')}"
        pairs = read_tagged_pairs(prefix, language)
        lines = [pair.line for pair in pairs]
        with Translator(servers.triton, timeout_s=_TIMEOUT_S) as translator:
            ours, _ = translate_lines(translator, language, lines, root_of(name))
        theirs = tag_quality(pairs, translate_as_html(other, language, lines))
        both = theirs, tag_quality(pairs, ours)
        rows += [
            [f"{name}: BLEU without tags", *(f"{one.bleu:.2f}" for one in both)],
            [f"{name}: BLEU of the pieces", *(f"{one.bleu_of_pieces:.2f}" for one in both)],
            [f"{name}: elements once", *(percent(one.once) for one in both)],
            [f"{name}: in their parent", *(percent(one.in_parent) for one in both)],
        ]
    return rows


def figures(pages: Sequence[str], found: Sequence[Speed]) -> list[list[str]]:
    """Rows with speed and requests."""
    ratios = [a / b for a, b in zip(*(one.rounds_s for one in found), strict=True)]
    texts = [
        segment.text
        for page in pages
        for segment in read_text(page, HtmlReader(encoding="utf-8")).segments
    ]
    sentences = sum(bool(one) for text in texts for one, _ in split_sentences(text, "en"))
    return [
        ["requests to the engine, a page", *(f"{one.requests / len(pages):.1f}" for one in found)],
        [
            "sentences a second",
            *(f"{sentences / statistics.median(one.rounds_s):.0f}" for one in found),
        ],
        ["its speed over LibreTranslate's", "", spread(ratios)],
    ]


def main() -> None:
    """Print the table."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("pages", type=Path, nargs="+", metavar="PAGE")
    parser.add_argument("--environment", type=Path, required=True, help="of LibreTranslate")
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--tokenizer-tests", type=Path, required=True, help="of html5lib")
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    arguments = parser.parse_args()
    make_environment(arguments.environment)
    pages = [page.read_text(encoding="utf-8") for page in arguments.pages]
    inputs = list(html5lib_inputs(arguments.tokenizer_tests))
    tables = {}
    with progress(4) as advance, running() as servers:
        for name, some in (("pages", pages), ("inputs of tokenizers", inputs)):
            tables[name] = invariants(some, arguments.environment)
            advance(name)
        variables = {argos_stand_in.TRITON: urlsplit(servers.triton).netloc}
        with libretranslate(arguments.environment, _THREADS, variables) as other:
            tables["speed"] = figures(pages, speed(pages, servers, other, arguments.rounds))
            advance("speed")
            tables["tags"] = tags(arguments.corpora, servers, other)
            advance("tags")
    for name, rows in tables.items():
        print(markdown_table((name, *_HEAD), rows), end="\n\n")
    close(_MODULE, sys.argv[1:], load_1min, {"tables": tables}, arguments.json)


if __name__ == "__main__":
    main()
