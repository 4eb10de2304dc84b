"""The markup of a request's texts."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman_options.markup import Markup

from dragoman.kernel.errors import InvalidRequest


def read_markups(written: Sequence[str], texts: int) -> tuple[Markup | None, ...]:
    """Returns the markup of each text; empty if no text has markup.

    Args:
        written: values of the option, as JSON; empty for a text without markup.
        texts: number of texts in the request.

    Raises:
        InvalidRequest: the numbers of values and texts differ.
    """
    if written and len(written) != texts:
        raise InvalidRequest(
            f"markup has {len(written)} values for {texts} texts: give one for each",
            option="markup",
        )
    return tuple(Markup.parse(one) if one else None for one in written)


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
