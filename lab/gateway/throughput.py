"""The gateway's overhead: its throughput compared with Triton's own HTTP, on the same cores.

Triton, the gateway and the load generator share the cores. Runs take turns, so that a slow phase of
the machine affects all of them. The cache is off, and all texts in flight at the same time differ.
The gateway uses the engine's socket; "own over gRPC" is one that reaches Triton over gRPC. The
processor time is the gateway's own, for a request.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

from lab.gateway.raw_http import Run, distinct_texts, post, rotated, run_load
from lab.measurement import (
    TEXTS,
    Results,
    alternate,
    number,
    option,
    positive,
    program,
    progress,
    ratios,
)
from lab.report import markdown_table, search_name, spread
from lab.servers import Running, running

_BATCH_WINDOWS = 4
"""How many times as long a run of batches is as a run of single sentences."""
_TRITON, _OVER_GRPC = "Triton", "own over gRPC"


@dataclass(frozen=True)
class Protocol:
    """One way to request the same translations.

    Attributes:
        path: of the request.
        body: builds the request from texts and a beam width.
        beam_widths: those that it can request.
    """

    path: str
    body: Callable[[Sequence[str], int], Any]
    beam_widths: tuple[int, ...] = (4, 1)


PROTOCOLS = {
    _TRITON: Protocol(
        "/v2/models/translate/generate",
        lambda texts, width: {
            "text_input": _one_or_all(texts),
            "source_language": "en",
            "target_language": "de",
            "beam_width": width,
        },
    ),
    "own": Protocol(
        "/api/v1/translate",
        lambda texts, width: {
            "text": _one_or_all(texts),
            "source_language": "en",
            "target_language": "de",
            "beam_width": width,
            "store": False,
        },
    ),
    # Its requests cannot choose the search: they get the default, beam 4.
    "LibreTranslate": Protocol(
        "/translate",
        lambda texts, _width: {"q": _one_or_all(texts), "source": "en", "target": "de"},
        (4,),
    ),
    "DeepL": Protocol(
        "/v2/translate",
        lambda texts, width: {
            "text": list(texts),
            "source_lang": "EN",
            "target_lang": "DE",
            "model_type": "quality_optimized" if width == 4 else "latency_optimized",
        },
    ),
}


PROTOCOLS[_OVER_GRPC] = PROTOCOLS["own"]


@dataclass(frozen=True)
class Case:
    """One row group of the comparison."""

    beam_width: int
    clients: int
    texts_per_request: int


def measure(
    servers: Running, case: Case, texts: Sequence[str], seconds: float, rounds: int
) -> dict[str, list[Run]]:
    """Runs by protocol; in each round, the protocols ran one after the other."""
    results: dict[str, list[Run]] = {}
    size = case.texts_per_request
    # A batch takes far longer than a sentence, and a window needs many answers.
    duration_s = seconds if size == 1 else _BATCH_WINDOWS * seconds
    for turn in range(rounds):
        of_round = rotated(texts, turn, rounds)
        groups = [of_round[i : i + size] for i in range(0, len(of_round) - size + 1, size)]
        runs = {}
        for name, protocol in PROTOCOLS.items():
            if case.beam_width in protocol.beam_widths:
                server = _server(servers, name)
                url = server + protocol.path
                requests = [post(url, protocol.body(group, case.beam_width)) for group in groups]
                pid = servers.pids.get(server)
                runs[name] = partial(run_load, url, requests, case.clients, duration_s, pid)
        for name, (run,) in alternate(runs, 1).items():
            results.setdefault(name, []).append(run)
    return results


def _server(servers: Running, name: str) -> str:
    if name == _TRITON:
        return servers.triton
    return servers.over_grpc if name == _OVER_GRPC else servers.gateway


def rows(case: Case, results: Mapping[str, Sequence[Run]]) -> list[list[str]]:
    """The table's rows for a case."""
    speeds = {name: [run.requests_per_s for run in runs] for name, runs in results.items()}
    return [
        [
            *(name, search_name(case.beam_width), str(case.texts_per_request), str(case.clients)),
            f"{statistics.median(speeds[name]) * case.texts_per_request:.0f}",
            "" if name == _TRITON else spread(ratios(speeds[name], speeds[_TRITON])),
            f"{statistics.median(run.p50_ms for run in runs):.1f}",
            f"{statistics.median(run.p99_ms for run in runs):.1f}",
            "" if name == _TRITON else f"{statistics.median(run.cpu_ms for run in runs):.2f}",
        ]
        for name, runs in results.items()
    ]


@program(
    TEXTS,
    number("--rounds", 3),
    number("--seconds", 3, "of each run of single sentences"),
    option("--clients", type=positive, nargs="+", default=[1, 8, 32, 128]),
    option("--beam-widths", type=positive, nargs="+", default=[4, 1]),
    number("--batch", 50, "sentences"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print the table."""
    texts = distinct_texts(arguments.texts)
    widths, batch = arguments.beam_widths, arguments.batch
    cases = [Case(width, clients, 1) for width in widths for clients in arguments.clients]
    cases += [Case(width, clients, batch) for width in widths for clients in (1, 8)]
    lines, results = [], []
    with running() as servers, progress(len(cases)) as advance:
        for case in cases:
            measured = measure(servers, case, texts, arguments.seconds, arguments.rounds)
            lines += rows(case, measured)
            runs = {name: [asdict(run) for run in of_name] for name, of_name in measured.items()}
            results.append({**asdict(case), "runs": runs})
            advance(f"{case.clients} clients")
        cached = cached_runs(servers.caching, texts, arguments.seconds)
    head = ["protocol", "search", "sentences a request", "clients", "sentences/s"]
    print(markdown_table([*head, "over Triton", "p50 ms", "p99 ms", "processor ms"], lines))
    print("\none client:")
    for name, run in cached.items():
        print(f"{name}: {run.p50_ms:.2f} ms, 99 % within {run.p99_ms:.2f} ms")
    return {"cases": results, "cached": {name: asdict(run) for name, run in cached.items()}}


def cached_runs(gateway: str, texts: Sequence[str], seconds: float) -> dict[str, Run]:
    """Runs of one client with a cached sentence, alone and beside 32 clients that miss the cache.

    Beside them also with a text that the engine answers without decoding: what a cache in the
    engine could reach.
    """
    url = f"{gateway}/api/v1/translate"
    languages = {"source_language": "en", "target_language": "de", "beam_width": 1}
    hit = [post(url, {"text": texts[0], **languages})]
    number_texts = [f"{i} - {i + 1}" for i in range(1000)]
    undecoded = [post(url, {"text": text, **languages, "store": False}) for text in number_texts]
    misses = [post(url, {"text": text, **languages, "store": False}) for text in texts[1:]]
    runs = {"a cached sentence": run_load(url, hit, 1, seconds)}
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(int).result()  # it has started
        for name, requests in (
            ("beside 32 clients that miss", hit),
            ("beside them, a text that the engine answers without decoding", undecoded),
        ):
            load = pool.submit(run_load, url, misses, 32, 2 * seconds)
            runs[name] = run_load(url, requests, 1, seconds)
            load.result()
    return runs


def _one_or_all(texts: Sequence[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else list(texts)


if __name__ == "__main__":
    sys.exit(main())
