"""Speed of translating pages as HTML, compared with their texts without markup.

Run from the project's folder on an otherwise idle machine:

    python -m lab.markup.pages PAGE.html ... [--json FILE]

The pages are in English. The client reads each, a server of the shipped model translates its texts
and places their codes, and the client writes it; then the same texts are sent in the same requests
without markup. In further cases, some of the texts are sent with markup and without. The two ways
alternate, page by page. The table has the speed with markup over that without, for each round, and
the same ratio in CPU time of client and server together.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dragoman_client import Translation, Translator
from dragoman_client.document_translation import open_reader, parts_of, translate_parts
from dragoman_options.markup import Code, Markup, PlacedCodes
from dragoman_serving.launch.processes import children

from dragoman.kernel.sentences import split_sentences
from lab.conditions import close
from lab.console import positive, progress
from lab.gateway.running import serve
from lab.processor_time import cpu_s
from lab.report import markdown_table, spread

_MODULE = "lab.markup.pages"
_REQUESTS_AT_ONCE = 2
_TIMEOUT_S = 300.0
_OPTIONS: Any = {"source_language": "en", "target_language": "de", "beam_width": 4}
_HEAD = ("case", "texts", "sentences", "sentences/s", "over plain text", "by processor time")

Requests = Sequence[tuple[Sequence[str], Sequence[Markup]]]
"""Texts and their markup."""


@dataclass(frozen=True)
class Work:
    """Something to translate with and without markup.

    Attributes:
        requests: of its texts.
        with_markup: translates it with its markup.
    """

    requests: Requests
    with_markup: Callable[[Translator], None]


@dataclass(frozen=True)
class Taken:
    """Seconds of each round and CPU seconds, with markup and without."""

    marked_s: list[float] = field(default_factory=list)
    plain_s: list[float] = field(default_factory=list)
    marked_cpu_s: list[float] = field(default_factory=list)
    plain_cpu_s: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """The speed with markup over that without, for each round."""
        return [b / a for a, b in zip(self.marked_s, self.plain_s, strict=True)]

    @property
    def cpu_ratios(self) -> list[float]:
        """The same in CPU time."""
        return [b / a for a, b in zip(self.marked_cpu_s, self.plain_cpu_s, strict=True)]


def page_requests(page: Path) -> Requests:
    """The requests that the client makes for a page."""
    found = []

    def unchanged(texts: Sequence[str], markups: Sequence[Markup]) -> list[Translation]:
        found.append((texts, markups))
        spans = [tuple((begin, end) for begin, end, _ in one.codes) for one in markups]
        return [
            Translation(text, 0, "stop", codes=PlacedCodes(codes))
            for text, codes in zip(texts, spans, strict=True)
        ]

    _write(page, unchanged, concurrency=1)
    return found


def cases(pages: Sequence[Path]) -> dict[str, list[Work]]:
    """The cases, each with one work for each page."""
    of_pages = [(page, page_requests(page)) for page in pages]
    requests = [found for _, found in of_pages]
    inner = [_chosen(one, lambda text, markup: bool(markup.codes)) for one in requests]
    kept = [_chosen(one, lambda text, markup: bool(markup.keep)) for one in requests]
    enclosed = [
        [(texts, [Markup((Code(0, len(text)),)) for text in texts]) for texts, _ in one]
        for one in requests
    ]
    return {
        "pages": [Work(found, _as_document(page)) for page, found in of_pages],
        "texts with elements in them": [Work(one, _as_requests(one)) for one in inner if one],
        "texts with code in them": [Work(one, _as_requests(one)) for one in kept if one],
        "all texts, each in an element": [Work(one, _as_requests(one)) for one in enclosed],
    }


def measure(translator: Translator, works: Sequence[Work], rounds: int) -> Taken:
    """Translate everything with markup and without, in turns."""
    taken = Taken()
    for _ in range(rounds):
        sums = [0.0] * 4
        for work in works:
            for way, run in enumerate((work.with_markup, _without_markup(work.requests))):
                begin_s, begin_cpu_s = time.perf_counter(), _cpu_s()
                run(translator)
                sums[way] += time.perf_counter() - begin_s
                sums[2 + way] += _cpu_s() - begin_cpu_s
        lists = taken.marked_s, taken.plain_s, taken.marked_cpu_s, taken.plain_cpu_s
        for one, seconds in zip(lists, sums, strict=True):
            one.append(seconds)
    return taken


def _cpu_s() -> float:
    """CPU seconds of this process and of the server."""
    return cpu_s([os.getpid(), *children(os.getpid())])


def _chosen(requests: Requests, keeps: Callable[[str, Markup], bool]) -> Requests:
    """Requests with only some of their texts."""
    found = []
    for texts, markups in requests:
        chosen = [one for one in zip(texts, markups, strict=True) if keeps(*one)]
        if chosen:
            found.append(([text for text, _ in chosen], [markup for _, markup in chosen]))
    return found


def _as_document(page: Path) -> Callable[[Translator], None]:
    def run(translator: Translator) -> None:
        _write(
            page,
            lambda texts, markups: translator.translate(texts, markup=markups, **_OPTIONS),
            concurrency=_REQUESTS_AT_ONCE,
        )

    return run


def _as_requests(requests: Requests) -> Callable[[Translator], None]:
    def run(translator: Translator) -> None:
        _at_once(
            lambda request: translator.translate(request[0], markup=request[1], **_OPTIONS),
            requests,
        )

    return run


def _without_markup(requests: Requests) -> Callable[[Translator], None]:
    def run(translator: Translator) -> None:
        _at_once(lambda request: translator.translate(request[0], **_OPTIONS), requests)

    return run


def _at_once(ask: Callable[[Any], Any], requests: Iterable[Any]) -> None:
    with ThreadPoolExecutor(_REQUESTS_AT_ONCE) as threads:
        list(threads.map(ask, requests))


def _write(page: Path, translate: Any, *, concurrency: int) -> None:
    with page.open("rb") as file:
        parts = parts_of(open_reader("html", {}), file, page.name)
        for _ in translate_parts(parts, translate, concurrency=concurrency):
            pass


def main() -> None:
    """Measure and print."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("pages", type=Path, nargs="+", metavar="PAGE")
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    arguments = parser.parse_args()
    measured = cases(arguments.pages)
    rows, results = [], []
    with (
        serve() as server,
        Translator(server.grpc_url, timeout_s=_TIMEOUT_S) as translator,
        progress(len(measured)) as advance,
    ):
        for name, works in measured.items():
            texts = [text for work in works for texts, _ in work.requests for text in texts]
            sentences = sum(bool(one) for text in texts for one, _ in split_sentences(text, "en"))
            measure(translator, works, 1)
            taken = measure(translator, works, arguments.rounds)
            speed = sentences / statistics.median(taken.marked_s)
            sizes = str(len(texts)), str(sentences), f"{speed:.0f}"
            rows.append([name, *sizes, spread(taken.ratios), spread(taken.cpu_ratios)])
            results.append({"case": name, "sentences": sentences, **asdict(taken)})
            advance(name)
    print(markdown_table(_HEAD, rows))
    close(_MODULE, sys.argv[1:], load_1min, {"results": results}, arguments.json)


if __name__ == "__main__":
    main()
