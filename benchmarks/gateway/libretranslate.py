"""The gateway beside LibreTranslate's own server, over one engine.

LibreTranslate's server is run as a program of its own, from an environment of its own. Its licence
is the AGPL: nothing of it is imported here, or installed with this project. To make the
environment, without Argos Translate, which brings PyTorch:

    python -m venv lt
    lt/bin/pip install --no-deps libretranslate==1.9.6
    lt/bin/pip install apscheduler==3.11.2 'ctranslate2<5' expiringdict==1.2.2 flask==2.2.5 \
        flask-babel==3.1.0 flask-limiter==2.6.3 flask-swagger==0.2.14 \
        flask-swagger-ui==4.11.1 itsdangerous==2.1.2 \
        langdetect==1.0.9 lexilang==1.0.7 'numpy<2' packaging==23.1 polib==1.1.1 \
        prometheus-client==0.15.0 redis==4.4.4 requests==2.31.0 sentencepiece \
        'setuptools<81' waitress==2.1.2 werkzeug==2.3.8

Then, from the project's folder, with nothing else at work on the machine:

    python -m benchmarks.gateway.libretranslate --program lt/bin/libretranslate --texts FILE

In the place of Argos Translate there is a stand-in. It translates as Argos Translate does, by
CTranslate2 with the weights of the shipped model in int8, a text at a time; or it asks the same
Triton as the gateway does. The cache is off on both sides.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

from dragoman_load_test.texts import read_texts
from dragoman_serving.launch.ports import free_ports

from benchmarks.conditions import close
from benchmarks.console import positive, progress
from benchmarks.gateway import argos_stand_in
from benchmarks.gateway.raw_http import Run, post, run_load
from benchmarks.gateway.running import REPOSITORY, running
from benchmarks.peers.ctranslate2_model import convert
from benchmarks.report import markdown_table, spread
from dragoman.kernel.errors import DragomanError

_MODULE = "benchmarks.gateway.libretranslate"
_WARM_UP_S = 0.7
_START_S = 60.0
_BUNDLE = REPOSITORY / "translate" / "1" / "bundle"


@contextlib.contextmanager
def other_server(program: Path, threads: int, variables: Mapping[str, str]) -> Iterator[str]:
    """LibreTranslate's own server on a free port.

    Args:
        program: of its environment.
        threads: that answer requests.
        variables: of the stand-in.

    Raises:
        DragomanError: it did not start.
    """
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("wb") as log:
        shutil.copy(argos_stand_in.__file__, folder)
        (Path(folder) / "sitecustomize.py").write_text("import argos_stand_in\n")
        environment = {**os.environ, **variables, "PYTHONPATH": folder}
        words = ["--port", str(port), "--threads", str(threads), "--disable-web-ui"]
        process = subprocess.Popen(
            [program, *words], cwd=folder, env=environment, stdout=log, stderr=log
        )
        url = f"http://127.0.0.1:{port}"
        try:
            deadline_s = time.monotonic() + _START_S
            while not _answers(f"{url}/languages"):
                if process.poll() is not None or time.monotonic() > deadline_s:
                    last = (Path(folder) / "log").read_text(errors="replace")[-500:]
                    raise DragomanError(f"{program} does not start: {last}")
                time.sleep(0.2)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310
            return True
    except OSError:
        return False


def measure(
    urls: Sequence[str], texts: Sequence[str], clients: int, seconds: float, rounds: int
) -> list[list[Run]]:
    """Runs of each server; round N of all ran one after the other."""
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
    parser.add_argument("--program", type=Path, required=True, help="lt/bin/libretranslate")
    parser.add_argument("--texts", type=Path, required=True, help="a text on each line; may be .gz")
    parser.add_argument("--isa", help="instruction set of CTranslate2, such as AVX512")
    parser.add_argument("--threads", type=positive, nargs="+", default=[4, 32])
    parser.add_argument("--clients", type=positive, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--rounds", type=positive, default=3, help="default: 3")
    parser.add_argument("--seconds", type=positive, default=3, help="of each run (default: 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    arguments = parser.parse_args()
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
                # By itself it chooses AVX2 on some CPUs where this is faster.
                **({"CT2_FORCE_CPU_ISA": arguments.isa} if arguments.isa else {}),
            },
            "our engine": {argos_stand_in.TRITON: urlsplit(servers.triton).netloc},
        }
        names = ["the gateway"]
        urls = [servers.gateway]
        for name, variables in translators.items():
            for threads in arguments.threads:
                names.append(f"LibreTranslate over {name}, {threads} threads")
                program = arguments.program.absolute()
                urls.append(stack.enter_context(other_server(program, threads, variables)))
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
