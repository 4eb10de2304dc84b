"""Finds what a translation lacks: numbers, literals and terms of its sentence."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from dragoman.kernel.texts.cutting import Span
from dragoman_serving.fidelity.letter_case import with_capital
from dragoman_serving.fidelity.literals import Literal
from dragoman_serving.fidelity.measures import UNITS, has_unit
from dragoman_serving.fidelity.names import plain
from dragoman_serving.fidelity.negations import says_opposite
from dragoman_serving.fidelity.numbers import Number, difference, numbers_of
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.request.glossary import Term
from dragoman_serving.translation.segments import SourceSentence

NEGATION, NUMBERS, PHRASES, PLACEHOLDERS = "negation", "numbers", "phrases", "placeholders"
SIGNS, TERMS = "signs", "terms"
"""Names of losses in answers."""

_DIGITS = re.compile(r"\d+(?:[.,:/]\d+)*")
_LETTER = re.compile(r"\(?[a-z]{1,5}\)")
"""A letter or a small Roman number in a reference: `point (b)`."""
_CODE = re.compile(r"(?=.*[a-z])(?:.*(?:\d[\W_]?[A-Za-z]|[a-z][A-Z]|\.\w)|[a-z]+\d)")
"""A code or a name in a program, in which case matters."""
_WORD = re.compile(r"\w+")
_ENDINGS_OF_NUMBERS = frozenset(("", "e", "er", "eme", "th", "st", "nd", "rd"))
"""Of a Roman number in a translation, without accents."""
_MOST_COMPARED = 128
"""Sentences whose numbers were compared last."""


class WrongNumbers(NamedTuple):
    """Numbers that differ between a sentence and its translation.

    Attributes:
        missing: those of the sentence that the translation lacks.
        repeated: those of the sentence that the translation has too often.
        additional: those of the translation that the sentence lacks.
    """

    missing: Sequence[Number] = ()
    repeated: Sequence[Number] = ()
    additional: Sequence[Number] = ()

    @property
    def total(self) -> int:
        """How many numbers of the sentence are wrong."""
        return len(self.missing) + len(self.repeated)


def losses(sentence: SourceSentence, written: str, text: str) -> Iterator[str]:
    """Yields what a translation lacks.

    Args:
        sentence: the sentence.
        written: its translation, with stand-ins.
        text: its translation, with literals.
    """
    if wrong_numbers(sentence, written).total:
        yield NUMBERS
    if missing_phrases(sentence, written):
        yield PHRASES
    if missing_terms(sentence, written):
        yield TERMS
    if _surplus(sentence.reading, written):
        yield PLACEHOLDERS
    line = sentence.original
    required = Counter(
        (literal.target or line[literal.begin : literal.end], literal.is_sign)
        for literal in sentence.literals
        if literal.read is None and not _may_vary(literal, line)
    )
    for (target, is_sign), count in required.items():
        if text.count(target) < count:
            yield SIGNS if is_sign else PLACEHOLDERS
    if lost_identifiers(sentence, text):
        yield PLACEHOLDERS


def _surplus(reading: Reading, written: str) -> bool:
    """Whether a translation has a stand-in too often."""
    counts = reading.counts.items()
    return any(reading.count(stand_in, written) > count for stand_in, count in counts)


def lost_identifiers(sentence: SourceSentence, written: str) -> list[Literal]:
    """Returns the literals that a translation lacks of those that the model reads as they are.

    It may write them in another case except for codes, names without accents or the s of a
    genitive, and letters in parentheses as `b)`.
    """
    usual = [literal for literal in sentence.literals if literal.is_usual]
    if not usual:
        return usual
    line, lost = sentence.original, list[Literal]()
    remaining, plain_written = Counter[str](), plain(written)
    for literal in usual:
        text = line[literal.begin : literal.end]
        if text in UNITS:
            if not has_unit(written, text):
                lost.append(literal)
            continue
        is_code = _CODE.match(text) is not None
        is_roman = text.isupper() and text.isalpha()
        text = text if is_code else plain(text)
        if _LETTER.fullmatch(text):
            text = text.lstrip("(")
        elif text.replace(" ", "").isalpha():
            text = text.removesuffix("s")
        remaining[text] += 1
        compared = written if is_code else plain_written
        every = re.findall(rf"(?<![^\W\d_]){re.escape(text)}(?!\d)", compared)
        if is_roman:  # `VI` is not in `ville`, but in `VIe`
            words = (word.partition(text) for word in _WORD.findall(plain_written))
            every = [
                ending
                for before, number, ending in words
                if number and not before and ending in _ENDINGS_OF_NUMBERS
            ]
        if len(every) < remaining[text]:
            lost.append(literal)
    return lost


def _may_vary(literal: Literal, line: str) -> bool:
    """Whether a literal is a name, a unit or a letter, which languages may write in other ways."""
    text = line[literal.begin : literal.end]
    varies = text in UNITS or _LETTER.fullmatch(text) is not None
    varies = varies or (text.istitle() and text.replace(" ", "").isalpha()) or not text.isascii()
    return literal.is_usual and varies


def is_opposite(sentence: SourceSentence, written: str) -> bool:
    """Whether a translation lacks the negation of a sentence, or has one that it lacks."""
    reading = sentence.reading
    return says_opposite(reading.masked(reading.text), reading.masked(written), *sentence.languages)


def wrong_numbers(sentence: SourceSentence, written: str) -> WrongNumbers:
    """Compares the numbers of a sentence with those of its translation."""
    if not sentence.has_numbers:
        return WrongNumbers()
    reading = sentence.reading
    source = reading.masked(reading.text)
    return _compared(source, reading.masked(written), sentence.languages)


@lru_cache(maxsize=_MOST_COMPARED)
def _compared(source: str, written: str, languages: tuple[str, str]) -> WrongNumbers:
    """See `wrong_numbers`; it is needed for corrections, and again for warnings."""
    missing, additional = difference(source, written, languages)
    if not additional:
        return WrongNumbers(missing)
    numbers = numbers_of(source, *languages)
    repeated = [
        number for number in numbers if any(is_repetition(number, other) for other in additional)
    ]
    return WrongNumbers(missing, repeated, additional)


def is_repetition(number: Number, additional: Number) -> bool:
    """Whether an additional number repeats another one, or its beginning: `2364 2,364,255`.

    It may lack its power of ten.
    """
    digits, others = (_DIGITS.search(compared.text) for compared in (number, additional))
    is_same = digits is not None and others is not None and digits[0] == others[0]
    part = additional.text
    begins = len(part) > 2 and "".join(filter(str.isdigit, number.text)).startswith(part)
    return is_same or begins or not number.values.isdisjoint(additional.values)


def missing_terms(sentence: SourceSentence, written: str) -> list[Term]:
    """Terms of a sentence that its translation lacks: one for each occurrence, the last ones."""
    written = sentence.reading.masked(written)
    remaining = Counter(term.target for term in sentence.terms)
    for target in remaining:
        remaining[target] -= len(occurrences(target, written))
    missing = []
    for term in reversed(sentence.terms):
        if remaining[term.target] > 0:
            remaining[term.target] -= 1
            missing.append(term)
    return missing


def missing_phrases(sentence: SourceSentence, written: str) -> dict[str, int]:
    """How many phrases of each meaning a translation lacks, by what is written for them."""
    required = Counter(phrase.written for phrase in sentence.phrases if phrase.has_number)
    written = sentence.reading.masked(written)
    return {
        phrase.written: lacked
        for phrase in sentence.phrases
        if (lacked := max(1, required[phrase.written]) - len(phrase.accepted.findall(written))) > 0
    }


def occurrences(term: str, written: str) -> list[Span]:
    """Where a translation has a term as whole words, at most with a capital at its beginning."""
    pattern = re.compile(rf"(?<!\w){re.escape(term)}(?!\w)", re.IGNORECASE)
    forms = {term, with_capital(term)}
    return [match.span() for match in pattern.finditer(written) if match[0] in forms]
