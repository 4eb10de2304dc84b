"""Terms with a translation of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping


class Glossary:
    """Source terms, each with what a translation shall hold for it."""

    def __init__(self, terms: Mapping[str, str]) -> None:
        """Take terms, of which the longest counts where several begin at one place.

        Args:
            terms: target term by source term, none of them empty.
        """
        self._targets = {term.strip().casefold(): target for term, target in terms.items()}
        longest_first = sorted(self._targets, key=len, reverse=True)
        self._pattern = re.compile(
            rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)" if terms else r"(?!)"
        )

    def targets_of(self, text: str) -> tuple[str, ...]:
        """What the translation of a text shall hold: once for each term that stands there."""
        found = self._pattern.finditer(text.casefold())
        return tuple(dict.fromkeys(self._targets[match.group()] for match in found))
