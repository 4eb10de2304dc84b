"""Reads the engine's settings from the parameters in a model's `config.pbtxt`."""

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
"""Parameters of the rules for requests."""
_FORMER = ("languages",)
"""Ignored parameters, in repositories that older releases made."""


def engine_settings(parameters: Mapping[str, str]) -> EngineSettings:
    """Read the engine's settings; missing ones keep their defaults.

    Raises:
        UsageError: a parameter is unknown or has a wrong value; the message names it.
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
    """Refuse unknown parameters.

    Raises:
        UsageError: a parameter is unknown; the message names it.
    """
    for name in parameters:
        if name not in known:
            raise UsageError(f"config.pbtxt: unknown parameter {name!r}; known: {', '.join(known)}")


def request_rules(parameters: Mapping[str, str]) -> RequestRules:
    """Read the rules for requests; missing ones keep their defaults.

    Raises:
        UsageError: a parameter has a wrong value; the message names it.
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
