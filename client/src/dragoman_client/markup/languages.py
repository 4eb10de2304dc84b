"""Which parts of a document are in another language than the rest, by what it says of them."""

from __future__ import annotations

_UNDETERMINED = frozenset(("mul", "und"))
"""Several languages, or an unknown one: https://www.rfc-editor.org/rfc/rfc5646#section-2.2.1"""


def is_same_language(tag: str, other: str) -> bool:
    """Whether two tags name one language, whatever the region and script."""
    first, second = (one.replace("_", "-").partition("-")[0].lower() for one in (tag, other))
    return bool(first) and first == second


class DocumentLanguages:
    """The languages of a document that are translated."""

    def __init__(self, *languages: str | None) -> None:
        """Begin.

        Args:
            *languages: what the document says, and what is known from elsewhere; None or empty:
                nothing.
        """
        self._translated = [one for one in languages if one and one not in _UNDETERMINED]

    def is_foreign(self, language: str | None, around: bool) -> bool:
        """Whether an element is in a language that is not translated.

        Args:
            language: that it says; None or empty: none.
            around: whether the element around it is.
        """
        if not language or language in _UNDETERMINED or not self._translated:
            return around
        return not any(is_same_language(language, one) for one in self._translated)
