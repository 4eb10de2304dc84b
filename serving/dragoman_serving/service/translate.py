"""The model `translate`: text in, text out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from dragoman_serving.engine.errors import EngineFailure
from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.configuration import engine_settings, request_rules
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.frames import Answer, Hello
from dragoman_serving.service.metrics import FigureReporter
from dragoman_serving.service.requests import Asked
from dragoman_serving.service.served_model import OneAnswerModel, parameters
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Submitted, Translator

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
    translator = Translator(bundle, engine_settings(given), on_failure)
    try:
        translator.translate(["1"])
    except BaseException:
        translator.close()
        raise
    log.info("%s", translator.description)
    return translator


class TranslateModel(OneAnswerModel[Translation]):
    """See `Model`."""

    def __init__(self, hello: Hello, connection: Connection, translator: Translator) -> None:
        """Begin with nothing in flight.

        Args:
            hello: from Triton's side.
            connection: to it.
            translator: of this model; it stays open when the model is closed.
        """
        super().__init__(hello, connection.send)
        self._translator = translator
        self._reporter = FigureReporter(translator, connection)

    def begin(self, asked: Asked) -> Submitted[Translation]:
        """See `OneAnswerModel`."""
        wanted = asked.wanted
        plan = wanted.plan if len(asked.texts) == 1 else None
        if plan is None:
            plan = self._translator.plan(wanted.options, len(asked.texts))
            if len(asked.texts) == 1 and not plan.draws_seed:
                wanted.plan = plan
        return self._translator.begin(asked.texts, plan, asked.urgency)

    def answer(self, found: list[Translation], plan: ScoringPlan, form: Form) -> Answer:
        """See `OneAnswerModel`."""
        return answers.of_translations(
            found, plan.outputs, form, self._translator.manifest.identity
        )

    def close(self) -> None:
        """See `Model`."""
        super().close()
        self._reporter.close()
