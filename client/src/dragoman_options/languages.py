"""Matches language codes in requests with those of a model."""

from __future__ import annotations

from collections.abc import Sequence


def fold_language(given: str, known: Sequence[str]) -> str | None:
    """Returns the known code for a given one, such as `de` for `DE`, `de-DE` and `de_DE`.

    Case is ignored, and `_` is the same as `-`. If a code is not known, its last parts are removed
    until it is: with `pt` and `pt-br`, `pt_BR` gives the second and `pt-PT` the first.

    Args:
        given: code in a request.
        known: codes of the model.

    Returns:
        One of `known`; None if none matches.

    Source: the lookup of RFC 4647, section 3.4
    """
    if given in known:
        return given
    by_form = {_form(code): code for code in reversed(known)}  # the first of equal ones
    parts = _form(given).split("-")
    forms = ("-".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((by_form[form] for form in forms if form in by_form), None)


def _form(code: str) -> str:
    return code.strip().replace("_", "-").casefold()
