"""Reads requests: texts, options, requested outputs and urgency."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman_options.frames import Request, RequestOptions, Tensor
from dragoman_options.table import OPTIONS, TEXT

from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.engine.request_trace import RequestTrace
from dragoman_serving.request.plan import SearchPlan
from dragoman_serving.request.urgency import Urgency

_PRIORITY = "queue_priority"
_TIMEOUT = "timeout"
_TRITON_PARAMETERS = {"sequence_id", "sequence_start", "sequence_end", "priority", _TIMEOUT}
"""Request parameters with a meaning to Triton itself."""
_HIGHEST_PRIORITY = 9
_OF_ROWS = ("source_language", "target_language")
_MOST_VALUES = 100_000
"""Values of a tensor: more than the texts that one request may have."""
_MOST_KNOWN, _MOST_KNOWN_BYTES = 256, 2048
"""Number of parsed options in the cache, and maximum bytes of each."""


@dataclass(frozen=True)
class RequestRules:
    """The operator's rules. `deadline_s` is the longest time for a request from its arrival."""

    deadline_s: float = 300.0
    priorities: bool = False


@dataclass(frozen=True)
class Planned:
    """A plan, and a reference to its maker, for which alone it is valid.

    The reference is weak, so that plans do not keep an unloaded bundle alive.
    """

    plan: SearchPlan
    by: weakref.ref[object]


@dataclass(eq=False)
class ParsedOptions:
    """The parsed options of requests. Requests with equal options share it, also across threads.

    Attributes:
        options: options by name, not checked yet.
        outputs: names of the requested outputs.
        timeout_us: timeout; None: the options have none.
        priority: priority of the request.
        planned: plan of the last request with one text.
    """

    options: dict[str, Any]
    outputs: tuple[str, ...]
    timeout_us: Any
    priority: int
    planned: Planned | None = None

    def __post_init__(self) -> None:
        given = self.options
        self.of_rows = {name: given[name] for name in _OF_ROWS if type(given.get(name)) is tuple}
        """Options with a value for each text."""
        self.routed_by = tuple(map(_text, map(given.get, (*_OF_ROWS, "model"))))
        """Source language, target language and model, as far as they are given as texts."""


@dataclass
class ParsedRequest:
    """A parsed request. `shape` is the shape of the tensor with its texts.

    `targets` are given translations of the texts, only for the model `score`.
    """

    texts: list[str]
    shape: tuple[int, ...]
    requested: ParsedOptions
    urgency: Urgency
    targets: tuple[str, ...] = ()

    def by_languages(self) -> list[tuple[list[int], ParsedRequest]]:
        """Returns a request for each pair of languages, with the indices of its texts.

        Raises:
            InvalidRequest: an option has several values, but not one for each text.
        """
        several = self.requested.of_rows
        if not several:
            return [([*range(len(self.texts))], self)]
        for name, values in several.items():
            if len(values) != len(self.texts):
                raise InvalidRequest(
                    f"input {name} has {len(values)} values for {len(self.texts)} texts: give one, "
                    "or one for each text",
                    option=name,
                )
        rows: dict[tuple[str, ...], list[int]] = {}
        for index, languages in enumerate(zip(*several.values(), strict=True)):
            rows.setdefault(languages, []).append(index)
        return [
            (indices, self._part(indices, dict(zip(several, languages, strict=True))))
            for languages, indices in rows.items()
        ]

    def _part(self, indices: Sequence[int], languages: Mapping[str, str]) -> ParsedRequest:
        options = {**self.requested.options, **languages}
        return replace(
            self,
            texts=[self.texts[index] for index in indices],
            targets=tuple(self.targets[index] for index in indices if self.targets),
            requested=replace(self.requested, options=options, planned=None),
        )


class RequestReader:
    """Reads requests. Parsed options are cached, because clients seldom vary them."""

    def __init__(self, rules: RequestRules) -> None:
        """Start with an empty cache."""
        self._rules = rules
        self._known: dict[bytes, ParsedOptions] = {}

    def __len__(self) -> int:
        """Number of cached options."""
        return len(self._known)

    def read(
        self, request: Request, trace: RequestTrace | None = None, needs_texts: bool = True
    ) -> ParsedRequest:
        """Returns the texts, options and urgency of a request.

        Args:
            request: the received request.
            trace: trace for its spans; None: it is not traced.
            needs_texts: whether a request without texts is refused.

        Raises:
            InvalidRequest: the texts are missing, a text is not UTF-8, or an option has too many
                values.
            WrongValue: a tensor is damaged.
        """
        # Before the options: Triton reads a misspelt name of the texts as an option.
        if needs_texts and TEXT not in [tensor.name for tensor in request.texts]:
            raise InvalidRequest(f"{TEXT} is missing")
        parsed_options = self._known.get(request.options)
        if parsed_options is None:
            parsed_options = self._parsed_options(RequestOptions.unpack(request.options))
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            if len(request.options) <= _MOST_KNOWN_BYTES:
                self._known[request.options] = parsed_options
        urgency = self._urgency(parsed_options, request.timeout_us, trace)
        texts: list[str] = []
        targets: tuple[str, ...] = ()
        shape: tuple[int, ...] = (0,)
        for tensor in request.texts:
            values = _values(tensor)
            if tensor.name == TEXT:
                shape = tensor.shape
                texts = [_decode(value, "text", index) for index, value in enumerate(values)]
            else:
                targets = tuple(
                    _decode(value, "target", index) for index, value in enumerate(values)
                )
        return ParsedRequest(texts, shape, parsed_options, urgency, targets)

    def _parsed_options(self, given: RequestOptions) -> ParsedOptions:
        options: dict[str, Any] = {
            name: value
            for name, value in given.parameters.items()
            if name not in _TRITON_PARAMETERS and name != _PRIORITY
        }
        for tensor in given.inputs:
            options[tensor.name] = _option(tensor.name, _values(tensor))
        timeout_us = given.parameters.get(_TIMEOUT) or None
        priority = self._priority(given.parameters.get(_PRIORITY))
        return ParsedOptions(options, given.outputs, timeout_us, priority)

    def _priority(self, given: Any) -> int:
        if given is None:
            return 0
        if not self._rules.priorities:
            raise InvalidRequest(
                f"option {_PRIORITY} is not allowed by this server", "unsupported", _PRIORITY
            )
        if type(given) is not int or not 0 <= given <= _HIGHEST_PRIORITY:
            raise InvalidRequest(
                f"option {_PRIORITY} is {given!r}: give 0 to {_HIGHEST_PRIORITY}", option=_PRIORITY
            )
        return given

    def _urgency(
        self, parsed_options: ParsedOptions, timeout_us: Any, trace: RequestTrace | None
    ) -> Urgency:
        if parsed_options.timeout_us is not None:
            timeout_us = parsed_options.timeout_us
        if type(timeout_us) is not int or timeout_us < 0:
            raise InvalidRequest(
                f"option {_TIMEOUT} is {timeout_us!r}: give microseconds", option=_TIMEOUT
            )
        longest_s = self._rules.deadline_s
        allowed_s = min(timeout_us / 1e6, longest_s) if timeout_us else longest_s
        return Urgency(parsed_options.priority, time.monotonic() + allowed_s, trace)


def _text(value: Any) -> str | None:
    """A text option, or None; the bundle refuses values of other types."""
    return value if isinstance(value, str) and value else None


def _values(tensor: Tensor) -> list[Any]:
    if math.prod(tensor.shape) > _MOST_VALUES:
        raise InvalidRequest(f"input {tensor.name} has more than {_MOST_VALUES} values")
    return tensor.values


def _option(name: str, values: list[Any]) -> Any:
    if name in OPTIONS and OPTIONS[name].is_list:
        return tuple(_decode(value, f"input {name}") for value in values)
    # Each row of texts may have its own value of the option; only languages may differ.
    if len(set(values)) > 1 and name in _OF_ROWS:
        return tuple(_decode(value, f"input {name}") for value in values)
    if len(set(values)) != 1:
        raise InvalidRequest(f"input {name} has {len(values)} values: give one")
    return _decode(values[0], f"input {name}") if isinstance(values[0], bytes) else values[0]


def _decode(value: Any, what: str, index: int | None = None) -> str:
    option = "target_input" if what == "target" else None
    if index is not None:
        what = f"{what} {index}"
    if not isinstance(value, bytes):
        message = f"{what} is a number: give text, of the type BYTES"
        raise InvalidRequest(message, option=option, text_index=index)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{what} is not valid UTF-8 at byte {error.start}"
        raise InvalidRequest(message, option=option, text_index=index) from None
