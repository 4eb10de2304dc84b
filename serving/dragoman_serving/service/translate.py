"""The model `translate`: translates texts."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dragoman_options.frames import Answer
from dragoman_options.table import DETECTED_OUTPUTS, TRANSLATE

from dragoman_serving.engine.futures import Future
from dragoman_serving.models.routes import Route
from dragoman_serving.request.plan import ScoringPlan, SearchPlan
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.connection import Connection
from dragoman_serving.service.metrics import FigureReporter
from dragoman_serving.service.pivoted_request import PivotedRequest
from dragoman_serving.service.requests import ParsedRequest, Planned, RequestRules
from dragoman_serving.service.served_model import OneAnswerModel, UnderWay
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Submitted, Translator


class TranslateModel(OneAnswerModel[Translation]):
    """See `Model`."""

    def __init__(
        self, rules: RequestRules, connection: Connection, bundles: Bundles, reports: bool
    ) -> None:
        """Start with nothing in flight.

        Args:
            rules: rules for the requests.
            connection: connection to the client.
            bundles: bundles that translate; they stay open when the model is closed.
            reports: whether the client gets the engine's metrics.
        """
        super().__init__(rules, connection.send, bundles)
        self._reporter = FigureReporter(bundles, connection) if reports else None

    def begin(self, translator: Translator, request: ParsedRequest) -> Submitted[Translation]:
        """See `OneAnswerModel`."""
        return translator.begin(request.texts, _plan(translator, request), request.urgency)

    def _start_pivoted(
        self, bundles: Bundles, route: Route, request: ParsedRequest, under_way: UnderWay
    ) -> Future[list[Translation]]:
        """See `OneAnswerModel`."""
        pivoted = PivotedRequest(bundles, route, request, TRANSLATE)

        def begin(
            translator: Translator, between: ParsedRequest, options: Mapping[str, Any]
        ) -> Future[list[Translation]]:
            begun = translator.submit(between.texts, options, between.urgency)
            outputs = begun.plan.outputs | frozenset(DETECTED_OUTPUTS if route.detected else ())
            under_way.plan, under_way.bundle = replace(begun.plan, outputs=outputs), pivoted.bundle
            return begun.future

        return pivoted.start(begin)

    def answer(
        self, translations: list[Translation], plan: ScoringPlan, form: Form, bundle: str
    ) -> Answer:
        """See `OneAnswerModel`."""
        return answers.of_translations(translations, plan.outputs, form, bundle)

    def close(self) -> None:
        """See `Model`."""
        super().close()
        if self._reporter is not None:
            self._reporter.close()


def _plan(translator: Translator, request: ParsedRequest) -> SearchPlan:
    """The plan of a request; a cached one if the request before had the same options."""
    parsed_options, is_lone = request.requested, len(request.texts) == 1
    known = parsed_options.planned
    if is_lone and known is not None and known.by() is translator:
        return known.plan
    plan = translator.plan(parsed_options.options, len(request.texts))
    if is_lone and not plan.draws_seed:
        parsed_options.planned = Planned(plan, weakref.ref(translator))
    return plan
