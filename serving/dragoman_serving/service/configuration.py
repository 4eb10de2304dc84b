"""The parameters in a model's `config.pbtxt`, as the engine's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

from dragoman.kernel.errors import UsageError
from dragoman_serving.engine.settings import EngineSettings, Precision, Runtime, Tuning
from dragoman_serving.service.requests import RequestRules

AUTO = "auto"
_CHOICES = ("precision", "runtime")
_NUMBERS = ("workers", "lone_threads", "max_rows", "max_waiting")
_TUNING = vars(Tuning())
RULES = ("deadline_s", "allow_priority")
"""Parameters that say what requests may ask."""
_FORMER = ("languages",)
"""Parameters of repositories that older releases made; nobody reads them."""


def engine_settings(parameters: Mapping[str, str]) -> EngineSettings:
    """Read the engine's settings; one that is missing keeps its default.

    Raises:
        UsageError: a parameter that is unknown, or not what it should be, by name.
    """
    check_names(parameters, (*_CHOICES, *_NUMBERS, *_TUNING, *RULES, *_FORMER))
    precision = _choice(parameters, "precision", get_args(Precision))
    runtime = _choice(parameters, "runtime", get_args(Runtime))
    tuning = {name: _number(parameters, name, type(default)) for name, default in _TUNING.items()}
    numbers = {name: _number(parameters, name) for name in _NUMBERS}
    return EngineSettings(
        precision=cast(Precision | Literal["auto"], precision),
        runtime=cast(Runtime | Literal["auto"], runtime),
        tuning=Tuning(**_given(tuning)),
        **_given(numbers),
    )


def check_names(parameters: Mapping[str, str], known: Sequence[str]) -> None:
    """Refuse parameters that nobody reads.

    Raises:
        UsageError: an unknown one, by name.
    """
    for name in parameters:
        if name not in known:
            raise UsageError(f"config.pbtxt: unknown parameter {name!r}; known: {', '.join(known)}")


def request_rules(parameters: Mapping[str, str]) -> RequestRules:
    """Read what requests may ask; what is missing keeps its default.

    Raises:
        UsageError: a parameter that is not what it should be, by name.
    """
    deadline_s = _number(parameters, "deadline_s")
    priorities = parameters.get("allow_priority", "false")
    if priorities not in ("true", "false"):
        raise UsageError(f"allow_priority is {priorities!r}: give true or false")
    if deadline_s is not None and deadline_s < 1:
        raise UsageError(f"deadline_s is {deadline_s}: give 1 or more")
    defaults = RequestRules()
    return RequestRules(
        defaults.deadline_s if deadline_s is None else deadline_s, priorities == "true"
    )


def _given(numbers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in numbers.items() if value is not None}


def _choice(parameters: Mapping[str, str], name: str, choices: Sequence[str]) -> str:
    text = parameters.get(name, AUTO)
    if text not in (AUTO, *choices):
        raise UsageError(f"{name} is {text!r}: give one of {', '.join((AUTO, *choices))}")
    return text


def _number(parameters: Mapping[str, str], name: str, kind: type[Any] = int) -> Any:
    text = parameters.get(name, AUTO)
    if text == AUTO:
        return None
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}: give a number, or {AUTO}") from None
