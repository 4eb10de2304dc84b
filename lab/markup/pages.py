"""Speed of translating pages as HTML, compared with their texts without markup.

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
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dragoman_client import Translation, Translator
from dragoman_client.document_translation import open_reader, parts_of, translate_parts
from dragoman_options.markup import Code, Markup, PlacedCodes
from dragoman_serving.launch.processes import children

from dragoman.kernel.sentences import split_sentences
from lab.measurement import Results, number, option, program, progress, ratios, seconds
from lab.processor_time import cpu_s
from lab.report import markdown_table, spread
from lab.servers import serve

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


Taken = tuple[list[float], list[float], list[float], list[float]]
"""For each round: seconds with markup and without, and CPU seconds of client and server."""


def measure(translator: Translator, works: Sequence[Work], rounds: int) -> Taken:
    """Translate everything with markup and without, in turns, after a warm-up."""
    taken: Taken = ([], [], [], [])
    for turn in range(1 + rounds):
        sums = [0.0] * 4
        for work in works:
            for index, run in enumerate((work.with_markup, _without_markup(work.requests))):
                begin_cpu_s = _cpu_s()
                sums[index] += seconds(partial(run, translator))
                sums[2 + index] += _cpu_s() - begin_cpu_s
        if turn:
            for of_kind, taken_s in zip(taken, sums, strict=True):
                of_kind.append(taken_s)
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


@program(option("pages", type=Path, nargs="+", metavar="PAGE"), number("--rounds", 5))
def main(arguments: argparse.Namespace) -> Results:
    """Measure and print."""
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
            marked, plain, marked_cpu, plain_cpu = measure(translator, works, arguments.rounds)
            sizes = str(len(texts)), str(sentences), f"{sentences / statistics.median(marked):.0f}"
            speeds = ratios(plain, marked), ratios(plain_cpu, marked_cpu)
            rows.append([name, *sizes, *map(spread, speeds)])
            results.append(
                {"case": name, "sentences": sentences, "ratios": speeds[0], "cpu": speeds[1]}
            )
            advance(name)
    print(markdown_table(_HEAD, rows))
    return {"results": results}


if __name__ == "__main__":
    sys.exit(main())
