# ruff: noqa: RUF001  the punctuation of several languages
"""A sentence that is too long for the model, cut where it hurts least."""

from __future__ import annotations

import bisect
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Protocol

_CLOSING = "\"'”’»«)\\]"
_CLAUSE_END = re.compile(
    rf"(?:[;:؛!?…]|\.(?=[{_CLOSING}]))[{_CLOSING}]*\s+|\s[–—-]\s+|[。！？；：]"
)
_COMMA = re.compile(rf"[,،][{_CLOSING}]*\s+|[、，]")
_SPACE = re.compile(r"(?<!\s)\s+")
_CONJUNCTIONS = {
    "en": "and or but nor so because although though while when where which who that if unless"
    " until since before after as",
    "de": "und oder aber denn sondern weil obwohl während wenn als dass bevor nachdem damit ob"
    " falls sowie",
    "fr": "et ou mais car donc ni parce que qui quand lorsque si puisque comme dont où afin pour",
}
_NARROWEST, _WIDEST = 0.5, 1.5
"""Parts of an even piece's tokens that a piece may have for the sake of a better place."""
_JOINER = "\u200d"
"""Makes one emoji of two."""
_MOST_ACCENTS = 16
"""On a letter; more are rubbish that may be cut anywhere."""


Span = tuple[int, int]
"""Begin and end, in characters."""


class SubwordTokenizer(Protocol):
    """What is asked of a tokenizer; see `Tokenizer`."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without specials."""

    def token_starts(self, text: str) -> list[int]:
        """The character at which each token begins."""


class Uncuttable(ValueError):
    """A single character has more tokens than a piece may have."""


def cut_sentence(
    sentence: str,
    most_tokens: int,
    language: str,
    tokenizer: SubwordTokenizer,
    whole: Sequence[Span] = (),
) -> list[tuple[str, str]]:
    """Cut a sentence into pieces that are short enough, keeping every character.

    Best is the end of a clause, then a comma, a conjunction, white space, the end of a token;
    among the places of a kind that which makes the pieces most even.

    Args:
        sentence: without white space around it.
        most_tokens: of a piece, without specials, at least 1.
        language: its language code.
        tokenizer: counts tokens.
        whole: spans that are not cut if they have fewer tokens than that, in ascending order.

    Returns:
        Pairs of a piece and the white space that follows it; joined, they are the sentence.

    Raises:
        Uncuttable: a character has more tokens than that.
    """
    # Most sentences are short, and a token of ASCII has at least one character.
    is_short = sentence.isascii() and len(sentence) < most_tokens
    if is_short or len(tokenizer.encode(sentence)) <= most_tokens:
        return [(sentence, "")]
    cutting = _Cutting(sentence, language, tokenizer, whole)
    pieces: list[tuple[str, str]] = []
    begin = 0
    while not cutting.fits(begin, len(sentence), most_tokens):
        end = cutting.best(begin, most_tokens)
        pieces.append(_without_space_behind(sentence[begin:end]))
        begin = end
    return [*pieces, (sentence[begin:], "")]


class _Cutting:
    """A sentence, with the places where it may be cut."""

    def __init__(
        self,
        sentence: str,
        language: str,
        tokenizer: SubwordTokenizer,
        whole: Sequence[Span],
    ) -> None:
        self._sentence = sentence
        self._whole = whole
        self._tokenizer = tokenizer
        self._starts = tokenizer.token_starts(sentence)
        self._places = [
            [at for at in places if self._span_at(at) is None]
            for places in _places(sentence, language)
        ]

    def tokens(self, begin: int, end: int) -> int:
        """About how many there are: a piece by itself may have a few more."""
        return bisect.bisect_left(self._starts, end) - bisect.bisect_left(self._starts, begin)

    def fits(self, begin: int, end: int, most_tokens: int) -> bool:
        """Whether a piece by itself has no more tokens."""
        if self.tokens(begin, end) > 2 * most_tokens:
            return False
        return len(self._tokenizer.encode(self._sentence[begin:end].rstrip())) <= most_tokens

    def best(self, begin: int, most_tokens: int) -> int:
        """Where the piece ends that begins there."""
        left = self.tokens(begin, len(self._sentence))
        allowed = most_tokens
        while allowed >= 1:
            even = left / max(2, math.ceil(left / most_tokens))
            end = self._nearest(begin, min(even, allowed), min(_WIDEST * even, allowed))
            if self.fits(begin, end, most_tokens):
                return end
            allowed = min(allowed, self.tokens(begin, end)) - 1
        end = self._whole_character(begin + 1)
        if not self.fits(begin, end, most_tokens):
            end = begin + 1  # accents without end, and no room for them
        if self.fits(begin, end, most_tokens):
            return end
        raise Uncuttable(
            f"{self._sentence[begin]!r} alone has more tokens than a piece may have, {most_tokens}"
        )

    def _nearest(self, begin: int, even: float, most: float) -> int:
        """The best place behind so many tokens, more or less."""
        low, high = self._reached(begin, _NARROWEST * even), self._reached(begin, most)
        for places in self._places:
            first = bisect.bisect_left(places, max(low, begin + 1))
            near = places[first : bisect.bisect_right(places, min(high, len(self._sentence) - 1))]
            if near:
                return min(near, key=lambda at: abs(self.tokens(begin, at) - even))
        wanted = self._whole_character(max(begin + 1, self._reached(begin, even)))
        if span := self._span_at(wanted):
            wanted = span[1] if span[1] <= high or span[0] <= begin else span[0]
        return wanted if wanted <= high else max(begin + 1, high)

    def _span_at(self, at: int) -> Span | None:
        """The span that a cut there would part."""
        index = bisect.bisect_left(self._whole, at, key=lambda span: span[0]) - 1
        return self._whole[index] if index >= 0 and at < self._whole[index][1] else None

    def _reached(self, begin: int, tokens: float) -> int:
        """The character behind so many tokens."""
        index = bisect.bisect_left(self._starts, begin) + int(tokens)
        return self._starts[index] if index < len(self._starts) else len(self._sentence)

    def _whole_character(self, at: int) -> int:
        """The next place that parts no letter from its accents, and has no white space behind."""
        most = min(at + _MOST_ACCENTS, len(self._sentence))
        while at < most and (
            unicodedata.category(self._sentence[at]) in ("Mn", "Me", "Sk")
            or _JOINER in self._sentence[at - 1 : at + 1]
        ):
            at += 1
        while at < len(self._sentence) and self._sentence[at].isspace():
            at += 1
        return at


def _places(sentence: str, language: str) -> Iterator[list[int]]:
    """Where a piece may begin, in ascending order: a list for each kind of place, the best first.

    After the last kind comes any place between two tokens.
    """
    words = "|".join(_CONJUNCTIONS.get(language, "").split())
    conjunction = re.compile(rf"(?<!\s)\s+(?=(?:{words})\s)", re.IGNORECASE) if words else _SPACE
    for pattern in (_CLAUSE_END, _COMMA, conjunction, _SPACE):
        yield [found.end() for found in pattern.finditer(sentence)]


def _without_space_behind(piece: str) -> tuple[str, str]:
    core = piece.rstrip()
    return core, piece[len(core) :]
