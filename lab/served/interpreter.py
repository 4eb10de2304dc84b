"""Processor time of the engine's process for a sentence: the network, SentencePiece, Python.

Python's part holds the interpreter's lock, which all workers share. There is no Triton: a client
sends requests of one text to the engine's socket, and the next one after each answer. With
`--before`, another version's interpreter runs the engine in turns.
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
    return {"cases": results}


def _cells(costs: Sequence[Cost]) -> list[str]:
    columns = zip(*(asdict(cost).values() for cost in costs), strict=True)
    return [f"{statistics.median(column):.0f}" for column in columns]


if __name__ == "__main__":
    sys.exit(main())
