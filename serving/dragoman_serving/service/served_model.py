"""What the engine's side of a model is, and what both models share."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

from dragoman_serving.engine.futures import outcome_error
from dragoman_serving.service import answers
from dragoman_serving.service.answers import Form
from dragoman_serving.service.frames import Answer, Failure, Hello, Request
from dragoman_serving.service.requests import TARGET, Asked, RequestRules, read_request
from dragoman_serving.translation.translation import Translation

Send = Callable[[bytes], None]
"""Sends a frame to Triton's side of the model."""

OfError = Callable[[BaseException, int], Failure]
"""Answers the request of that number, which failed."""


class InFlight:
    """Futures of requests, by number; cancelling one gives the request up."""

    def __init__(self) -> None:
        """Begin with none."""
        self._futures: dict[int, Future[Any]] = {}

    def add(self, number: int, future: Future[Any]) -> None:
        """Know of a request until its future is done."""
        self._futures[number] = future
        future.add_done_callback(lambda _: self._futures.pop(number, None))

    def cancel(self, number: int) -> None:
        """Cancel a request, if it is there."""
        if future := self._futures.get(number):
            future.cancel()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._futures)

    def cancel_all(self) -> None:
        """Cancel what is there."""
        for future in list(self._futures.values()):
            future.cancel()


class Model(Protocol):
    """The engine's side of a model."""

    in_flight: InFlight

    def ask(self, request: Request) -> None:
        """Take a request, which is answered sooner or later."""

    def cancel(self, number: int) -> None:
        """Give a request up, if it is not answered yet."""

    def close(self) -> None:
        """Give everything up."""


def decoupled(hello: Hello) -> bool:
    """Whether a model may answer a request more than once."""
    policy = json.loads(hello.config).get("model_transaction_policy", {})
    return bool(policy.get("decoupled"))


def takes_targets(hello: Hello) -> bool:
    """Whether a model is given translations."""
    return any(one.get("name") == TARGET for one in json.loads(hello.config).get("input", []))


def parameters(hello: Hello) -> dict[str, str]:
    """The parameters in a model's configuration."""
    entries = json.loads(hello.config).get("parameters", {})
    return {name: entry["string_value"] for name, entry in entries.items()}


def understand(request: Request, rules: RequestRules) -> tuple[Asked, Form]:
    """What a request asks for, and how it wants its answer.

    Raises:
        InvalidRequest: see `read_request`.
    """
    asked = read_request(request, rules)
    return asked, Form.asked(request.number, request.outputs, asked)


def last_answer(
    done: Future[list[Translation]], form: Form, of_error: OfError = answers.of_error
) -> Answer | Failure:
    """The answer to a request whose future is done."""
    if failure := outcome_error(done):
        return of_error(failure, form.number)
    return answers.of_translations(done.result(), form)
