"""How the model reads a sentence with literals: with a stand-in for each.

A stand-in is short, has tokens in the vocabulary, and models repeat it: `X1` for a placeholder, `*`
for an emoji. In the translation, the literal replaces it. So the model cannot change, exchange or
translate a literal, whichever characters it has.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Self

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity.literals import Literal, outside
from dragoman_serving.fidelity.numbers import ANY_SIGN, is_measure
from dragoman_serving.fidelity.restored import Edit, Occurrence, Restored, edited

_FORMS = ("X{}", "[{}]", "#{}", "Q{}", "Z{}", "K{}", "W{}", "V{}", "Y{}", "J{}")
_SIGNS = "*#~^"
_NUMBERS = ("34", "46", "57", "68", "79", "83", "91", "95")
"""Numbers that languages seldom write as words, and that are neither years nor hours."""
_DIGITS = re.compile(r"\d+")
_APOSTROPHE = re.compile("'")
_FEWEST_FORMS = 3
_FEWEST_LETTERS = 3
_MOST_WORDS = 512


class StandIns:
    """The stand-ins that both vocabularies of a model can write.

    They are chosen when they are needed first, so that loading a model is fast.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Store the vocabularies."""
        self._sides = (tokenizer, tokenizer.target)

    @cached_property
    def _forms(self) -> list[str]:
        return [
            form for form in _FORMS if self._can_write(" ".join(map(form.format, range(1, 10))))
        ]

    @cached_property
    def _signs(self) -> list[str]:
        return list(filter(self._can_write, _SIGNS))

    @cached_property
    def _words(self) -> list[str]:
        if len(self._forms) >= _FEWEST_FORMS:
            return []
        pieces = (piece[1:] for piece in self._sides[0].vocabulary if piece[:1] == "▁")
        words = (
            word
            for word in pieces
            if len(word) >= _FEWEST_LETTERS and word.isalpha() and self._can_write(word)
        )
        return list(itertools.islice(words, _MOST_WORDS))

    def _can_write(self, text: str) -> bool:
        return all(side.can_write(text) and side.encode(text) for side in self._sides)

    def forms(self, line: str) -> list[Callable[[int], str]]:
        """Returns functions from a number to a stand-in that is not in a sentence."""
        used = {*re.findall(r"[A-Z#](?=\d)", line), *re.findall(r"\[", line)}
        forms: list[Callable[[int], str]] = [
            form.format for form in self._forms if form[0] not in used
        ]
        text = line.casefold()
        if words := [word for word in self._words if word.casefold() not in text]:
            forms += (
                partial(_nth, words[first:] + words[:first]) for first in (0, len(words) // 2)
            )
        return forms

    def numbers(self, line: str) -> list[str]:
        """Returns the stand-ins of placeholders for numbers, which are not in a sentence."""
        used = set(_DIGITS.findall(line))
        return [number for number in _NUMBERS if number not in used and self._can_write(number)]

    def sign(self, line: str) -> str | None:
        """Returns the stand-in of signs, if there is one that is not in a sentence."""
        return next((sign for sign in self._signs if sign not in line), None)


@dataclass(unsafe_hash=True)  # not frozen: that is three times slower, and each sentence has one
class Reading:
    """A sentence as the model reads it.

    Attributes:
        text: the sentence with stand-ins.
        spans: spans of the stand-ins in `text`.
        raw: the literals, in order.
        targets: what replaces them in the translation, usually the same.
        spelled: spans of `text` that the sentence has in another spelling, which follows.
        doubles: whether apostrophes of the translation are doubled, as in ICU messages.
    """

    text: str
    spans: tuple[Span, ...] = ()
    raw: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    spelled: tuple[tuple[Span, str], ...] = ()
    doubles: bool = False

    @cached_property
    def stand_ins(self) -> tuple[str, ...]:
        """The stand-ins, in order."""
        return tuple(self.text[begin:end] for begin, end in self.spans)

    @property
    def is_other(self) -> bool:
        """Whether positions in it or in its translation differ from those of the sentence."""
        return bool(self.spans or self.spelled or self.doubles)

    @classmethod
    def of(
        cls,
        line: str,
        literals: Sequence[Literal],
        stand_ins: StandIns,
        attempt: int = 0,
        beside: str = "",
    ) -> Self:
        """Read a sentence.

        Args:
            line: the sentence.
            literals: its literals.
            stand_ins: the stand-ins of the model; without any, the literals are read as they are.
            attempt: number of the search. Further ones use other stand-ins, also for literals that
                a model usually repeats.
            beside: further text that the translation may have, which no stand-in must be in.
        """
        if attempt == 0:
            literals = [literal for literal in literals if not literal.is_usual]
        every = [line[literal.begin : literal.end] for literal in literals]
        all_text = " ".join((line, beside, *(literal.target or "" for literal in literals)))
        if not literals or not (forms := stand_ins.forms(all_text)):
            return cls(line)
        form = forms[attempt % len(forms)]
        sign = stand_ins.sign(line)
        if any(
            literal.is_sign and text in beside
            for literal, text in zip(literals, every, strict=True)
        ):
            sign = None  # the signs of a prefix may have another order
        parts: list[str] = []
        spans: list[Span] = []
        raw: list[str] = []
        targets: list[str] = []
        spelled: list[tuple[Span, str]] = []
        has_counts = attempt == 0 and any(literal.is_count for literal in literals)
        numbers = stand_ins.numbers(all_text) if has_counts else []
        of_text: dict[str, str] = {}
        length = 0
        between = outside(line, [literal.span for literal in literals])
        for literal, text, (begin, end) in zip(literals, every, between, strict=False):
            length += end - begin
            if (read := literal.read) is not None:
                spelled.append(((length, length + len(read)), text))
            elif literal.is_sign and sign and attempt == 0:
                read = sign
            elif text in of_text:
                read = of_text[text]
            elif literal.is_count and numbers:
                read = of_text[text] = numbers.pop(0)
            else:
                read = of_text[text] = form(len(of_text) + 1)
            if literal.read is None:
                spans.append((length, length + len(read)))
                raw.append(text)
                targets.append(literal.target or text)
            parts += (line[begin:end], read)
            length += len(read)
        return cls(
            "".join((*parts, line[literals[-1].end :])),
            tuple(spans),
            tuple(raw),
            tuple(targets),
            tuple(spelled),
        )

    @cached_property
    def _replaced(self) -> list[tuple[Span, str]]:
        """What stands for other text, with this text, in order."""
        stand_ins = zip(self.spans, self.raw, strict=True)
        return sorted([*stand_ins, *self.spelled]) if self.spelled else list(stand_ins)

    @property
    def line(self) -> str:
        """The sentence with its literals."""
        if not self._replaced:
            return self.text
        spans, raw = zip(*self._replaced, strict=True)
        parts = [self.text[begin:end] for begin, end in outside(self.text, spans)]
        return "".join(map("".join, zip(parts, (*raw, ""), strict=True)))

    def index(self, index: int) -> int:
        """Maps an index of `text` to `line`; within what replaces a part, to the part's begin."""
        before = bisect_left(self._replaced, index, key=lambda replaced: replaced[0][0])
        if before and index < self._replaced[before - 1][0][1]:
            before -= 1
            index = self._replaced[before][0][0]
        return index + self._shifts[before]

    @cached_property
    def _shifts(self) -> list[int]:
        """What an index moves by after each number of replaced parts."""
        grown = (len(raw) - (end - begin) for (begin, end), raw in self._replaced)
        return list(itertools.accumulate(grown, initial=0))

    def with_text(self, text: str) -> Self:
        """Returns a copy for a text of the same length, in another case."""
        return replace(self, text=text)

    def put_into(self, text: str) -> str:
        """Returns the beginning of a translation with stand-ins for the literals that it has."""
        own = dict(zip(self.targets, self.stand_ins, strict=True))
        at = 0
        parts: list[str] = []
        while own and (begin := min(map(text.find, own, itertools.repeat(at)), key=_as_found)) >= 0:
            target = max((literal for literal in own if text.startswith(literal, begin)), key=len)
            parts += (text[at:begin], own[target])
            at = begin + len(target)
        return "".join((*parts, text[at:]))

    def masked(self, written: str) -> str:
        """Returns a translation of the same length without stand-ins, `¤` for a currency or unit.

        Signs of a sentence share a stand-in: if one is a currency, each may be. Numbers stay.
        """
        for stand_in in set(self.stand_ins) - set(_NUMBERS):
            pairs = zip(self.raw, self.stand_ins, strict=True)
            fill = ANY_SIGN if any(of == stand_in and is_measure(raw) for raw, of in pairs) else " "
            for begin, end in self.spans_of(stand_in, written):
                written = written[:begin] + fill * (end - begin) + written[end:]
        return written

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How often the sentence has each stand-in."""
        return Counter(self.stand_ins)

    @staticmethod
    def spans_of(stand_in: str, written: str) -> list[Span]:
        """Returns where a translation has a stand-in."""
        return [match.span() for match in _pattern(stand_in).finditer(written)]

    @classmethod
    def count(cls, stand_in: str, written: str) -> int:
        """Returns how often a translation has a stand-in."""
        return len(cls.spans_of(stand_in, written))

    def is_in(self, written: str) -> bool:
        """Whether a translation has each stand-in as often as the sentence."""
        return all(
            self.count(stand_in, written) == count for stand_in, count in self.counts.items()
        )

    def restored(self, written: str) -> Restored:
        """Returns a translation with the literals in place of the stand-ins.

        One that it has too often is replaced by the last of its literals.
        """
        occurrences: list[Occurrence] = []
        of_stand_in: dict[str, list[tuple[Span, str]]] = {}
        for stand_in, span, target in zip(self.stand_ins, self.spans, self.targets, strict=True):
            of_stand_in.setdefault(stand_in, []).append((span, target))
        for stand_in, literals in of_stand_in.items():
            for number, match in enumerate(_pattern(stand_in).finditer(written)):
                span, target = literals[min(number, len(literals) - 1)]
                occurrences.append(Occurrence(*match.span(), span, target))
        doubled = written if self.doubles else ""
        further = [Edit(*match.span(), "''") for match in _APOSTROPHE.finditer(doubled)]
        return Restored(written, self.text, occurrences, self.spans, further)

    def replaced(self, written: str, other: Self) -> str:
        """Returns a translation of another reading with the stand-ins of this one.

        Literals that have no stand-in here are written as they are.
        """
        own = dict(zip(self.targets, self.stand_ins, strict=True))
        restored = other.restored(written)
        return edited(
            restored.text,
            [edit._replace(text=own.get(edit.text, edit.text)) for edit in restored.placed],
        )


def _as_found(index: int) -> tuple[bool, int]:
    return index < 0, index


def _nth(words: Sequence[str], number: int) -> str:
    return words[number % len(words)]


def _pattern(stand_in: str) -> re.Pattern[str]:
    before, behind = "", ""
    if stand_in.isalpha():
        before, behind = r"(?<!\w)", r"(?!\w)"
    elif stand_in.isdigit():
        # Not joined to a word, but to an ending, as in `34th`.
        before, behind = r"(?<!\w)(?<!\d[.,])", r"(?!\d|[.,]\d|[^\W\d_]{4})"
    elif stand_in[-1].isdigit():
        behind = r"(?!\d)"
    # A translation may be in capitals.
    return re.compile(before + re.escape(stand_in) + behind, re.IGNORECASE)
