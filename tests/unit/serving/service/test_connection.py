"""Connections over a pair of sockets; the test reads the other side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from dragoman_options.client_frames import pack_cancel
from dragoman_options.frames import FrameSplitter, Kind, pack_refused, unpack_cancel
from dragoman_serving.service.connection import Connection

LONG = pack_refused("x" * 100_000)
MANY = 50
"""More long frames than a socket can buffer."""


class Ends:
    """A connection, and the other side's socket."""

    def __init__(self) -> None:
        near, self.far = socket.socketpair()
        self.far.settimeout(60)
        self.connection = Connection(near)

    def read(self) -> list[tuple[Kind, bytes]]:
        """Everything until the connection is closed."""
        splitter = FrameSplitter()
        frames: list[tuple[Kind, bytes]] = []
        while received := self.far.recv(1 << 16):
            frames += splitter.feed(received)
        return frames


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.far.close()
    made.connection.close()


def test_frames_arrive_in_order_from_both_sides(ends: Ends) -> None:
    for number in range(3):
        ends.connection.send(pack_cancel(number))
        ends.far.sendall(pack_cancel(10 + number))
    frames = ends.connection.frames()
    assert [unpack_cancel(next(frames)[1]) for _ in range(3)] == [10, 11, 12]
    ends.connection.close()
    assert [unpack_cancel(body) for _, body in ends.read()] == [0, 1, 2]


def test_a_slow_reader_does_not_block_the_sender(ends: Ends) -> None:
    assert not ends.connection.is_behind
    for number in range(MANY):
        ends.connection.send(LONG)
        ends.connection.send(pack_cancel(number))
    assert ends.connection.is_behind
    closing = threading.Thread(target=ends.connection.close)
    closing.start()
    frames = ends.read()
    closing.join(60)
    assert [kind for kind, _ in frames] == [Kind.REFUSED, Kind.CANCEL] * MANY
    assert [unpack_cancel(body) for _, body in frames[1::2]] == list(range(MANY))
    assert not ends.connection.is_behind


def test_frames_of_several_threads_are_not_mixed(ends: Ends) -> None:
    def send(sender: int) -> None:
        for number in range(MANY):
            ends.connection.send(LONG if number % 4 == 0 else pack_cancel(sender * MANY + number))

    senders = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
    for thread in senders:
        thread.start()

    def close() -> None:
        for sender in senders:
            sender.join()
        ends.connection.close()

    threading.Thread(target=close).start()
    numbers = [unpack_cancel(body) for kind, body in ends.read() if kind is Kind.CANCEL]
    for sender in range(4):
        own = [number for number in numbers if number // MANY == sender]
        assert own == [sender * MANY + number for number in range(MANY) if number % 4]


def test_nothing_is_sent_to_a_closed_connection(ends: Ends) -> None:
    ends.far.close()
    assert list(ends.connection.frames()) == []
    for _ in range(MANY):
        ends.connection.send(LONG)
    assert not ends.connection.is_behind
    ends.connection.close()
    ends.connection.send(LONG)


def test_a_reader_that_disconnects_blocks_nothing(ends: Ends) -> None:
    for _ in range(MANY):
        ends.connection.send(LONG)
    assert ends.connection.is_behind
    ends.far.close()
    ends.connection.close()
    assert not ends.connection.is_behind


def test_a_reader_that_leaves_too_much_is_cut_off(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_serving.service.connection._MOST_BACKLOG_BYTES", 10 * len(LONG))
    for _ in range(MANY):
        ends.connection.send(LONG)
    assert list(ends.connection.frames()) == []  # it has hung up
    frames = ends.read()  # what was in the socket
    assert len(frames) < MANY
    ends.connection.close()
    assert not ends.connection.is_behind


def test_answers_are_delivered_after_the_connection_stops_reading(ends: Ends) -> None:
    for _ in range(MANY):
        ends.connection.send(LONG)
    ends.connection.stop_reading()
    assert list(ends.connection.frames()) == []
    closing = threading.Thread(target=ends.connection.close)
    closing.start()
    assert len(ends.read()) == MANY
    closing.join(60)


def test_hanging_up_ends_both_sides(ends: Ends) -> None:
    ended = threading.Event()

    def read() -> None:
        assert list(ends.connection.frames()) == []
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    ends.connection.hang_up()
    assert ended.wait(60)
    assert ends.read() == []
