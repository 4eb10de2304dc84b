"""What was translated in a file, and what was left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dragoman_options.table import Translation

REASONS: Final[Mapping[str, str]] = {
    "quoted": "formulas quote them",
    "done": "they have a translation, or must not change",
    "refused": "the server refused them",
    "empty": "their translations are empty",
}
"""Why texts were left as they are, by the keys of `FileReport.left`."""
_MOST_LISTED = 1000


class LowConfidence(NamedTuple):
    """A text whose translation has a low confidence.

    Attributes:
        number: number of the text in the file, from 1.
        confidence: mean log-probability of the translation's tokens.
        text: the text.
    """

    number: int
    confidence: float
    text: str


@dataclass
class FileReport:
    """What was translated in a file, and what was left, in this run.

    Attributes:
        texts: number of texts; in a file of lines, of lines; in running text, of paragraphs.
        words: number of words of these texts, as white space separates them.
        cut: number of translations that the token limit cut.
        uncertain_codes: number of elements, such as links, whose position is a guess.
        left: number of texts that were left as they are, by their reason: a key of `REASONS`.
        low_confidence: number of translations with a low confidence.
        listed: the first 1,000 of them.
        warnings: what else a reader of the translation must know.
    """

    texts: int = 0
    words: int = 0
    cut: int = 0
    uncertain_codes: int = 0
    left: Counter[str] = field(default_factory=Counter)
    low_confidence: int = 0
    listed: list[LowConfidence] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(
        self, number: int, text: str, answer: Translation | None, least: float | None = None
    ) -> None:
        """Count a text.

        Args:
            number: its number in the file, from 1.
            text: the text.
            answer: its translation; None: it was refused.
            least: a lower confidence is a low one; None: none is.
        """
        self.texts += 1
        self.words += len(text.split())
        if answer is None or answer.finish_reason == "refused":
            self.left["refused"] += 1
            return
        if text.strip() and not answer.text.strip():
            self.left["empty"] += 1
        self.cut += answer.finish_reason == "length"
        self.uncertain_codes += answer.codes.uncertain if answer.codes else 0
        if least is not None and answer.confidence is not None and answer.confidence < least:
            self.low_confidence += 1
            if len(self.listed) < _MOST_LISTED:
                self.listed.append(LowConfidence(number, answer.confidence, text))

    def add_file(self, other: FileReport) -> None:
        """Add the counts of another file."""
        self.texts += other.texts
        self.words += other.words
        self.cut += other.cut
        self.uncertain_codes += other.uncertain_codes
        self.left.update(other.left)
        self.low_confidence += other.low_confidence

    def __str__(self) -> str:
        """The counts in a line, such as `12 texts, 80 words; left: 2 (formulas quote them)`."""
        texts, words = "s" * (self.texts != 1), "s" * (self.words != 1)
        parts = [f"{self.texts:,} text{texts}, {self.words:,} word{words}"]
        parts += [f"{self.cut:,} cut at the limit of tokens"] * bool(self.cut)
        parts += [f"{self.uncertain_codes:,} uncertain codes"] * bool(self.uncertain_codes)
        parts += [f"{self.low_confidence:,} of low confidence"] * bool(self.low_confidence)
        if self.left:
            left = (f"{number:,} ({REASONS[reason]})" for reason, number in self.left.items())
            parts.append(f"left: {', '.join(left)}")
        return "; ".join(parts)

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        listed = [text._asdict() for text in self.listed]
        return {**vars(self), "left": dict(self.left), "listed": listed}
