"""Accepts connections of Triton's models. Loaded bundles survive a crash of Triton."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from dragoman_options.frames import (
    Hello,
    Kind,
    OtherProtocol,
    Request,
    pack_ready,
    pack_refused,
    unpack_cancel,
)
from dragoman_options.table import INFO, SCORE, STREAM, TRANSLATE

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.tracing import Tracing, sampled_context
from dragoman_serving.engine.errors import Closed
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.info import InfoModel
from dragoman_serving.service.model_config import MODELS, model_config
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.service.score import ScoreModel
from dragoman_serving.service.served_model import Model, model_name, with_parameters
from dragoman_serving.service.translate import TranslateModel, open_bundles
from dragoman_serving.service.translate_stream import TranslateStreamModel

log = logging.getLogger(__name__)

_PAUSE_S = 0.5
"""Pause before the next attempt to accept a connection."""
_LAST_ANSWERS_S = 0.5
"""Time for the last answers after the engine failed."""
_NO_PARAMETERS: Mapping[str, str] = {}
_GARBAGE = 50_000
"""New objects before a garbage collection: with Python's 700, it takes a tenth of the time."""


def give_up(failure: Exception) -> None:
    """End the process after a failure; the models then report that the engine is gone."""
    log.critical("%s; giving up", failure, exc_info=failure)
    time.sleep(_LAST_ANSWERS_S)
    os._exit(1)


class Server:
    """One engine, and the models that use it, each with its own connection."""

    def __init__(
        self,
        listening: socket.socket,
        on_failure: Callable[[Exception], None] = give_up,
        metrics_port: int | None = None,
        parameters: Mapping[str, str] = _NO_PARAMETERS,
        to_serve: ModelsToServe | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        """Start without a model.

        Args:
            listening: socket to which models connect.
            on_failure: called when the engine, or the handling of a model's frames, fails.
            metrics_port: Triton's metrics port; None: unknown.
            parameters: parameters that override those in the models' configurations.
            to_serve: bundles; None: the one in the folder of the model `translate`.
            tracing: makes spans of requests that Triton traces; None: no tracing.
        """
        self._listening, self._metrics_port = listening, metrics_port
        self._parameters, self._to_serve = parameters, to_serve or ModelsToServe()
        self._on_failure, self._tracing = on_failure, tracing
        self._bundles: Bundles | None = None
        self._opened: tuple[str, int, Any] | None = None
        self._models: list[Model] = []
        self._asking: set[Model] = set()
        self._attending: list[threading.Thread] = []

    def serve(self) -> None:
        """Accept connections until stopped, then wait until all are closed."""
        while (connected := self._accept()) is not None:
            thread = threading.Thread(
                target=self._attend,
                args=(Connection(connected),),
                name="dragoman-requests",
                daemon=True,
            )
            thread.start()
            living = [one for one in self._attending if one.is_alive()]
            self._attending = [*living, thread]
        for thread in self._attending:
            thread.join()
        if self._bundles is not None:
            self._bundles.close()

    @property
    def busy(self) -> bool:
        """Whether requests wait for an answer."""
        return bool(self._asking) or any(model.in_flight for model in list(self._models))

    def stop(self) -> None:
        """Accept no more connections; Triton closes its own when its requests are answered."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> socket.socket | None:
        while True:
            try:
                return self._listening.accept()[0]
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):  # closed, or shut down
                    return None
                log.error("cannot accept connections now: %s", error.strerror)
                time.sleep(_PAUSE_S)

    def _attend(self, connection: Connection) -> None:
        model: Model | None = None
        try:
            for kind, body in connection.frames():
                if kind is Kind.HELLO and model is None:
                    hello = with_parameters(Hello.unpack(body), self._parameters)
                    model = self._take_up(hello, connection)
                    self._models.append(model)
                    connection.send(pack_ready(model_config(model_name(hello))))
                elif kind is Kind.REQUEST and model is not None:
                    self._asking.add(model)
                    request = Request.unpack(body)
                    model.ask(request, self._trace(request))
                    self._asking.discard(model)
                elif kind is Kind.CANCEL and model is not None:
                    model.cancel(unpack_cancel(body))
        except (DragomanError, OtherProtocol) as error:
            connection.send(pack_refused(str(error)))
        except Exception as error:
            if model is not None:
                self._on_failure(error)
                return
            log.exception("a model cannot be loaded")
            reason = f"it cannot be loaded ({type(error).__name__}); the log above says why"
            connection.send(pack_refused(reason))
        finally:
            if model is not None:
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
        name = model_name(hello)
        if name == TRANSLATE:
            return TranslateModel(hello, connection, self._open(hello))
        if name == STREAM:
            return TranslateStreamModel(hello, connection, self._get_bundles)
        if name == SCORE:
            return ScoreModel(hello, connection.send, self._get_bundles)
        if name == INFO:
            return InfoModel(hello, connection.send, self._get_bundles, self._metrics_port)
        raise UsageError(f"the backend dragoman has no model {name!r}: it has {', '.join(MODELS)}")

    def _open(self, hello: Hello) -> Bundles:
        """The bundles of a model; they stay open when Triton is restarted."""
        wanted = (hello.folder, hello.version, json.loads(hello.config))  # its order may change
        if self._bundles is None or wanted != self._opened:
            if self._bundles is not None:
                self._bundles.close()
            self._bundles = None
            self._bundles = open_bundles(hello, self._to_serve, self._on_failure)
            self._opened = wanted
            # Loaded objects stay, so garbage collections under load must not traverse them.
            gc.collect()
            gc.freeze()
            gc.set_threshold(_GARBAGE)
        return self._bundles

    def _get_bundles(self) -> Bundles:
        if self._bundles is None:
            raise Closed("the model translate is not loaded")
        return self._bundles
