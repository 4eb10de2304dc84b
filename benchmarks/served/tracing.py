"""What tracing costs: throughput with spans of one request in a hundred, over that without.

Run from the project's folder, with nothing else at work on the machine:

    python -m benchmarks.served.tracing --texts FILE

Two Tritons, each with a gateway, run beside each other: one is traced, into a collector that only
counts. They take turns under load, and the one that begins a round ends the next. Triton samples by
itself too, so that of the gateway's requests two in a hundred are traced.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from dragoman_load_test.confidence import Estimate
from dragoman_load_test.texts import read_texts

from benchmarks.conditions import close
from benchmarks.console import Advance, positive, progress
from benchmarks.gateway.raw_http import Run, post, run_load
from benchmarks.gateway.running import run_gateway, serve
from benchmarks.gateway.throughput import PROTOCOLS, Protocol
from benchmarks.report import markdown_table, search_name
from dragoman.kernel.tracing import DEFAULT_RATE, TraceOptions

_MODULE = "benchmarks.served.tracing"
_WARM_UP_S = 0.7
_WAYS = PROTOCOLS[:2]
"""Triton's own HTTP, and the gateway's own API."""


class _Handler(BaseHTTPRequestHandler):
    """Takes spans and counts their batches."""

    server: Collector

    def do_POST(self) -> None:
        """Take a batch."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.batches += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


class Collector(ThreadingHTTPServer):
    """Where spans go; `batches` came so far."""

    daemon_threads = True
    batches = 0


@dataclass(frozen=True)
class Servers:
    """URLs of a Triton's HTTP, and of the gateway before it."""

    triton: str
    gateway: str

    def url(self, way: Protocol) -> str:
        """Where requests of this kind go."""
        return (self.triton if way is _WAYS[0] else self.gateway) + way.path


@contextlib.contextmanager
def running(tracing: TraceOptions | None) -> Iterator[Servers]:
    """Start both on free ports, and stop them at the end."""
    words = ["--cache-bytes=0"]
    if tracing is not None:
        words += [f"--otlp={tracing.url}", f"--trace-rate={tracing.rate}"]
    with serve(tracing) as server, run_gateway(server, *words) as gateway:
        yield Servers(server.http_url, gateway)


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port."""
    with Collector(("127.0.0.1", 0), _Handler) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        yield collector
        collector.shutdown()


@dataclass(frozen=True)
class Case:
    """What is measured, and its runs; round N of both ran one after the other."""

    way: str
    beam_width: int
    clients: int
    without: Sequence[Run]
    traced: Sequence[Run]

    def row(self) -> list[str]:
        """The table's line."""
        pairs = zip(self.traced, self.without, strict=True)
        ratio = Estimate.of([one.requests_per_s / other.requests_per_s for one, other in pairs])
        speeds = [Estimate.of([run.requests_per_s for run in runs]).mean for runs in self.kinds]
        return [
            self.way,
            search_name(self.beam_width),
            str(self.clients),
            *(f"{speed:.0f}" for speed in speeds),
            f"{ratio.mean:.3f} ({ratio.low:.3f}..{ratio.high:.3f})",
        ]

    @property
    def kinds(self) -> tuple[Sequence[Run], Sequence[Run]]:
        """Both kinds of runs."""
        return self.without, self.traced


def measure(
    servers: Sequence[Servers],
    way: Protocol,
    beam_width: int,
    texts: Sequence[str],
    arguments: argparse.Namespace,
    advance: Advance,
) -> Case:
    """Load both in turns: AB, BA, AB ..."""
    runs: tuple[list[Run], list[Run]] = ([], [])
    for number in range(arguments.rounds):
        begin = number * len(texts) // arguments.rounds
        of_round = [*texts[begin:], *texts[:begin]]
        for kind in (0, 1) if number % 2 == 0 else (1, 0):
            url = servers[kind].url(way)
            requests = [post(url, way.body([text], beam_width)) for text in of_round]
            run = run_load(url, requests, arguments.clients, _WARM_UP_S, arguments.seconds)
            runs[kind].append(run)
        advance(way.name)
    return Case(way.name, beam_width, arguments.clients, *runs)


def main() -> None:
    """Print the table."""
    load_1min = os.getloadavg()[0]
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}")
    parser.add_argument("--texts", type=Path, required=True, help="a text on each line; may be .gz")
    parser.add_argument("--rounds", type=positive, default=12, help="default: 12")
    parser.add_argument("--seconds", type=positive, default=3, help="of each run (default: 3)")
    parser.add_argument("--clients", type=positive, default=32, help="default: 32")
    parser.add_argument("--beam-widths", type=positive, nargs="+", default=[4])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    arguments = parser.parse_args()
    texts = list(dict.fromkeys(one for one in read_texts(arguments.texts) if len(one) < 300))
    cases = []
    runs = len(_WAYS) * len(arguments.beam_widths) * arguments.rounds
    with collecting() as collector, progress(runs) as advance:
        options = TraceOptions(f"http://127.0.0.1:{collector.server_port}")
        with running(None) as plain, running(options) as traced:
            for width in arguments.beam_widths:
                for way in _WAYS:
                    both = (plain, traced)
                    cases.append(measure(both, way, width, texts, arguments, advance))
    head = ["way", "search", "clients", "requests/s", f"traced at {DEFAULT_RATE:.0%}"]
    head.append("ratio, and its 95 % interval")
    print(markdown_table(head, [case.row() for case in cases]))
    print(f"\nbatches of spans that came: {collector.batches}")
    results = {"cases": [asdict(case) for case in cases], "batches": collector.batches}
    close(_MODULE, sys.argv[1:], load_1min, results, arguments.json)


if __name__ == "__main__":
    main()
