"""The markup of a request's texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman_options.markup import Markup

from dragoman.kernel.errors import InvalidRequest


def markups_of(options: Mapping[str, Any], texts: int) -> tuple[Markup | None, ...]:
    """Returns the markup of each text; empty if no text has markup.

    Args:
        options: checked options by name.
        texts: number of texts in the request.

    Raises:
        InvalidRequest: the numbers of values and texts differ.
    """
    markups: tuple[Markup | None, ...] = options.get("markup", ())
    if markups and len(markups) != texts:
        raise InvalidRequest(
            f"markup has {len(markups)} values for {texts} texts: give one for each",
            option="markup",
        )
    return markups


def check_markup(index: int, text: str, markup: Markup) -> None:
    """Refuse markup that is not valid.

    Raises:
        InvalidRequest: the markup is not valid.
    """
    try:
        markup.check(text)
    except ValueError as error:
        raise InvalidRequest(
            f"markup of text {index}: {error}", option="markup", text_index=index
        ) from error
