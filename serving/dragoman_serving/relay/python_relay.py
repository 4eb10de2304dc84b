"""A model's connection to the engine's process, and the requests which that has not answered yet.

Knows frames and Triton's objects; must not know what a translation is.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

from dragoman.kernel.errors import DragomanError, as_dragoman_error
from dragoman_serving.relay.cancellation import CancellationWatch
from dragoman_serving.relay.messages import read_request, response_of
from dragoman_serving.relay.metrics_port import FigurePublisher
from dragoman_serving.relay.reply import Reply
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.engine_socket import VARIABLE
from dragoman_serving.service.frames import (
    MOST_BYTES,
    Answer,
    ErrorCode,
    Failure,
    Hello,
    Kind,
    pack_cancel,
    unpack_answer,
    unpack_figures,
    unpack_refused,
)

log = logging.getLogger(__name__)

_GONE = "UNAVAILABLE: the engine's process has gone"
"""The message names the status, which Triton 24.10 loses in streams and over HTTP."""


class Refused(DragomanError):
    """The engine's process cannot serve a model, or is not there."""


class Relay:
    """Requests go out by the threads that bring them; one thread brings the answers back."""

    def __init__(self, model: str, hello: Hello) -> None:
        """Introduce a model to the engine's process, and wait until it is loaded there.

        Args:
            model: its name.
            hello: what the engine's process is told of it.

        Raises:
            Refused: the engine's process refuses it, or is not there.
        """
        self._connection = Connection(_reach_engine())
        self._publisher = FigurePublisher(model)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._in_flight: dict[int, Reply] = {}
        self._gone = False
        frames = self._connection.frames()
        try:
            self._connection.send(hello.pack())
            self._wait_until_ready(frames)
        except BaseException:
            self._connection.close()
            raise
        self._watch = CancellationWatch()
        self._reader = threading.Thread(
            target=self._read, args=(frames,), name="dragoman-answers", daemon=True
        )
        self._reader.start()

    def take(self, request: Any) -> None:
        """Hand a request of Triton's over; it is answered sooner or later, whatever happens."""
        reply, number = Reply(request), next(self._numbers)
        try:
            frame = read_request(request, number).pack()
        except Exception as error:  # one request's error must not reach the others
            log.error("a request cannot be handed over: %s", type(error).__name__)
            message = str(as_dragoman_error(error))
            reply.send(response_of(Failure(number, ErrorCode.INTERNAL, message)))
            return
        if len(frame) > MOST_BYTES:
            message = f"the request is larger than {MOST_BYTES >> 20} MiB"
            reply.send(response_of(Failure(number, ErrorCode.INVALID_ARG, message)))
            return
        with self._lock:
            gone = self._gone
            if not gone:
                self._in_flight[number] = reply
        if gone:
            _give_up(number, reply)
            return
        # If the other side goes now, the reader answers.
        self._connection.send(frame)
        self._watch.watch(reply, partial(self._connection.send, pack_cancel(number)))

    def close(self) -> None:
        """Hang up; what is not answered yet is given up."""
        self._watch.close()
        self._connection.hang_up()
        self._reader.join()
        self._connection.close()

    def _wait_until_ready(self, frames: Iterator[tuple[Kind, bytes]]) -> None:
        for kind, body in frames:
            if kind is Kind.READY:
                return
            if kind is Kind.REFUSED:
                raise Refused(unpack_refused(body))
            if kind is Kind.FIGURES:
                self._publisher.publish(unpack_figures(body))
        raise Refused(_GONE)

    def _read(self, frames: Iterator[tuple[Kind, bytes]]) -> None:
        try:
            for kind, body in frames:
                if kind is Kind.ANSWER:
                    self._pass_on(unpack_answer(body))
                elif kind is Kind.FIGURES:
                    self._publisher.publish(unpack_figures(body))
        except Exception:
            log.exception("the engine's process cannot be understood")
            self._connection.hang_up()
        finally:  # nobody may wait for ever
            with self._lock:
                self._gone = True
            for number, reply in self._in_flight.items():
                _give_up(number, reply)
            self._in_flight.clear()

    def _pass_on(self, answer: Answer | Failure) -> None:
        response = response_of(answer)
        with self._lock:
            reply = self._in_flight.get(answer.number)
            if answer.last:
                self._in_flight.pop(answer.number, None)
        if reply is None:
            return
        if answer.last:
            reply.send(response)
        elif not reply.send_part(response):  # an error has ended it
            with self._lock:
                self._in_flight.pop(answer.number, None)
            self._connection.send(pack_cancel(answer.number))


def _reach_engine() -> socket.socket:
    path = os.environ.get(VARIABLE)
    if path is None:
        raise Refused(f"{VARIABLE} does not name the engine's socket; dragoman serve does")
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.connect(path)
    except OSError as error:
        connected.close()
        raise Refused(f"{path}: {error.strerror or error}") from error
    return connected


def _give_up(number: int, reply: Reply) -> None:
    reply.send(response_of(Failure(number, ErrorCode.UNAVAILABLE, _GONE)))
