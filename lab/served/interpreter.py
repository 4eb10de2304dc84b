"""Processor time of the engine's process for a sentence: the network, SentencePiece, Python.

Python's part holds the interpreter's lock, which all workers share. There is no Triton: a client
sends requests of one text to the engine's socket, and the next one after each answer. With
`--before`, another version's interpreter runs the engine in turns.

A second table has the throughput of larger machines with several engine processes, computed from
these times. Nothing of it is measured, and the processor time of Triton, the gateway and the
clients is not part of it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from dragoman_options.client_frames import pack_hello, pack_request, request_of, unpack_answer
from dragoman_options.frames import DataType, Failure, FrameSplitter, Hello, Kind, Tensor
from dragoman_options.table import OUTPUTS, TRANSLATE
from dragoman_serving.engine.settings import Tuning
from dragoman_training.text.parallel_text import read_lines

from dragoman.kernel.errors import CheckFailed, DragomanError
from lab.measurement import (
    BUNDLE,
    DATA_DIR,
    Results,
    alternate,
    number,
    option,
    positive,
    program,
    progress,
)
from lab.report import markdown_table, search_name

TEXTS = {"short": "tatoeba-en-de/test", "long": "newstest/newstest2014.en-de"}
"""Files of texts, by name."""
_OUTPUTS = tuple(output.name for output in OUTPUTS.values() if TRANSLATE in output.models)
_RECEIVED_BYTES = 1 << 18
_GATHER_S = 3e-3
"""The client reads answers together, as Triton's relay does for 32 clients."""
_TIMEOUT_US = 60_000_000
_CORES, _ENGINES = (8, 16, 32, 64), (1, 2, 4, 8, 16)
"""Machines and numbers of engine processes of the computed table."""
_WARM_UP = 3
"""Requests before the measured ones, in rounds of all clients."""


@dataclass(frozen=True)
class Cost:
    """Processor time for a sentence, in microseconds, and sentences per second.

    Attributes:
        network: encoder and decoder, in compiled code.
        tokens: SentencePiece.
        python: everything else in the engine's process, with its system calls.
        sentences_per_s: throughput.
    """

    network: float
    tokens: float
    python: float
    sentences_per_s: float

    @property
    def most_cores(self) -> float:
        """Cores that one process can keep busy: beyond, all workers wait for the lock."""
        return (self.network + self.tokens + self.python) / self.python

    def computed(self, cores: int, engines: int) -> float:
        """Returns the throughput of a machine with several engine processes, in sentences/s.

        Each process has its part of the cores, and a worker for each of them, up to the default's
        limit. A worker computes for `network` and `tokens`, then waits for the lock and holds it
        for `python`, and begins again. With times that vary at random, mean value analysis gives
        the throughput: a worker that comes finds the queue that one worker less would have.

        Args:
            cores: of the machine.
            engines: number of processes, at most that of the cores.

        Source: Reiser, Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing Networks",
            Journal of the ACM 27 (1980), for one queue.
        """
        queue, per_us = 0.0, 0.0
        for workers in range(1, min(cores // engines, Tuning().workers_most) + 1):
            at_lock_us = self.python * (1 + queue)
            per_us = workers / (self.network + self.tokens + at_lock_us)
            queue = per_us * at_lock_us
        return 1e6 * engines * per_us


class EngineProcess:
    """An engine's process, and a connection to it."""

    def __init__(self, python: str, bundle: Path) -> None:
        """Start it, and wait until it has loaded the bundle.

        Raises:
            DragomanError: it did not start.
        """
        self._process = subprocess.Popen(
            [python, "-P", str(Path(__file__).with_name("interpreter_worker.py")), str(bundle)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._socket = socket.socket(socket.AF_UNIX)
        assert self._process.stdout is not None
        if not (path := self._process.stdout.readline().strip()):
            raise DragomanError("the engine did not start; see its output above")
        self._socket.connect(path)
        self._socket.sendall(pack_hello(Hello(TRANSLATE)))
        self._frames = self._received()
        next(self._frames)
        self._waiting: list[bytes] = []
        """Answers that were not taken yet."""
        self._numbers = itertools.count(1)

    def close(self) -> None:
        """Stop it."""
        self._socket.close()
        self._process.communicate()

    def measure(self, texts: Sequence[str], width: int, clients: int, requests: int) -> Cost:
        """Returns the cost of a sentence under load.

        Args:
            texts: texts of one sentence each, sent in turns.
            width: beam width.
            clients: requests in flight.
            requests: requests after the warm-up.

        Raises:
            CheckFailed: a request failed.
        """
        frames = (self._request(text, width) for text in itertools.cycle(texts))
        self._socket.sendall(b"".join(itertools.islice(frames, clients)))
        self._answer(frames, _WARM_UP * clients)
        begin_s, begin = time.perf_counter(), self._times()
        self._answer(frames, requests)
        elapsed_s, end = time.perf_counter() - begin_s, self._times()
        self._answer(iter(()), clients)
        whole, network, tokens = (
            1e6 * (after - before) / requests for before, after in zip(begin, end, strict=True)
        )
        return Cost(network, tokens, whole - network - tokens, requests / elapsed_s)

    def _answer(self, frames: Iterator[bytes], count: int) -> None:
        """Wait for answers, and send the next request after each."""
        while count:
            time.sleep(_GATHER_S)
            answers = self._waiting or next(self._frames)
            answers, self._waiting = answers[:count], answers[count:]
            count -= len(answers)
            for body in answers:
                if isinstance(answer := unpack_answer(body), Failure):
                    raise CheckFailed(answer.message)
            if following := b"".join(itertools.islice(frames, len(answers))):
                self._socket.sendall(following)

    def _received(self) -> Iterator[list[bytes]]:
        """The bodies of all frames but metrics, in groups as they arrive."""
        splitter = FrameSplitter()
        while received := self._socket.recv(_RECEIVED_BYTES):
            frames = [body for kind, body in splitter.feed(received) if kind is not Kind.FIGURES]
            if frames:
                yield frames

    def _request(self, text: str, width: int) -> bytes:
        inputs = [
            Tensor.of("text_input", DataType.BYTES, (1, 1), [text.encode()]),
            Tensor.of("target_language", DataType.BYTES, (1, 1), [b"de"]),
            Tensor.of("beam_width", DataType.INT32, (1, 1), [width]),
        ]
        return pack_request(request_of(next(self._numbers), _TIMEOUT_US, {}, _OUTPUTS, inputs))

    def _times(self) -> Sequence[float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        times: Sequence[float] = json.loads(self._process.stdout.readline())
        return times


@program(
    DATA_DIR,
    BUNDLE,
    option("--before", help="Python of another version's environment"),
    option("--texts", nargs="+", choices=TEXTS, default=[*TEXTS]),
    option("--clients", type=positive, nargs="+", default=[32, 128]),
    option("--beam-widths", type=positive, nargs="+", default=[1, 4]),
    number("--requests", 2000, "of each run"),
    number("--rounds", 3),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print the table."""
    texts = {}
    for name in arguments.texts:
        lines = read_lines(arguments.data_dir / TEXTS[name], "en")
        texts[name] = [line.strip() for line in lines]
    cases = [
        (name, width, clients)
        for width in arguments.beam_widths
        for name in texts
        for clients in arguments.clients
    ]
    pythons = {"now": sys.executable}
    if arguments.before:
        pythons = {"before": arguments.before, **pythons}
    rows, results = [], []
    computed: list[list[str]] = []
    with contextlib.ExitStack() as running, progress(len(cases)) as advance:
        engines = {
            name: EngineProcess(python, arguments.bundle) for name, python in pythons.items()
        }
        for engine in engines.values():
            running.callback(engine.close)
        for name, width, clients in cases:
            load = (texts[name], width, clients, arguments.requests)
            runs = {version: partial(engine.measure, *load) for version, engine in engines.items()}
            for version, costs in alternate(runs, arguments.rounds, warm_up=1).items():
                rows.append([search_name(width), name, str(clients), version, *_cells(costs)])
                if version == "now" and clients == arguments.clients[-1]:
                    computed += _computed_rows([search_name(width), name], _median(costs))
                results.append(
                    {
                        **{"texts": name, "beam_width": width, "clients": clients},
                        **{"version": version, "runs": [asdict(cost) for cost in costs]},
                    }
                )
            advance(f"{name}, {clients} clients")
    head = ["search", "texts", "clients", "version", "network", "SentencePiece", "Python"]
    print("Microseconds of processor time for a sentence\n")
    print(markdown_table([*head, "sentences/s"], rows))
    print("\nComputed, not measured: sentences/s by the number of engine processes\n")
    head = ["search", "texts", "one process keeps busy", "cores of the machine"]
    print(markdown_table([*head, *map(str, _ENGINES)], computed))
    return {"cases": results}


def _median(costs: Sequence[Cost]) -> Cost:
    columns = zip(*(asdict(cost).values() for cost in costs), strict=True)
    return Cost(*map(statistics.median, columns))


def _cells(costs: Sequence[Cost]) -> list[str]:
    return [f"{value:.0f}" for value in asdict(_median(costs)).values()]


def _computed_rows(head: Sequence[str], cost: Cost) -> Iterator[list[str]]:
    for cores in _CORES:
        cells = [
            f"{cost.computed(cores, engines):.0f}" if engines <= cores else ""
            for engines in _ENGINES
        ]
        yield [*head, f"{cost.most_cores:.1f} cores", str(cores), *cells]


if __name__ == "__main__":
    sys.exit(main())
