"""The model `score`: scores given translations of texts.

It has no weights of its own; it uses the engines of `translate`.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman_options.frames import Answer, Hello

from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.scoring.assessment import Assessment
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.configuration import RULES, check_names
from dragoman_serving.service.requests import Asked
from dragoman_serving.service.served_model import OneAnswerModel, Send, parameters
from dragoman_serving.translation.translator import Submitted, Translator


class ScoreModel(OneAnswerModel[Assessment]):
    """See `Model`."""

    def __init__(self, hello: Hello, send: Send, bundles: Callable[[], Bundles]) -> None:
        """Start with nothing in flight.

        Args:
            hello: the frame from Triton.
            send: sends frames to Triton.
            bundles: returns the bundles that score, or raises a `DragomanError`.

        Raises:
            DragomanError: the configuration is not usable.
        """
        check_names(parameters(hello), RULES)
        super().__init__(hello, send, bundles)

    def begin(self, translator: Translator, asked: Asked) -> Submitted[Assessment]:
        """See `OneAnswerModel`."""
        return translator.score(asked.texts, asked.targets, asked.wanted.options, asked.urgency)

    def answer(self, found: list[Assessment], plan: ScoringPlan, form: Form, bundle: str) -> Answer:
        """See `OneAnswerModel`."""
        return answers.of_assessments(found, plan, form, bundle)
