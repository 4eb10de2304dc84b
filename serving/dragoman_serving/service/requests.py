"""What a request to a model asks for."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from dragoman_options.table import OPTIONS

from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.request.urgency import Urgency
from dragoman_serving.service.frames import Request
from dragoman_serving.service.model_config import TARGET, TEXT

_PRIORITY = "queue_priority"
_TIMEOUT = "timeout"
_TRITON_PARAMETERS = {"id", "sequence_id", "sequence_start", "sequence_end", "priority", _TIMEOUT}
"""Request parameters with a meaning to Triton itself."""
_HIGHEST_PRIORITY = 9
_MOST_VALUES = 100_000
"""Of a tensor: more texts than may be translated at a time."""


@dataclass(frozen=True)
class RequestRules:
    """What the operator allows: `deadline_s` bounds every request, from its arrival."""

    deadline_s: float = 300.0
    priorities: bool = False


@dataclass(frozen=True)
class Asked:
    """What a request asks for; the texts stand in a tensor of this shape.

    `options` are not checked yet. `targets` are given translations of the texts, of the model
    `score` alone.
    """

    texts: list[str]
    shape: tuple[int, ...]
    options: dict[str, Any]
    urgency: Urgency
    targets: tuple[str, ...] = ()


def read_request(request: Request, rules: RequestRules) -> Asked:
    """Texts, options and urgency of a request.

    Raises:
        InvalidRequest: a text that is not UTF-8, or an option with more values than it takes.
    """
    timeout_us = request.parameters.get(_TIMEOUT) or request.timeout_us
    urgency = _urgency(timeout_us, request.parameters.get(_PRIORITY), rules)
    options: dict[str, Any] = {
        name: value
        for name, value in request.parameters.items()
        if name not in _TRITON_PARAMETERS and name != _PRIORITY
    }
    texts: list[str] = []
    targets: tuple[str, ...] = ()
    shape: tuple[int, ...] = (0,)
    for tensor in request.inputs:
        if math.prod(tensor.shape) > _MOST_VALUES:
            raise InvalidRequest(f"input {tensor.name} has more than {_MOST_VALUES} values")
        values = tensor.values
        if tensor.name == TEXT:
            shape = tensor.shape
            texts = [_decode(value, "text", index) for index, value in enumerate(values)]
        elif tensor.name == TARGET:
            targets = tuple(_decode(value, "target", index) for index, value in enumerate(values))
        else:
            options[tensor.name] = _option(tensor.name, values)
    return Asked(texts, shape, options, urgency, targets)


def _urgency(timeout_us: Any, priority: Any, rules: RequestRules) -> Urgency:
    if priority is not None and not rules.priorities:
        raise InvalidRequest(f"option {_PRIORITY} is not allowed by this server")
    if priority is None:
        priority = 0
    if type(priority) is not int or not 0 <= priority <= _HIGHEST_PRIORITY:
        raise InvalidRequest(f"option {_PRIORITY} is {priority!r}: give 0 to {_HIGHEST_PRIORITY}")
    if type(timeout_us) is not int or timeout_us < 0:
        raise InvalidRequest(f"option {_TIMEOUT} is {timeout_us!r}: give microseconds")
    allowed_s = min(timeout_us / 1e6, rules.deadline_s) if timeout_us else rules.deadline_s
    return Urgency(priority, time.monotonic() + allowed_s)


def _option(name: str, values: list[Any]) -> Any:
    if name in OPTIONS and OPTIONS[name].is_list:
        return tuple(_decode(value, f"input {name}") for value in values)
    # A row of texts each may come with the option, but all rows are translated alike.
    if len(set(values)) != 1:
        raise InvalidRequest(f"input {name} has {len(values)} values: give one")
    return _decode(values[0], f"input {name}") if isinstance(values[0], bytes) else values[0]


def _decode(value: Any, what: str, index: int | None = None) -> str:
    if index is not None:
        what = f"{what} {index}"
    if not isinstance(value, bytes):
        raise InvalidRequest(f"{what} is a number: give text, of the type BYTES")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{what} is not valid UTF-8 at byte {error.start}") from None
