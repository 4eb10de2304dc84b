"""Triton's log: which lines are printed, and that writing to it never blocks."""

from __future__ import annotations

import os
import threading
import time

import pytest
from dragoman_serving.launch.server_log import REPORT_S, LogPipe, RepeatedLines

ACCEPT = b"[warn] Error from accept() call: Too many open files\n"
PIPE_BYTES = 1 << 16


def numbered(number: int) -> bytes:
    return b"E1123 15:41:45.%06d 19198 server.cc:241] failed %d times\n" % (number, number)


def test_the_first_lines_of_a_run_are_printed_then_a_count() -> None:
    lines = RepeatedLines()
    printed = lines.take(ACCEPT, 1000)
    assert ACCEPT in printed
    assert printed.count(b"\n") <= 10
    hidden = 1000 - printed.count(b"\n")
    assert lines.report() == b"(%d more lines like: %s)\n" % (hidden, ACCEPT.strip())
    assert lines.report() == b""


def test_a_continuing_run_stays_hidden_until_it_pauses() -> None:
    lines = RepeatedLines()
    lines.take(ACCEPT, 1000)
    lines.report()
    assert lines.take(ACCEPT, 5) == b""
    assert b"(5 more lines" in lines.report()
    assert lines.report() == b""  # a pause
    assert lines.take(ACCEPT) == ACCEPT


def test_numbers_and_times_do_not_distinguish_lines() -> None:
    lines = RepeatedLines()
    printed = b"".join(lines.take(numbered(number)) for number in range(1000))
    assert printed.startswith(numbered(0))
    assert printed.count(b"\n") <= 10
    assert b"(990 more lines like: E#" in lines.report()


def test_runs_that_alternate_are_both_hidden() -> None:
    lines = RepeatedLines()
    printed = b"".join(lines.take(ACCEPT) + lines.take(numbered(7)) for _ in range(1000))
    assert printed.count(b"\n") <= 20
    assert lines.report().count(b"\n") == 2


def test_memory_is_bounded() -> None:
    lines = RepeatedLines()
    for number in range(10_000):
        letters = "".join(chr(97 + int(digit)) for digit in str(number)).encode()
        assert lines.take(letters + b"x" * 10_000 + b"\n").startswith(letters)
    assert sum(map(len, lines._seen)) < 1 << 20


class Out:
    """A pipe in place of stderr."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.log = LogPipe(self.writing)

    def read_all(self) -> bytes:
        """What was written, after the log and this side are closed."""
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.extend(iter(self._read, b"")))
        reader.start()
        self.log.close()
        os.close(self.writing)
        reader.join(60)
        os.close(self.reading)
        return b"".join(read)

    def _read(self) -> bytes:
        return os.read(self.reading, 1 << 20)


def test_lines_that_do_not_repeat_are_forwarded_unchanged() -> None:
    out = Out()
    trace = b"".join(b" %d# %s in libc.so\n" % (n, os.urandom(8).hex().encode()) for n in range(8))
    text = b"Signal (11) received.\n\n" + trace + b"\xff\0 no line end"
    os.write(out.log.descriptor, text)
    assert out.read_all() == text


def test_a_flood_of_lines_is_collapsed() -> None:
    out = Out()
    flood = ACCEPT * 1000
    begin_s = time.monotonic()
    for _ in range(100):
        os.write(out.log.descriptor, flood)
    took_s = time.monotonic() - begin_s
    output = out.read_all()
    assert output.startswith(ACCEPT)
    assert output.count(b"\n") <= 10 + 2 * (took_s / REPORT_S + 2)
    counted = sum(int(line.split()[0][1:]) for line in output.splitlines() if line[:1] == b"(")
    assert counted + output.count(ACCEPT) == 100_000


def test_a_count_appears_while_the_run_continues() -> None:
    out = Out()
    os.write(out.log.descriptor, ACCEPT * 100)
    output = b""
    while b"more lines like" not in output:
        output += os.read(out.reading, 1 << 16)
    out.read_all()


def test_a_slow_stderr_blocks_no_process() -> None:
    out = Out()
    first = b"first\n"
    os.write(out.log.descriptor, first)
    for _ in range(10_000):  # it is not read
        os.write(out.log.descriptor, os.urandom(2000).hex().encode() + b"\n")
    output = out.read_all()
    assert output.startswith(first)
    assert b"bytes of the log were dropped" in output
    assert len(output) < 30 << 20


def test_a_closed_stderr_blocks_no_process() -> None:
    out = Out()
    os.close(out.reading)
    for number in range(1000):
        os.write(out.log.descriptor, os.urandom(4000).hex().encode() + b"%d\n" % number)
    out.log.say("goes on")
    out.log.close()
    os.close(out.writing)


def test_our_lines_follow_earlier_output() -> None:
    out = Out()
    os.write(out.log.descriptor, b"first\n")
    out.log.say("second")
    assert out.read_all() == b"first\nsecond\n"


@pytest.mark.parametrize("bytes_", [PIPE_BYTES, 3 * PIPE_BYTES])
def test_a_line_without_end_takes_no_more_memory_than_a_chunk(bytes_: int) -> None:
    out = Out()
    writer = threading.Thread(target=os.write, args=(out.log.descriptor, b"x" * bytes_))
    writer.start()
    writer.join(60)
    assert len(out.log._partial) <= 2 * PIPE_BYTES
    assert out.read_all().count(b"x") == bytes_


def test_two_lines_that_look_like_errors_are_omitted() -> None:
    out = Out()
    helper = b'server.cc:241] "CudaDriverHelper has not been initialized."\n'
    kept = (
        b"first\n",
        b'E1123 22:07:10.666590 197 server.cc:241] "CudaDriverHelper failed."\n',
        b"I1123 22:07:10.666590 197 " + helper,
        b"Signal (15) received. And more.\n",
        b"Signal (11) received.\n",
        b"last\n",
    )
    for line in kept:
        os.write(out.log.descriptor, b"Signal (15) received.\n")
        os.write(out.log.descriptor, b"E1123 22:07:10.666590 19775 " + helper + line)
    assert out.read_all() == b"".join(kept)


def test_a_crash_is_recognized_by_its_line() -> None:
    reading, writing = os.pipe()
    pipe = LogPipe(writing)
    os.write(pipe.descriptor, b"E1123 some error\nSignal (15) received.\n")
    os.write(pipe.descriptor, b"I1123 text: Signal (6) received.\n")
    wait_for_line(reading, b"text:")
    assert not pipe.tells_of_crash
    os.write(pipe.descriptor, b"Signal (11) received.\n")
    wait_for_line(reading, b"(11)")
    assert pipe.tells_of_crash
    pipe.close()
    os.close(reading)
    os.close(writing)


def wait_for_line(reading: int, text: bytes) -> None:
    read = b""
    while text not in read:
        read += os.read(reading, PIPE_BYTES)
