"""The model `translate`: text in, text out. It holds the engine."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from dragoman.manifest import Manifest
from serving.engine.errors import EngineFailure
from serving.service import answers
from serving.service.answers import Form
from serving.service.configuration import check_languages, engine_settings, request_rules
from serving.service.figures import FigureReporter
from serving.service.frames import Hello, Request
from serving.service.model import InFlight, Send, last_answer, parameters, understand
from serving.translation import Translation
from serving.translator import Translator

log = logging.getLogger(__name__)


class TranslateModel:
    """See `Model`."""

    def __init__(
        self, hello: Hello, send: Send, on_failure: Callable[[EngineFailure], None]
    ) -> None:
        """Load the bundle and translate once, so that "ready" means just that.

        Raises:
            DragomanError: the bundle or the configuration is not usable.
        """
        given = parameters(hello)
        self._rules = request_rules(given)
        bundle = Path(hello.folder) / str(hello.version) / "bundle"
        check_languages(given, Manifest.load(bundle).languages)
        self.translator = Translator(bundle, engine_settings(given), on_failure)
        try:
            self.translator.translate(["1"])
        except BaseException:
            self.translator.close()
            raise
        log.info("%s", self.translator.description)
        self._send = send
        self._in_flight = InFlight()
        self._reporter = FigureReporter(self.translator, send)

    def ask(self, request: Request) -> None:
        """See `Model`."""
        try:
            asked, form = understand(request, self._rules)
            future = self.translator.submit(asked.texts, asked.options, asked.terms)
        except Exception as error:  # one request's error must not reach the others
            self._send(answers.of_error(error, request.number).pack())
            return
        self._in_flight.add(request.number, future)
        future.add_done_callback(partial(self._answer, form))

    def cancel(self, number: int) -> None:
        """See `Model`."""
        self._in_flight.cancel(number)

    def close(self) -> None:
        """See `Model`."""
        self._in_flight.cancel_all()
        self.translator.close()
        self._reporter.close()

    def _answer(self, form: Form, done: Future[list[Translation]]) -> None:
        try:
            answer = last_answer(done, form)
        except Exception as error:  # whatever it was, the client must hear of it
            answer = answers.of_error(error, form.number)
        self._send(answer.pack())
