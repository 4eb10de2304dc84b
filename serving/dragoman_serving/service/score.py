"""The model `score`: scores given translations of texts.

It has no weights of its own; it uses the engines of `translate`.
"""

from __future__ import annotations

from dragoman_options.frames import Answer

from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.scoring.assessment import Assessment
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.requests import ParsedRequest
from dragoman_serving.service.served_model import OneAnswerModel
from dragoman_serving.translation.translator import Submitted, Translator


class ScoreModel(OneAnswerModel[Assessment]):
    """See `Model`."""

    def begin(self, translator: Translator, request: ParsedRequest) -> Submitted[Assessment]:
        """See `OneAnswerModel`."""
        return translator.score(
            request.texts, request.targets, request.requested.options, request.urgency
        )

    def answer(
        self, assessments: list[Assessment], plan: ScoringPlan, form: Form, bundle: str
    ) -> Answer:
        """See `OneAnswerModel`."""
        return answers.of_assessments(assessments, plan, form, bundle)
