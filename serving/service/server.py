"""Takes Triton's models up as they connect."""

from __future__ import annotations

import errno
import gc
import logging
import os
import socket
import threading
import time

from dragoman.errors import DragomanError
from serving.engine.engine import EngineFailure
from serving.engine.scheduler import Closed
from serving.service.connection import Connection
from serving.service.frames import (
    Hello,
    Kind,
    Request,
    pack_ready,
    pack_refused,
    unpack_cancel,
)
from serving.service.model import Model, decoupled
from serving.service.translate import TranslateModel
from serving.service.translate_stream import TranslateStreamModel
from serving.translator import Translator

log = logging.getLogger(__name__)

_PAUSE_S = 0.5
_LAST_ANSWERS_S = 0.5
"""Time for the last answers when the engine broke."""
_GARBAGE = 50_000
"""New objects before garbage is looked for: with Python's 700, that takes a tenth of the time."""


class Server:
    """One engine, and the models that use it, each over a connection of its own."""

    def __init__(self) -> None:
        """Begin without a model."""
        self._translator: Translator | None = None

    def serve(self, listening: socket.socket) -> None:
        """Take up whoever connects, until the socket is closed."""
        while True:
            try:
                connected, _ = listening.accept()
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):  # closed, or shut down
                    return
                log.error("nobody can connect now: %s", error.strerror)
                time.sleep(_PAUSE_S)
                continue
            threading.Thread(
                target=self._attend,
                args=(Connection(connected),),
                name="dragoman-requests",
                daemon=True,
            ).start()

    def _attend(self, connection: Connection) -> None:
        model: Model | None = None
        try:
            for kind, body in connection.frames():
                if kind is Kind.HELLO and model is None:
                    model = self._take_up(Hello.unpack(body), connection)
                    connection.send(pack_ready())
                elif kind is Kind.REQUEST and model is not None:
                    model.ask(Request.unpack(body))
                elif kind is Kind.CANCEL and model is not None:
                    model.cancel(unpack_cancel(body))
        except DragomanError as error:
            connection.send(pack_refused(str(error)))
        except Exception as error:
            log.exception("a model cannot be attended to")
            if model is None:
                reason = f"it cannot be loaded ({type(error).__name__}); the log above says why"
                connection.send(pack_refused(reason))
        finally:
            if model is not None:
                model.close()
            connection.close()

    def _take_up(self, hello: Hello, connection: Connection) -> Model:
        if decoupled(hello):
            return TranslateStreamModel(hello, connection, self._get_translator)
        model = TranslateModel(hello, connection.send, _give_up)
        self._translator = model.translator
        # What is loaded now stays: collecting garbage must not walk through it under load.
        gc.collect()
        gc.freeze()
        gc.set_threshold(_GARBAGE)
        return model

    def _get_translator(self) -> Translator:
        if self._translator is None:
            raise Closed("the model translate is not there")
        return self._translator


def _give_up(failure: EngineFailure) -> None:
    """End the process after the engine broke: the models then say that it is gone."""
    time.sleep(_LAST_ANSWERS_S)
    log.critical("%s; giving up", failure)
    os._exit(1)
