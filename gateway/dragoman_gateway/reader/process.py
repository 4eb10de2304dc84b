"""The process of a reader: answers one request after the other, until its input ends.

It has no secrets, opens no connections, and writes no files. Its memory and its files are limited
once, its processor time by each request: a document that takes too long or too much ends this
process, not the gateway.
"""

from __future__ import annotations

import ctypes
import io
import os
import resource
import signal
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from traceback import format_tb
from typing import Any, BinaryIO

import msgspec
from dragoman_documents.memory.pair_files import PairFile
from dragoman_documents.memory.pairs import Pair
from dragoman_options.refusal import Refusal

from dragoman_gateway.reader.documents import OpenPortion, inspect, pieces_of, portions_of
from dragoman_gateway.reader.exchange import (
    REPLY_HEAD,
    REQUEST_HEAD,
    Inspect,
    Join,
    NextPairs,
    NextPiece,
    NextPortion,
    Open,
    OpenPairs,
    ReadTexts,
    Request,
    SomePairs,
    Status,
    WritePortion,
    WriteTexts,
)
from dragoman_gateway.reader.marked import ReadText, excerpt_of, translation_of

MEMORY_BYTES = 512 << 20
"""Maximum memory besides what Python and its modules take. 1 MiB of usual HTML in one text takes 60
MiB, of unclosed tags 300 MiB."""
_MOST_PAIR_CHARACTERS = 1 << 18
_CHARACTERS_OF_PAIR = 100
"""What a pair costs besides its texts, as a number of characters."""
_FILES = 16
_NICENESS = 5
"""On a busy machine the gateway itself, and the engine, come first."""
NO_MEMORY_CODE = 12
"""Exit code if memory runs out where no reply can be written any more."""
_DEATH_SIGNAL_OPTION = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class _Reader:
    """Answers requests; holds at most one open document."""

    def __init__(self) -> None:
        self._file: BinaryIO = io.BytesIO()
        self._portions: Iterator[OpenPortion] = iter(())
        self._unwritten: deque[OpenPortion] = deque()
        self._pieces: Iterator[bytes] = iter(())
        self._pairs = PairFile(self._file)

    def answer(self, request: Request) -> Any:
        """Returns the reply to a request."""
        match request:
            case Inspect():
                return inspect(Path(request.path), request.name, request.options)
            case Open():
                self._file.close()
                self._file = Path(request.path).open("rb")  # noqa: SIM115 - for further requests
                self._portions = portions_of(self._file, request.form, request.options)
                self._unwritten.clear()
                for _ in range(request.skip):
                    next(self._portions, None)
                return None
            case NextPortion():
                if (opened := next(self._portions, None)) is None:
                    self._file.close()
                    return None
                self._unwritten.append(opened)
                return opened.portion
            case WritePortion():
                answers = [translation_of(answer) for answer in request.answers]
                return self._unwritten.popleft().written(answers, request.suggestions)
            case Join():
                self._pieces = _pieces(Path(request.path), Path(request.portions))
                return None
            case NextPiece():
                return next(self._pieces, None)
            case OpenPairs() | NextPairs():
                return self._answer_of_pairs(request)
            case ReadTexts():
                return [
                    ReadText.of(excerpt_of(text, request.form, index).segments)
                    for index, text in enumerate(request.texts)
                ]
            case WriteTexts():
                return [
                    excerpt_of(text, request.form, index)
                    .written([translation_of(answer) for answer in answers])
                    .decode()
                    for index, (text, answers) in enumerate(
                        zip(request.texts, request.answers, strict=True)
                    )
                ]

    def _answer_of_pairs(self, request: OpenPairs | NextPairs) -> SomePairs | None:
        if isinstance(request, OpenPairs):
            self._file.close()
            self._file = Path(request.path).open("rb")  # noqa: SIM115 - for further requests
            self._pairs = PairFile(self._file, request.source_language, request.target_language)
            return None
        pairs = list(_some(self._pairs.pairs))
        return SomePairs(pairs, self._pairs.languages, self._pairs.skipped)


def _pieces(path: Path, portions: Path) -> Iterator[bytes]:
    with path.open("rb") as file, portions.open("rb") as written:
        yield from pieces_of(file, written)


def _some(pairs: Iterator[Pair]) -> Iterator[Pair]:
    """Yields the next pairs."""
    characters = 0
    for pair in pairs:
        yield pair
        characters += _CHARACTERS_OF_PAIR + len(pair.source) + len(pair.target)
        if characters >= _MOST_PAIR_CHARACTERS:
            return


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answer requests until there are no more."""
    reader = _Reader()
    decoder = msgspec.msgpack.Decoder(Request)
    while len(head := requests.read(REQUEST_HEAD.size)) == REQUEST_HEAD.size:
        size, limit_s = REQUEST_HEAD.unpack(head)
        _limit_processor_time(limit_s)
        status, reply = _answered(reader, decoder, requests.read(size))
        replies.write(REPLY_HEAD.pack(len(reply), status) + reply)
        replies.flush()


def _answered(reader: _Reader, decoder: Any, written: bytes) -> tuple[Status, bytes]:
    try:
        return Status.DONE, msgspec.msgpack.encode(reader.answer(decoder.decode(written)))
    except MemoryError:
        return Status.NO_MEMORY, b""
    except ValueError as error:
        message = str(error).encode("utf-8", "replace").decode()
        return Status.INVALID, msgspec.msgpack.encode(Refusal.of(error)._replace(message=message))
    except Exception as error:
        fault = f"{type(error).__name__}\n{''.join(format_tb(error.__traceback__))}"
        return Status.FAULT, msgspec.msgpack.encode(fault)


def _limit_processor_time(limit_s: int) -> None:
    """Let the kernel end this process after some more seconds of processor time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft_s = int(used.ru_utime + used.ru_stime) + 1 + limit_s
    _, hard_s = resource.getrlimit(resource.RLIMIT_CPU)
    if hard_s != resource.RLIM_INFINITY:
        soft_s = min(soft_s, hard_s)
    resource.setrlimit(resource.RLIMIT_CPU, (soft_s, hard_s))


def _confine(parent: int) -> None:
    os.nice(_NICENESS)
    ctypes.CDLL(None).prctl(_DEATH_SIGNAL_OPTION, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()  # the gateway exited before
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    for kind, limit in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + MEMORY_BYTES),
        (resource.RLIMIT_NOFILE, _FILES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (limit, limit))


if __name__ == "__main__":
    _confine(int(sys.argv[1]))
    try:
        serve(sys.stdin.buffer, sys.stdout.buffer)
    except MemoryError:
        os._exit(NO_MEMORY_CODE)
