"""The gateway compared with LibreTranslate's own server, over the same engine.

LibreTranslate's server runs as a separate program, from its own environment. It is installed in the
folder `--environment` unless it is there. Its translator is `argos_stand_in`. It either translates
as Argos Translate does (CTranslate2, the weights of the shipped model in int8, one text at a time),
or asks the same Triton as the gateway. The cache is off on both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from dragoman.kernel.manifest import Manifest
from lab.gateway import argos_stand_in
from lab.gateway.libretranslate_server import libretranslate, make_environment
from lab.gateway.raw_http import Run, distinct_texts, post, rotated, run_load
from lab.measurement import (
    SHIPPED,
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
from lab.peers.processes import converted
from lab.report import markdown_table, spread
from lab.servers import running

_GATEWAY = "the gateway"


def measure(
    urls: dict[str, str], texts: Sequence[str], clients: int, seconds: float, rounds: int
) -> dict[str, list[Run]]:
    """Runs of each server; in each round, the servers ran one after the other."""
    results: dict[str, list[Run]] = {name: [] for name in urls}
    for turn in range(rounds):
        of_round = rotated(texts, turn, rounds)
        runs = {}
        for name, url in urls.items():
            bodies = ({"q": text, "source": "en", "target": "de"} for text in of_round)
            requests = [post(f"{url}/translate", body) for body in bodies]
            runs[name] = partial(run_load, url, requests, clients, seconds)
        for name, (run,) in alternate(runs, 1).items():
            results[name].append(run)
    return results


@program(
    option("--environment", type=Path, required=True, help="of LibreTranslate"),
    TEXTS,
    option("--isa", help="instruction set of CTranslate2, such as AVX512"),
    option("--threads", type=positive, nargs="+", default=[4, 32]),
    option("--clients", type=positive, nargs="+", default=[1, 8, 32, 128]),
    number("--rounds", 3),
    number("--seconds", 3, "of each run"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print the table."""
    make_environment(arguments.environment)
    texts = distinct_texts(arguments.texts)
    lines, results = [], []
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(running())
        translators = {
            "CTranslate2": {
                argos_stand_in.MODEL: str(stack.enter_context(converted(SHIPPED))),
                argos_stand_in.TOKENIZER: str(SHIPPED.resolve() / "tokenizer.model"),
                argos_stand_in.LENGTH_PENALTY: str(Manifest.read(SHIPPED).limits.length_penalty),
                # By default it chooses AVX2 on some CPUs where this is faster.
                **({"CT2_FORCE_CPU_ISA": arguments.isa} if arguments.isa else {}),
            },
            "our engine": {argos_stand_in.TRITON: urlsplit(servers.triton).netloc},
        }
        urls = {_GATEWAY: servers.gateway}
        for name, variables in translators.items():
            for threads in arguments.threads:
                other = libretranslate(arguments.environment, threads, variables)
                title = f"LibreTranslate over {name}, {threads} threads"
                urls[title] = stack.enter_context(other)
        advance = stack.enter_context(progress(len(arguments.clients)))
        for clients in arguments.clients:
            measured = measure(urls, texts, clients, arguments.seconds, arguments.rounds)
            speeds = {name: [run.requests_per_s for run in runs] for name, runs in measured.items()}
            for name, runs in measured.items():
                ratio = spread(ratios(speeds[_GATEWAY], speeds[name])) if name != _GATEWAY else ""
                figures = (f"{statistics.median(speeds[name]):.0f}", ratio)
                times = [
                    statistics.median(getattr(run, of_run) for run in runs)
                    for of_run in ("p50_ms", "p99_ms")
                ]
                lines.append([name, str(clients), *figures, *(f"{one_ms:.1f}" for one_ms in times)])
                results.append(
                    {"server": name, "clients": clients, "runs": [asdict(run) for run in runs]}
                )
            advance(f"{clients} clients")
    head = ["server", "clients", "requests/s", "the gateway over it", "p50 ms", "p99 ms"]
    print(markdown_table(head, lines))
    return {"runs": results}


if __name__ == "__main__":
    sys.exit(main())
