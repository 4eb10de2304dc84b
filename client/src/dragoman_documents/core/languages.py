"""Finds the parts of a document that are declared to be in another language."""

from __future__ import annotations

_NO_LANGUAGE = frozenset(("auto", "mul", "und"))
"""Tags that do not name a language: https://www.rfc-editor.org/rfc/rfc5646#section-2.2.1"""


def is_same_language(tag: str, other: str) -> bool:
    """Whether two tags name the same language, ignoring region and script."""
    first, second = (code.replace("_", "-").partition("-")[0].lower() for code in (tag, other))
    return bool(first) and first == second


def is_compatible(tag: str, other: str) -> bool:
    """Whether two tags name the same language, and no different scripts, such as zh-Hant."""
    first, second = (_script(code) for code in (tag, other))
    return is_same_language(tag, other) and (not (first and second) or first == second)


def _script(tag: str) -> str:
    parts = tag.replace("_", "-").lower().split("-")
    return next((part for part in parts[1:] if len(part) == 4 and part.isalpha()), "")


def names_language(tag: str | None) -> bool:
    """Whether a tag names a single, known language."""
    return bool(tag) and str(tag).lower() not in _NO_LANGUAGE


class DocumentLanguages:
    """The languages of a document that are translated."""

    def __init__(self, *languages: str | None) -> None:
        """Store the languages.

        Args:
            *languages: the declared and the given source language, if any.
        """
        self._translated = [
            language for language in languages if language and names_language(language)
        ]

    def is_foreign(self, language: str | None) -> bool | None:
        """Whether an element is in a language that is not translated; None: unknown.

        Args:
            language: language that the element declares, if any.
        """
        if not language or not names_language(language) or not self._translated:
            return None
        return not any(is_same_language(language, translated) for translated in self._translated)
