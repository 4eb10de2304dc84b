"""The model `score`: texts and translations of them in, what the model thinks of these out.

It holds no weights: the engine of `translate` does it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from dragoman_serving.engine.futures import outcome_error
from dragoman_serving.request.checks import scoring_alpha
from dragoman_serving.scoring.assessment import Assessment
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.configuration import RULES, check_names, request_rules
from dragoman_serving.service.frames import Hello, Request
from dragoman_serving.service.served_model import InFlight, Send, parameters, understand
from dragoman_serving.translation.translator import Translator


class ScoreModel:
    """See `Model`."""

    def __init__(self, hello: Hello, send: Send, translator: Callable[[], Translator]) -> None:
        """Begin with nothing in flight.

        Args:
            hello: from Triton's side.
            send: to it.
            translator: gives the engine with its texts, or raises a `DragomanError`.

        Raises:
            DragomanError: the configuration is not usable.
        """
        given = parameters(hello)
        check_names(given, RULES)
        self._rules = request_rules(given)
        self._send = send
        self._translator = translator
        self.in_flight = InFlight()

    def ask(self, request: Request) -> None:
        """See `Model`."""
        try:
            asked, form = understand(request, self._rules)
            translator = self._translator()
            alpha = scoring_alpha(asked.options, translator.manifest.limits)
            future = translator.score(asked.texts, asked.targets, asked.options, asked.terms)
        except Exception as error:  # one request's error must not reach the others
            self._send(answers.of_error(error, request.number).pack())
            return
        self.in_flight.add(request.number, future)
        future.add_done_callback(partial(self._answer, form, alpha))

    def cancel(self, number: int) -> None:
        """See `Model`."""
        self.in_flight.cancel(number)

    def close(self) -> None:
        """See `Model`."""
        self.in_flight.cancel_all()

    def _answer(self, form: Form, alpha: float, done: Future[list[Assessment]]) -> None:
        try:
            if failure := outcome_error(done):
                self._send(answers.of_error(failure, form.number).pack())
                return
            answer = answers.of_assessments(done.result(), alpha, form).pack()
        except Exception as error:  # whatever it was, the client must hear of it
            answer = answers.of_error(error, form.number).pack()
        self._send(answer)
