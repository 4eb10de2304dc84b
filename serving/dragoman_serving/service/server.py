"""Accepts connections of clients. Loaded bundles survive a crash of Triton."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from dragoman_options.frames import (
    Damaged,
    Hello,
    Kind,
    OtherProtocol,
    Request,
    RequestParser,
    pack_ready,
    pack_refused,
    unpack_cancel,
)
from dragoman_options.table import SCORE, STREAM, TRANSLATE

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.tracing import Tracing, sampled_context
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.configuration import engine_settings, request_rules
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.engine_socket import is_own_user
from dragoman_serving.service.info import InfoModel
from dragoman_serving.service.model_config import MODELS, model_config
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.service.score import ScoreModel
from dragoman_serving.service.served_model import Model
from dragoman_serving.service.translate import TranslateModel
from dragoman_serving.service.translate_stream import TranslateStreamModel

log = logging.getLogger(__name__)

_PAUSE_S = 0.5
"""Pause before the next attempt to accept a connection."""
_LAST_ANSWERS_S = 0.5
"""Time for the last answers after the engine failed."""
_DRAIN_S, _DRAIN_POLL_S = 4.0, 0.02
"""Time for requests in flight when the process is stopped."""
_NO_PARAMETERS: Mapping[str, str] = {}
_GARBAGE = 50_000
"""New objects before a garbage collection: with Python's 700, it takes a tenth of the time."""


def give_up(failure: Exception) -> None:
    """End the process after a failure; the models then report that the engine is gone."""
    log.critical("%s; giving up", failure, exc_info=failure)
    time.sleep(_LAST_ANSWERS_S)
    os._exit(1)


class Server:
    """The bundles of a process, and the clients that use them.

    A client has a connection for each model that it uses. The first connection opens the bundles.
    """

    def __init__(
        self,
        listening: socket.socket,
        to_serve: ModelsToServe,
        *,
        on_failure: Callable[[Exception], None] = give_up,
        metrics_port: int | None = None,
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        tracing: Tracing | None = None,
    ) -> None:
        """Start without clients.

        Args:
            listening: socket to which clients connect.
            to_serve: the bundles.
            on_failure: called when the engine, or the handling of a client's frames, fails.
            metrics_port: Triton's metrics port; None: there is no Triton.
            parameters: settings of the engine, and rules for requests.
            tracing: makes spans of traced requests; None: no tracing.
        """
        self._listening, self._metrics_port = listening, metrics_port
        self._parameters, self._to_serve = parameters, to_serve
        self._on_failure, self._tracing = on_failure, tracing
        self._stopping, self._stop = socket.socketpair()
        self._opening = threading.Lock()
        self._bundles: Bundles | None = None
        self._models: list[Model] = []
        self._asking: set[Model] = set()
        self._attending: dict[threading.Thread, Connection] = {}

    def serve(self) -> None:
        """Accept clients until stopped, then answer the requests in flight and hang up."""
        while (connected := self._accept()) is not None:
            connection = Connection(connected)
            thread = threading.Thread(
                target=self._attend, args=(connection,), name="dragoman-requests", daemon=True
            )
            thread.start()
            living = {other: of for other, of in self._attending.items() if other.is_alive()}
            self._attending = {**living, thread: connection}
        end_s = time.monotonic() + _DRAIN_S
        while self.busy and time.monotonic() < end_s:
            time.sleep(_DRAIN_POLL_S)
        for connection in self._attending.values():
            connection.stop_reading()
        for thread in self._attending:
            thread.join()
        if self._bundles is not None:
            self._bundles.close()
        self._stopping.close()
        self._stop.close()

    @property
    def busy(self) -> bool:
        """Whether requests wait for an answer."""
        return bool(self._asking) or any(model.in_flight for model in list(self._models))

    def stop(self) -> None:
        """Accept no more clients; `serve` then ends."""
        with contextlib.suppress(OSError):
            self._stop.send(b"\0")

    def _accept(self) -> socket.socket | None:
        """The connection of the next client; None: stopped.

        The listening socket is not shut down: the launcher keeps it for the next engine.
        """
        while True:
            try:
                ready, _, _ = select.select([self._listening, self._stopping], [], [])
                if self._stopping in ready:
                    return None
                connected = self._listening.accept()[0]
            except OSError as error:
                if error.errno == errno.EBADF:  # closed
                    return None
                log.error("cannot accept connections now: %s", error.strerror)
                time.sleep(_PAUSE_S)
                continue
            if is_own_user(connected):
                return connected
            log.warning("a process of another user tried to connect")
            connected.close()

    def _attend(self, connection: Connection) -> None:
        model: Model | None = None
        hello, parser = Hello(""), RequestParser()
        try:
            for kind, body in connection.frames():
                if kind is Kind.HELLO and model is None:
                    hello = Hello.unpack(body)
                    model = self._take_up(hello, connection)
                    self._models.append(model)
                    connection.send(pack_ready(model_config(hello.model)))
                elif kind is Kind.REQUEST and model is not None:
                    self._asking.add(model)
                    request = parser.parse(body)
                    model.ask(request, self._trace(request))
                    self._asking.discard(model)
                elif kind is Kind.CANCEL and model is not None:
                    model.cancel(unpack_cancel(body))
        except (DragomanError, OtherProtocol) as error:
            log.error("a client is refused: %s", error)
            connection.send(pack_refused(str(error)))
        except Damaged as error:
            if hello.is_relay:
                # Triton does not connect again: the launcher starts both again.
                self._on_failure(error)
                return
            log.error("a client sent damaged bytes: %s", error)
            connection.send(pack_refused(f"damaged bytes: {error}"))
        except Exception as error:
            if model is not None:
                self._on_failure(error)
                return
            log.exception("a model cannot be loaded")
            reason = f"it cannot be loaded ({type(error).__name__}); the log above says why"
            connection.send(pack_refused(reason))
        finally:
            if model is not None:
                self._asking.discard(model)
                self._models.remove(model)
                model.close()
            connection.close()

    def _trace(self, request: Request) -> RequestTrace | None:
        """The trace of a request; None: it is not traced."""
        if self._tracing is None or not request.trace:
            return None
        try:
            context = sampled_context(json.loads(request.trace))
        except Exception:  # the request can be answered without a trace
            return None
        return None if context is None else RequestTrace(self._tracing.tracer, context)

    def _take_up(self, hello: Hello, connection: Connection) -> Model:
        if hello.model not in MODELS:
            raise UsageError(f"the engine has no model {hello.model!r}: it has {', '.join(MODELS)}")
        rules, bundles = request_rules(self._parameters), self._open()
        if hello.model == TRANSLATE:
            # Without Triton, another client publishes the metrics.
            reports = hello.is_relay or self._metrics_port is None
            return TranslateModel(rules, connection, bundles, reports)
        if hello.model == STREAM:
            return TranslateStreamModel(rules, connection, bundles)
        if hello.model == SCORE:
            return ScoreModel(rules, connection.send, bundles)
        return InfoModel(rules, connection.send, bundles, self._metrics_port)

    def _open(self) -> Bundles:
        """The bundles, which the first client opens; they stay open when clients leave."""
        with self._opening:
            if self._bundles is None:
                folders = [Path(folder) for folder in self._to_serve.bundles]
                settings = engine_settings(self._parameters)
                self._bundles = Bundles(folders, settings, self._to_serve, self._on_failure)
                # Loaded objects stay, so garbage collections under load must not traverse them.
                gc.collect()
                gc.freeze()
                gc.set_threshold(_GARBAGE)
            return self._bundles
