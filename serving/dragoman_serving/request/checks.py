"""Checks a request's options against the table of options and the model's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dragoman_options.arguments import OptionArguments
from dragoman_options.refusal import Refusal
from dragoman_options.table import check

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Limits


def check_options(
    given: Mapping[str, Any], model: str, limits: Limits | None, vocab_size: int | None = None
) -> OptionArguments:
    """Check options, and refuse invalid ones.

    Args:
        given: options of a request, by name.
        model: name of the Triton model.
        limits: limits of the bundle; None: values are not checked against them.
        vocab_size: V; None: values are not checked against it.

    Returns:
        The options that differ from the default.

    Raises:
        InvalidRequest: an unknown name, a value of another type or out of range, or options that
            exclude each other.
    """
    try:
        known = bounds(limits, vocab_size) if limits else None
        return cast(OptionArguments, check(given, model, known))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(*Refusal.of(error)) from error


def bounds(limits: Limits, vocab_size: int | None) -> dict[str, float]:
    """Returns the model's limits by their names in the table of options."""
    by_name: dict[str, float] = {
        "max_target_tokens": limits.max_target_tokens,
        "max_beam_width": limits.max_beam_width,
        "most_text_tokens": limits.most_text_tokens,
    }
    return by_name if vocab_size is None else {**by_name, "vocabulary": vocab_size}
