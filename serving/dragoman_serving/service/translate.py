"""The model `translate`: text in, text out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from dragoman.kernel.manifest import Manifest
from dragoman_serving.engine.errors import EngineFailure
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.configuration import check_languages, engine_settings, request_rules
from dragoman_serving.service.frames import Hello, Request
from dragoman_serving.service.metrics import FigureReporter
from dragoman_serving.service.served_model import (
    InFlight,
    Send,
    last_answer,
    parameters,
    understand,
)
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator

log = logging.getLogger(__name__)


def load_translator(hello: Hello, on_failure: Callable[[EngineFailure], None]) -> Translator:
    """Load a model's bundle and translate once, so that "ready" means just that.

    Args:
        hello: from Triton's side.
        on_failure: called if the engine breaks.

    Raises:
        DragomanError: the bundle or the configuration is not usable.
    """
    given = parameters(hello)
    request_rules(given)
    bundle = Path(hello.folder) / str(hello.version) / "bundle"
    check_languages(given, Manifest.load(bundle).languages)
    translator = Translator(bundle, engine_settings(given), on_failure)
    try:
        translator.translate(["1"])
    except BaseException:
        translator.close()
        raise
    log.info("%s", translator.description)
    return translator


class TranslateModel:
    """See `Model`."""

    def __init__(self, hello: Hello, send: Send, translator: Translator) -> None:
        """Begin with nothing in flight.

        Args:
            hello: from Triton's side.
            send: to it.
            translator: of this model; it stays open when the model is closed.
        """
        self._rules = request_rules(parameters(hello))
        self._translator = translator
        self._send = send
        self.in_flight = InFlight()
        self._reporter = FigureReporter(translator, send)

    def ask(self, request: Request) -> None:
        """See `Model`."""
        try:
            asked, form = understand(request, self._rules)
            future = self._translator.submit(asked.texts, asked.options, asked.terms)
        except Exception as error:  # one request's error must not reach the others
            self._send(answers.of_error(error, request.number).pack())
            return
        self.in_flight.add(request.number, future)
        future.add_done_callback(partial(self._answer, form))

    def cancel(self, number: int) -> None:
        """See `Model`."""
        self.in_flight.cancel(number)

    def close(self) -> None:
        """See `Model`."""
        self.in_flight.cancel_all()
        self._reporter.close()

    def _answer(self, form: Form, done: Future[list[Translation]]) -> None:
        try:
            answer = last_answer(done, form)
        except Exception as error:  # whatever it was, the client must hear of it
            answer = answers.of_error(error, form.number)
        self._send(answer.pack())
