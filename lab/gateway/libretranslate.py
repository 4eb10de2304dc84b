"""The gateway compared with LibreTranslate's own server, over the same engine.

LibreTranslate's server runs as a separate program, from its own environment. Run from the project's
folder on an otherwise idle machine:

    python -m lab.gateway.libretranslate --environment FOLDER --texts FILE

LibreTranslate is installed in FOLDER unless it is there. Its translator is `argos_stand_in`. It
either translates as Argos Translate does (CTranslate2, the weights of the shipped model in int8,
one text at a time), or asks the same Triton as the gateway. The cache is off on both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from dragoman_load_test.texts import read_texts

from dragoman.kernel.manifest import Manifest
from lab.conditions import close
from lab.console import positive, progress
from lab.gateway import argos_stand_in
from lab.gateway.libretranslate_server import libretranslate, make_environment
from lab.gateway.raw_http import Run, post, run_load
from lab.gateway.running import REPOSITORY, running
from lab.peers.ctranslate2_model import convert
from lab.report import markdown_table, spread

_MODULE = "lab.gateway.libretranslate"
_WARM_UP_S = 0.7
_BUNDLE = REPOSITORY / "translate" / "1" / "bundle"


def measure(
    urls: Sequence[str], texts: Sequence[str], clients: int, seconds: float, rounds: int
) -> list[list[Run]]:
    """Runs of each server; in each round, the servers ran one after the other."""
    found: list[list[Run]] = [[] for _ in urls]
    for number in range(rounds):
        begin = number * len(texts) // rounds
        of_round = [*texts[begin:], *texts[:begin]]
        for runs, url in zip(found, urls, strict=True):
            requests = [
                post(f"{url}/translate", {"q": text, "source": "en", "target": "de"})
                for text in of_round
            ]
            runs.append(run_load(url, requests, clients, _WARM_UP_S, seconds))
    return found


def main() -> None:
    """Print the table."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("--environment", type=Path, required=True, help="of LibreTranslate")
    parser.add_argument("--texts", type=Path, required=True, help="one text per line; may be .gz")
    parser.add_argument("--isa", help="instruction set of CTranslate2, such as AVX512")
    parser.add_argument("--threads", type=positive, nargs="+", default=[4, 32])
    parser.add_argument("--clients", type=positive, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--seconds", type=positive, default=3, help="of each run (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    arguments = parser.parse_args()
    make_environment(arguments.environment)
    texts = list(dict.fromkeys(one for one in read_texts(arguments.texts) if len(one) < 300))
    lines, results = [], []
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(running())
        model = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model"
        convert(_BUNDLE, model)
        translators = {
            "CTranslate2": {
                argos_stand_in.MODEL: str(model),
                argos_stand_in.TOKENIZER: str(_BUNDLE / "tokenizer.model"),
                argos_stand_in.LENGTH_PENALTY: str(Manifest.read(_BUNDLE).limits.length_penalty),
                # By default it chooses AVX2 on some CPUs where this is faster.
                **({"CT2_FORCE_CPU_ISA": arguments.isa} if arguments.isa else {}),
            },
            "our engine": {argos_stand_in.TRITON: urlsplit(servers.triton).netloc},
        }
        names = ["the gateway"]
        urls = [servers.gateway]
        for name, variables in translators.items():
            for threads in arguments.threads:
                names.append(f"LibreTranslate over {name}, {threads} threads")
                other = libretranslate(arguments.environment, threads, variables)
                urls.append(stack.enter_context(other))
        advance = stack.enter_context(progress(len(arguments.clients)))
        for clients in arguments.clients:
            found = measure(urls, texts, clients, arguments.seconds, arguments.rounds)
            for name, runs in zip(names, found, strict=True):
                ratios = [
                    ours.requests_per_s / theirs.requests_per_s
                    for ours, theirs in zip(found[0], runs, strict=True)
                ]
                lines.append(
                    [
                        name,
                        str(clients),
                        f"{statistics.median(run.requests_per_s for run in runs):.0f}",
                        "" if runs is found[0] else spread(ratios),
                        f"{statistics.median(run.p50_ms for run in runs):.1f}",
                        f"{statistics.median(run.p99_ms for run in runs):.1f}",
                    ]
                )
                results.append(
                    {"server": name, "clients": clients, "runs": [asdict(run) for run in runs]}
                )
            advance(f"{clients} clients")
    head = ["server", "clients", "requests/s", "the gateway over it", "p50 ms", "p99 ms"]
    print(markdown_table(head, lines))
    close(_MODULE, sys.argv[1:], load_1min, {"runs": results}, arguments.json)


if __name__ == "__main__":
    main()
