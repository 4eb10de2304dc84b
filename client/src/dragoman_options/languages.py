"""Language codes as people write them, matched with those that a model has."""

from __future__ import annotations

from collections.abc import Sequence


def fold_language(given: str, known: Sequence[str]) -> str | None:
    """The known code that a given one means, such as `de` for `DE`, `de-DE` and `de_DE`.

    Case does not count, and `_` is `-`. Of a code that is not known, parts are left out from its
    end until one is, so that of `pt` and `pt-br`, `pt_BR` means the second and `pt-PT` the first.

    Args:
        given: of a request.
        known: of the model.

    Returns:
        One of `known`; None if none fits.

    Source: the lookup of RFC 4647, section 3.4
    """
    if given in known:
        return given
    by_form = {_form(code): code for code in reversed(known)}  # of equal ones, the first
    parts = _form(given).split("-")
    forms = ("-".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((by_form[form] for form in forms if form in by_form), None)


def _form(code: str) -> str:
    return code.strip().replace("_", "-").casefold()
