"""How many of its terms a hypothesis contains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dragoman_serving.engine.constraints import TermConstraints


@dataclass(frozen=True)
class Progress:
    """Which terms a hypothesis has said, as a set of bits, and how much of one it is saying."""

    met: int = 0
    term: int | None = None
    place: int = 0
    just_met: bool = False

    @property
    def bank(self) -> int:
        """How many terms were begun."""
        return self.met.bit_count() + (self.term is not None)

    def begin(self, term: int, terms: TermConstraints) -> Progress:
        """After the first token of a term."""
        return Progress(self.met, term, 0).go_on(terms)

    def go_on(self, terms: TermConstraints) -> Progress:
        """After the next token of the term that is being said."""
        assert self.term is not None
        place = self.place + 1
        if place == len(terms.sequences[self.term]):
            return Progress(self.met | 1 << self.term, just_met=True)
        return Progress(self.met, self.term, place)

    def say_else(self) -> Progress:
        """After any other token."""
        return Progress(self.met)

    def unmet(self, terms: TermConstraints) -> Iterable[int]:
        """Terms that may be begun: of equal ones, which stand for so many places, the first."""
        left = {
            sequence: i
            for i, sequence in reversed(list(enumerate(terms.sequences)))
            if not self.met >> i & 1
        }
        return [term for term in left.values() if not terms.after or self._has(terms.after[term])]

    def _has(self, term: int | None) -> bool:
        return term is None or bool(self.met >> term & 1)

    @property
    def state(self) -> tuple[int, int | None, int]:
        """What hypotheses of the same tokens may differ in."""
        return self.met, self.term, self.place
