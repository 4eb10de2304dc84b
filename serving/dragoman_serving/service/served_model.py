"""The engine's side of a connection: base classes of the models."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, Generic, TypeVar

from dragoman_options.frames import Answer, Request
from dragoman_options.refusal import Refusal

from dragoman.kernel.errors import DragomanError, InvalidRequest
from dragoman_serving.engine.futures import Future, outcome_error, when_all_done
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.models.routes import Bundle, Route
from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.requests import ParsedRequest, RequestReader, RequestRules
from dragoman_serving.translation.translator import Submitted, Translator

Send = Callable[[bytes], None]
"""Sends a frame to the client."""

_PerText = TypeVar("_PerText")
_Result = TypeVar("_Result")


class InFlight:
    """Futures of requests, by number; cancelling a future cancels the request."""

    def __init__(self) -> None:
        """Start with no requests."""
        self._futures: dict[int, Future[Any]] = {}

    def add(
        self,
        number: int,
        future: Future[_Result],
        answer: Callable[[Future[_Result]], None] | None = None,
    ) -> None:
        """Add a request, until its future is done and it is answered.

        Args:
            number: number of the request.
            future: its future.
            answer: called when that is done.
        """
        self._futures[number] = future

        def end(done: Future[_Result]) -> None:
            try:
                if answer is not None:
                    answer(done)
            finally:
                # After the answer is sent: a server that stops waits for the requests in flight.
                self._futures.pop(number, None)

        future.add_done_callback(end)

    def cancel(self, number: int) -> None:
        """Cancel a request, if it is in flight."""
        if future := self._futures.get(number):
            future.cancel()

    def __len__(self) -> int:
        """Number of requests in flight."""
        return len(self._futures)

    def cancel_all(self) -> None:
        """Cancel all requests."""
        for future in list(self._futures.values()):
            future.cancel()


class Model(ABC):
    """The engine's side of a client's connection to a model."""

    def __init__(self, rules: RequestRules) -> None:
        """Start with nothing in flight."""
        self._reader = RequestReader(rules)
        self.in_flight = InFlight()

    @abstractmethod
    def ask(self, request: Request, trace: RequestTrace | None = None) -> None:
        """Accept a request; the answer is sent when it is ready.

        Args:
            request: the received request.
            trace: trace that ends with the answer; None: it is not traced.
        """

    def cancel(self, number: int) -> None:
        """Cancel a request, if it is not answered yet."""
        self.in_flight.cancel(number)

    def close(self) -> None:
        """Cancel all requests, and close the model."""
        self.in_flight.cancel_all()


class UnderWay:
    """A running request; `plan` and `bundle` are set when a bundle starts answering it."""

    def __init__(self, form: Form, trace: RequestTrace | None, request_id: str) -> None:
        """Start without a bundle."""
        self.form, self.trace, self.request_id = form, trace, request_id
        self.plan: ScoringPlan | None = None
        self.bundle = ""
        """Identity of the bundle."""


class OneAnswerModel(Model, Generic[_PerText]):
    """A model that answers each request once."""

    def __init__(self, rules: RequestRules, send: Send, bundles: Bundles) -> None:
        """See `Model`.

        Args:
            rules: rules for the requests.
            send: sends frames to the client.
            bundles: bundles that answer; they stay open when the model is closed.
        """
        super().__init__(rules)
        self._send, self._bundles = send, bundles

    @abstractmethod
    def begin(self, translator: Translator, request: ParsedRequest) -> Submitted[_PerText]:
        """Start answering a request."""

    @abstractmethod
    def answer(
        self, outcomes: list[_PerText], plan: ScoringPlan, form: Form, bundle: str
    ) -> Answer:
        """Returns the answer of a bundle to a successful request."""

    def ask(self, request: Request, trace: RequestTrace | None = None) -> None:
        """See `Model`."""
        try:
            parsed = self._reader.read(request, trace)
            bundles = self._bundles
            parts = parsed.by_languages()
            routes = [_renumbered(indices, bundles.route, part) for indices, part in parts]
            if len(routes) > 1 and (
                routes[0].languages
                or len({(route.bundles, route.languages) for route in routes}) > 1
            ):
                raise InvalidRequest(
                    "the rows are in directions of different models, or of a pivot language: send "
                    "those of each direction in a separate request",
                    "language",
                )
            fallbacks = _fallbacks(parts, routes)
            form = Form(request.number, parsed.requested.outputs, parsed.shape, fallbacks)
            under_way = UnderWay(form, trace, request.id)
            if routes[0].languages:
                future = self._start_pivoted(bundles, routes[0], parsed, under_way)
            else:
                future = self._start(bundles, routes[0].bundles[0], parts, under_way)
        except Exception as error:  # one request's error must not reach the others
            self._send(answers.of_error(error, request.number, trace, request.id).pack())
            return
        self.in_flight.add(request.number, future, partial(self._answer, under_way))

    def _start(
        self,
        bundles: Bundles,
        bundle: Bundle,
        parts: Sequence[tuple[list[int], ParsedRequest]],
        under_way: UnderWay,
    ) -> Future[list[_PerText]]:
        def begin(translator: Translator) -> Future[list[_PerText]]:
            begun: list[Submitted[_PerText]] = []
            try:
                for indices, part in parts:
                    begun.append(_renumbered(indices, self.begin, translator, part))
            except DragomanError:
                for submitted in begun:
                    submitted.future.cancel()
                raise
            under_way.plan, under_way.bundle = begun[0].plan, translator.manifest.identity
            if len(begun) == 1:
                return begun[0].future
            for submitted, (indices, _) in zip(begun, parts, strict=True):
                submitted.future.add_done_callback(partial(_renumber_error, indices))
            return when_all_done([submitted.future for submitted in begun], join)

        def join(of_parts: list[list[_PerText]]) -> list[_PerText]:
            indices = (index for of_part, _ in parts for index in of_part)
            by_index = dict(zip(indices, itertools.chain.from_iterable(of_parts), strict=True))
            return [by_index[index] for index in sorted(by_index)]

        return bundles.start(bundle, parts[0][1], begin)

    def _start_pivoted(
        self, _bundles: Bundles, route: Route, _request: ParsedRequest, _under_way: UnderWay
    ) -> Future[list[_PerText]]:
        """Start answering a request through a pivot language."""
        source, _, target = route.languages
        raise InvalidRequest(
            f"no model translates from {source!r} into {target!r} directly", "language"
        )

    def _answer(self, under_way: UnderWay, done: Future[list[_PerText]]) -> None:
        try:
            failure = outcome_error(done)
            if failure is not None or under_way.plan is None:
                self._fail(under_way, failure or CancelledError())
                return
            answer = self.answer(done.result(), under_way.plan, under_way.form, under_way.bundle)
            self._send(answer.pack())
        except Exception as error:  # the client must get an answer to every error
            self._fail(under_way, error)
        else:
            if under_way.trace is not None:
                under_way.trace.end(under_way.bundle)

    def _fail(self, under_way: UnderWay, error: BaseException) -> None:
        number, trace = under_way.form.number, under_way.trace
        self._send(answers.of_error(error, number, trace, under_way.request_id).pack())


def _fallbacks(
    parts: Sequence[tuple[Sequence[int], ParsedRequest]], routes: Sequence[Route]
) -> list[tuple[str, ...]]:
    """The fallbacks of each text's languages."""
    if len(parts) == 1:
        indices, part = parts[0]
        return [routes[0].language_fallbacks(part.requested.options)] * len(indices)
    by_text: dict[int, tuple[str, ...]] = {}
    for (indices, part), route in zip(parts, routes, strict=True):
        by_text |= dict.fromkeys(indices, route.language_fallbacks(part.requested.options))
    return [by_text[index] for index in sorted(by_text)]


def _renumbered(indices: Sequence[int], function: Callable[..., _Result], *values: Any) -> _Result:
    """Call a function; a refusal gets the text's index in the request, from that in its part."""
    try:
        return function(*values)
    except InvalidRequest as error:
        _renumber(error, indices)
        raise


def _renumber_error(indices: Sequence[int], done: Future[Any]) -> None:
    if isinstance(error := outcome_error(done), InvalidRequest):
        _renumber(error, indices)


def _renumber(error: InvalidRequest, indices: Sequence[int]) -> None:
    if error.text_index is not None:
        moved = Refusal.of(error).moved(indices[error.text_index])
        error.args, error.text_index = (moved.message,), moved.text_index
