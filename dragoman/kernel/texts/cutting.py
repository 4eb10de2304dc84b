# ruff: noqa: RUF001  the punctuation of several languages
"""Cuts a sentence that is too long for the model, at the position that hurts least."""

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
_BEFORE_CONJUNCTION = {
    language: re.compile(rf"(?<!\s)\s+(?=(?:{'|'.join(words.split())})\s)", re.IGNORECASE)
    for language, words in {
        "en": "and or but nor so because although though while when where which who that if unless"
        " until since before after as",
        "de": "und oder aber denn sondern weil obwohl während wenn als dass bevor nachdem damit ob"
        " falls sowie",
        "fr": "et ou mais car donc ni parce que qui quand lorsque si puisque comme dont où afin"
        " pour",
    }.items()
}
_NARROWEST, _WIDEST = 0.5, 1.5
"""Limits of a piece's length, relative to pieces of even length, to reach a better position."""
_JOINER = "\u200d"
"""Zero-width joiner, which joins two emojis into one."""
_MOST_ACCENTS = 16
"""Most combining marks on a letter; longer runs are not text and may be cut anywhere."""


Span = tuple[int, int]
"""Begin and end, in characters."""


class SubwordTokenizer(Protocol):
    """The tokenizer methods that cutting needs; see `Tokenizer`."""

    def encode(self, text: str) -> list[int]:
        """Returns the token ids of a text, without special tokens."""

    def token_starts(self, text: str) -> list[int]:
        """Returns the character index at which each token begins."""


class Uncuttable(ValueError):
    """A single character has more tokens than the limit of a piece."""


def cut_sentence(
    sentence: str,
    most_tokens: int,
    language: str,
    tokenizer: SubwordTokenizer,
    whole: Sequence[Span] = (),
) -> list[tuple[str, str]]:
    """Cut a sentence into pieces that are short enough, keeping every character.

    The order of preference is: the end of a clause, a comma, a conjunction, white space, the end
    of a token. Among positions of one kind, the one that makes the pieces most even is chosen.

    Args:
        sentence: without white space around it.
        most_tokens: limit of a piece, without special tokens, at least 1.
        language: its language code.
        tokenizer: counts tokens.
        whole: spans in ascending order, which are not cut unless they exceed the limit.

    Returns:
        Pairs of a piece and the white space that follows it; concatenated, they are the sentence.

    Raises:
        Uncuttable: a character has more tokens than the limit.
    """
    # Fast path: most sentences are short, and an ASCII token has at least one character.
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
    """A sentence, with the positions where it may be cut."""

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
        """Approximate number of tokens: a piece encoded alone may have a few more."""
        return bisect.bisect_left(self._starts, end) - bisect.bisect_left(self._starts, begin)

    def fits(self, begin: int, end: int, most_tokens: int) -> bool:
        """Whether a piece, encoded alone, is within the limit."""
        if self.tokens(begin, end) > 2 * most_tokens:
            return False
        return len(self._tokenizer.encode(self._sentence[begin:end].rstrip())) <= most_tokens

    def best(self, begin: int, most_tokens: int) -> int:
        """The end of the piece that begins at `begin`."""
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
            end = begin + 1  # too many accents for the limit
        if self.fits(begin, end, most_tokens):
            return end
        raise Uncuttable(
            f"{self._sentence[begin]!r} alone has more tokens than a piece may have, {most_tokens}"
        )

    def _nearest(self, begin: int, even: float, most: float) -> int:
        """The best position after about `even` tokens."""
        low, high = self._reached(begin, _NARROWEST * even), self._reached(begin, most)
        for places in self._places:
            first = bisect.bisect_left(places, max(low, begin + 1))
            near = places[first : bisect.bisect_right(places, min(high, len(self._sentence) - 1))]
            if near:
                return min(near, key=lambda at: abs(self.tokens(begin, at) - even))
        position = self._whole_character(max(begin + 1, self._reached(begin, even)))
        if span := self._span_at(position):
            position = span[1] if span[1] <= high or span[0] <= begin else span[0]
        return position if position <= high else max(begin + 1, high)

    def _span_at(self, at: int) -> Span | None:
        """The span that a cut at this position would split."""
        index = bisect.bisect_left(self._whole, at, key=lambda span: span[0]) - 1
        return self._whole[index] if index >= 0 and at < self._whole[index][1] else None

    def _reached(self, begin: int, tokens: float) -> int:
        """The character index after this many tokens."""
        index = bisect.bisect_left(self._starts, begin) + int(tokens)
        return self._starts[index] if index < len(self._starts) else len(self._sentence)

    def _whole_character(self, at: int) -> int:
        """The next position that is not between a letter and its accents or before white space."""
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
    """Positions where a piece may begin: one ascending list for each kind, the best kind first.

    The caller falls back to any position between two tokens.
    """
    for pattern in (_CLAUSE_END, _COMMA, _BEFORE_CONJUNCTION.get(language, _SPACE), _SPACE):
        yield [match.end() for match in pattern.finditer(sentence)]


def _without_space_behind(piece: str) -> tuple[str, str]:
    core = piece.rstrip()
    return core, piece[len(core) :]
