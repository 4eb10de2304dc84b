"""A request's options, held against the table of options and the model's limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dragoman_options.arguments import OptionArguments
from dragoman_options.table import check

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Limits


def check_options(
    given: Mapping[str, Any], model: str, limits: Limits | None, vocab_size: int | None = None
) -> OptionArguments:
    """Refuse what cannot be asked for.

    Args:
        given: options of a request, by name.
        model: Triton's name of the model that is asked.
        limits: of the bundle; None: what they bound is not checked.
        vocab_size: V; None: what it bounds is not checked.

    Returns:
        The options without those that are the default.

    Raises:
        InvalidRequest: an unknown name, a value of another type or out of range, or one that does
            not go with another.
    """
    try:
        known = bounds(limits, vocab_size) if limits else None
        return cast(OptionArguments, check(given, model, known))
    except (TypeError, ValueError) as error:
        raise InvalidRequest(str(error)) from error


def bounds(limits: Limits, vocab_size: int | None) -> dict[str, float]:
    """The model's numbers that the table of options names."""
    found: dict[str, float] = {
        "max_target_tokens": limits.max_target_tokens,
        "max_beam_width": limits.max_beam_width,
        "most_text_tokens": limits.most_text_tokens,
    }
    return found if vocab_size is None else {**found, "vocabulary": vocab_size}
