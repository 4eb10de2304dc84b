"""The gateway's overhead: its throughput compared with Triton's own HTTP, on the same cores.

Run from the project's folder on an otherwise idle machine:

    python -m lab.gateway.throughput --texts FILE

Triton, the gateway and the load generator share the cores. Runs take turns, so that a slow phase of
the machine affects all of them. The cache is off, and all texts in flight at the same time differ.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman_load_test.texts import read_texts

from lab.conditions import close
from lab.console import positive, progress
from lab.gateway.raw_http import Run, post, run_load
from lab.gateway.running import Running, running
from lab.report import markdown_table, search_name, spread

_WARM_UP_S = 0.7
_BATCH_WINDOWS = 4
"""How many times as long a run of batches is as a run of single sentences."""
_MODULE = "lab.gateway.throughput"
_TRITON = "Triton"
_Request = Callable[[Sequence[str], int], Any]


@dataclass(frozen=True)
class Protocol:
    """One way to request the same translations.

    Attributes:
        name: shown in the table.
        path: of the request.
        body: builds the request from texts and a beam width.
        beam_widths: those that it can request.
    """

    name: str
    path: str
    body: _Request
    beam_widths: tuple[int, ...] = (4, 1)


PROTOCOLS = (
    Protocol(
        _TRITON,
        "/v2/models/translate/generate",
        lambda texts, width: {
            "text_input": _one_or_all(texts),
            "source_language": "en",
            "target_language": "de",
            "beam_width": width,
        },
    ),
    Protocol(
        "own",
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
    Protocol(
        "LibreTranslate",
        "/translate",
        lambda texts, width: {"q": _one_or_all(texts), "source": "en", "target": "de"},
        (4,),
    ),
    Protocol(
        "DeepL",
        "/v2/translate",
        lambda texts, width: {
            "text": list(texts),
            "source_lang": "EN",
            "target_lang": "DE",
            "model_type": "quality_optimized" if width == 4 else "latency_optimized",
        },
    ),
)


@dataclass(frozen=True)
class Case:
    """One row group of the comparison."""

    beam_width: int
    clients: int
    texts_per_request: int


def cases(clients: Sequence[int], beam_widths: Sequence[int], batch: int) -> list[Case]:
    """All cases: single sentences, then batches with few clients."""
    single = [Case(width, count, 1) for width in beam_widths for count in clients]
    return single + [Case(width, count, batch) for width in beam_widths for count in (1, 8)]


def measure(
    servers: Running, case: Case, texts: Sequence[str], seconds: float, rounds: int
) -> dict[str, list[Run]]:
    """Runs by protocol; in each round, the protocols ran one after the other."""
    found: dict[str, list[Run]] = {}
    asked = [one for one in PROTOCOLS if case.beam_width in one.beam_widths]
    for number in range(rounds):
        # Other texts in each round, the same for all protocols.
        begin = number * len(texts) // rounds
        of_round = [*texts[begin:], *texts[:begin]]
        size = case.texts_per_request
        # A batch takes far longer than a sentence, and a window needs many answers.
        duration_s = seconds if size == 1 else _BATCH_WINDOWS * seconds
        groups = [of_round[i : i + size] for i in range(0, len(of_round) - size + 1, size)]
        for protocol in asked:
            url = (servers.triton if protocol.name == _TRITON else servers.gateway) + protocol.path
            requests = [post(url, protocol.body(group, case.beam_width)) for group in groups]
            run = run_load(url, requests, case.clients, _WARM_UP_S, duration_s)
            found.setdefault(protocol.name, []).append(run)
    return found


def measure_cached(servers: Running, text: str, seconds: float) -> Run:
    """One client requests a sentence that is in the cache."""
    url = f"{servers.caching}/api/v1/translate"
    body = {"text": text, "source_language": "en", "target_language": "de"}
    return run_load(url, [post(url, body)], 1, _WARM_UP_S, seconds)


def rows(case: Case, found: dict[str, list[Run]]) -> list[list[str]]:
    """The table's rows for a case."""
    triton = [run.requests_per_s for run in found[_TRITON]]
    lines = []
    for name, runs in found.items():
        speeds = [run.requests_per_s for run in runs]
        ratios = [one / other for one, other in zip(speeds, triton, strict=True)]
        lines.append(
            [
                name,
                search_name(case.beam_width),
                str(case.texts_per_request),
                str(case.clients),
                f"{statistics.median(speeds) * case.texts_per_request:.0f}",
                "" if name == _TRITON else spread(ratios),
                f"{statistics.median(run.p50_ms for run in runs):.1f}",
                f"{statistics.median(run.p99_ms for run in runs):.1f}",
            ]
        )
    return lines


def main() -> None:
    """Print the table."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("--texts", type=Path, required=True, help="one text per line; may be .gz")
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument(
        "--seconds", type=positive, default=3, help="of each run of single sentences (default: 3)"
    )
    parser.add_argument("--clients", type=positive, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--beam-widths", type=positive, nargs="+", default=[4, 1])
    parser.add_argument("--batch", type=positive, default=50, help="sentences (default: 50)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    arguments = parser.parse_args()
    try:
        texts = list(dict.fromkeys(one for one in read_texts(arguments.texts) if len(one) < 300))
    except ValueError as error:
        parser.error(str(error))
    planned = cases(arguments.clients, arguments.beam_widths, arguments.batch)
    lines, results = [], []
    with running() as servers, progress(len(planned)) as advance:
        for case in planned:
            begin_s = time.monotonic()
            found = measure(servers, case, texts, arguments.seconds, arguments.rounds)
            lines += rows(case, found)
            runs = {name: [asdict(run) for run in of_name] for name, of_name in found.items()}
            results.append({**asdict(case), "runs": runs})
            advance(f"{case.clients} clients")
            print(f"{case}: {time.monotonic() - begin_s:.0f} s", file=sys.stderr)
        cached = measure_cached(servers, texts[0], arguments.seconds)
    head = ["protocol", "search", "sentences a request", "clients", "sentences/s"]
    head += ["over Triton", "p50 ms", "p99 ms"]
    print(markdown_table(head, lines))
    print(
        f"\na cached sentence, one client: {cached.p50_ms:.2f} ms, 99 % within {cached.p99_ms:.2f} "
        f"ms, {cached.requests_per_s:.0f} requests/s"
    )
    written = {"cases": results, "cached": asdict(cached)}
    close(_MODULE, sys.argv[1:], load_1min, written, arguments.json)


def _one_or_all(texts: Sequence[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else list(texts)


if __name__ == "__main__":
    main()
