"""Terms with a translation of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from reprlib import repr as brief

from dragoman.kernel.errors import InvalidRequest

_MOST_TERMS = 1000
_MOST_CHARACTERS = 200
"""Of a term, on either side."""


class Glossary:
    """Source terms, each with what a translation shall hold for it."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Take terms, of which the longest counts where several begin at one place.

        Args:
            terms: target term by source term.

        Raises:
            InvalidRequest: there are too many, or one is empty or too long.
        """
        if len(terms) > _MOST_TERMS:
            raise InvalidRequest(f"glossary has {len(terms)} terms, more than {_MOST_TERMS}")
        for term in (*terms, *terms.values()):
            if not term.strip():
                raise InvalidRequest("glossary has an empty term")
            if any(0xD800 <= ord(character) <= 0xDFFF for character in term):
                raise InvalidRequest(f"glossary: {brief(term)} holds half of a character")
            if len(term) > _MOST_CHARACTERS:
                raise InvalidRequest(
                    f"glossary: {brief(term)} has more than {_MOST_CHARACTERS} characters"
                )
        self._targets = {term.strip().casefold(): target for term, target in terms.items()}
        longest_first = sorted(self._targets, key=len, reverse=True)
        self._pattern = re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)" if terms else r"(?!)"
        )

    @classmethod
    def from_json(cls, written: str) -> Glossary:
        """Read a JSON object of target terms by source term.

        Raises:
            InvalidRequest: it is not one, or see `__init__`.
        """
        try:
            terms = json.loads(written)
        except (ValueError, RecursionError) as error:
            raise InvalidRequest(f"glossary is not valid JSON: {error}") from error
        if not isinstance(terms, dict) or not all(type(term) is str for term in terms.values()):
            raise InvalidRequest('glossary is not a JSON object of strings, such as {"tea": "Tee"}')
        return cls(terms)

    def targets_of(self, text: str) -> tuple[str, ...]:
        """What the translation of a text shall hold: once for each term that stands there."""
        found = self._pattern.finditer(text.casefold())
        return tuple(dict.fromkeys(self._targets[match.group()] for match in found))
