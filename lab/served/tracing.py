"""The overhead of tracing: throughput and CPU time with spans of one request in a hundred.

Run from the project's folder on an otherwise idle machine:

    python -m lab.served.tracing --texts FILE

Two Tritons run, each with a gateway; one is traced, into a collector that only counts. They take
turns under load, and the one that starts a round comes last in the next. Triton also samples by
itself, so two in a hundred of the gateway's requests are traced. CPU time is that of Triton, the
engine and the gateway for each request; other work on the machine affects it less than throughput.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dragoman_load_test.confidence import Estimate
from dragoman_load_test.texts import read_texts

from dragoman.kernel.tracing import DEFAULT_RATE, TraceOptions
from lab.conditions import close
from lab.console import Advance, positive, progress
from lab.gateway.raw_http import post, run_load
from lab.gateway.running import run_gateway, serve
from lab.gateway.throughput import PROTOCOLS, Protocol
from lab.processor_time import cpu_s
from lab.report import markdown_table

_MODULE = "lab.served.tracing"
_WAYS = PROTOCOLS[:2]
"""Triton's own HTTP, and the gateway's own API."""


class _Handler(BaseHTTPRequestHandler):
    """Receives spans and counts their batches."""

    server: Collector

    def do_POST(self) -> None:
        """Receive a batch."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.batches += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


class Collector(ThreadingHTTPServer):
    """Receives spans; `batches` counts them."""

    daemon_threads = True
    batches = 0


@dataclass(frozen=True)
class Servers:
    """A Triton's HTTP URL, that of the gateway in front of it, and all their process ids."""

    triton: str
    gateway: str
    pids: tuple[int, ...]

    def load(self, way: Protocol, texts: Sequence[str], how: argparse.Namespace) -> Loaded:
        """Put them under load."""
        url = (self.triton if way is _WAYS[0] else self.gateway) + way.path
        requests = [post(url, way.body([text], how.beam_width)) for text in texts]
        before_s = cpu_s(self.pids)
        run = run_load(url, requests, how.clients, 0.0, how.seconds)
        used_s = cpu_s(self.pids) - before_s
        return Loaded(run.requests_per_s, 1000 * used_s / run.requests, run.p99_ms)


@dataclass(frozen=True)
class Loaded:
    """Result of a load."""

    requests_per_s: float
    processor_ms: float
    """CPU time of a request."""
    p99_ms: float


@contextlib.contextmanager
def running(tracing: TraceOptions | None) -> Iterator[Servers]:
    """Start both on free ports, and stop them at the end."""
    words = ["--cache-bytes=0"]
    if tracing is not None:
        words += [f"--otlp={tracing.url}", f"--trace-rate={tracing.rate}"]
    with serve(tracing) as server, run_gateway(server, *words) as gateway:
        assert server.engine is not None
        pids = (server.pid, server.engine.pid, gateway.pid)
        yield Servers(server.http_url, gateway.url, pids)


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
    with Collector(("127.0.0.1", 0), _Handler) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        yield collector
        collector.shutdown()


@dataclass(frozen=True)
class Case:
    """One row of the comparison, and its runs; in each round, both ran one after the other."""

    way: str
    without: Sequence[Loaded]
    traced: Sequence[Loaded]

    def row(self) -> list[str]:
        """A row of the table."""
        both = (self.without, self.traced)
        speeds = [Estimate.of([one.requests_per_s for one in runs]).mean for runs in both]
        costs = [Estimate.of([one.processor_ms for one in runs]).mean for runs in both]
        return [
            self.way,
            *(f"{speed:.0f}" for speed in speeds),
            self._ratio(lambda one: one.requests_per_s),
            *(f"{cost:.2f}" for cost in costs),
            self._ratio(lambda one: one.processor_ms),
        ]

    def _ratio(self, figure: Callable[[Loaded], float]) -> str:
        pairs = zip(self.traced, self.without, strict=True)
        ratio = Estimate.of([figure(traced) / figure(without) for traced, without in pairs])
        return f"{ratio.mean:.3f} ({ratio.low:.3f}..{ratio.high:.3f})"


def measure(
    servers: Sequence[Servers],
    way: Protocol,
    texts: Sequence[str],
    how: argparse.Namespace,
    advance: Advance,
) -> Case:
    """Load both in turns: AB, BA, AB ... The first round is not counted."""
    runs: tuple[list[Loaded], list[Loaded]] = ([], [])
    for number in range(how.rounds + 1):
        begin = number * len(texts) // (how.rounds + 1)
        of_round = [*texts[begin:], *texts[:begin]]
        for kind in (0, 1) if number % 2 == 0 else (1, 0):
            runs[kind].append(servers[kind].load(way, of_round, how))
        advance(way.name)
    return Case(way.name, runs[0][1:], runs[1][1:])


def main() -> None:
    """Print the table."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("--texts", type=Path, required=True, help="one text per line; may be .gz")
    parser.add_argument("--rounds", type=positive, default=12, help="default: 12")
    parser.add_argument("--seconds", type=positive, default=3, help="of each run (default: 3)")
    parser.add_argument("--clients", type=positive, default=32, help="default: 32")
    parser.add_argument("--beam-width", type=positive, default=4, help="default: 4")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    arguments = parser.parse_args()
    texts = list(dict.fromkeys(one for one in read_texts(arguments.texts) if len(one) < 300))
    cases = []
    with collecting() as collector, progress(len(_WAYS) * (arguments.rounds + 1)) as advance:
        options = TraceOptions(f"http://127.0.0.1:{collector.server_port}")
        with running(None) as plain, running(options) as traced:
            for way in _WAYS:
                cases.append(measure((plain, traced), way, texts, arguments, advance))
    share = f"traced at {DEFAULT_RATE:.0%}"
    head = ["to", "requests/s", share, "ratio (95 %)", "processor ms", share, "ratio (95 %)"]
    print(markdown_table(head, [case.row() for case in cases]))
    print(f"\nbatches of spans received: {collector.batches}")
    results = {"cases": [asdict(case) for case in cases], "batches": collector.batches}
    close(_MODULE, sys.argv[1:], load_1min, results, arguments.json)


if __name__ == "__main__":
    main()
