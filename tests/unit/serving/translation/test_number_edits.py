"""Numbers are corrected in the text of a translation."""

from __future__ import annotations

import numpy as np
import pytest
from dragoman_serving.fidelity.numbers import difference, numbers_of
from dragoman_serving.fidelity.restored import Edit, edited
from dragoman_serving.translation.edits import Aligned
from dragoman_serving.translation.losses import WrongNumbers, is_repetition
from dragoman_serving.translation.number_edits import NumberEdits, without_overlaps
from hypothesis import given
from hypothesis import strategies as st

from dragoman.kernel.text import Piece

LANGUAGES = ("en", "de")


def edits_of(source: str, text: str, languages: tuple[str, str] = LANGUAGES) -> NumberEdits:
    missing, additional = difference(source, text, languages)
    repeated = [
        number
        for number in numbers_of(source, *languages)
        if any(is_repetition(number, other) for other in additional)
    ]
    return NumberEdits(text, text, WrongNumbers(missing, repeated, additional), languages)


@pytest.mark.parametrize(
    ("source", "text", "corrected"),
    [
        ("244890 people", "2444890 Menschen", "244890 Menschen"),
        ("It has 3.5 rooms", "Es hat 35 Zimmer", "Es hat 3,5 Zimmer"),
        ("the 777X and 777", "die 77X und 777", "die 777X und 777"),
        ("$325 million", "3255 Millionen Dollar", "325 Millionen Dollar"),
        ("€3.1billion ($3.6bn)", "€3.1b Millionen ($3.6bn)", "€3,1 Milliarden ($3,6 Milliarden)"),
        ("14 countries", "14 Länder, die 14 Länder", "14 Länder"),
        ("12 dollars", "von 12 Dollar auf 12 Dollar", "von 12 Dollar"),
        ("17 and 21 May", "17 und 2 Mai", "17 und 21 Mai"),
    ],
)
def test_wrong_digits_and_near_repetitions_need_no_search(
    source: str, text: str, corrected: str
) -> None:
    assert edited(text, edits_of(source, text).simple()) == corrected


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("2 pills every 8 hours", "28 Stunden"),
        ("5 of twenty-three", "23"),
        ("in 2010 and 1995", "im Jahr 2010"),
        ("in 2010", "2010 sind viele Menschen ganz plötzlich 2010 gestorben"),
        ("5 and 7", "5 5 und"),
    ],
)
def test_other_differences_are_left_to_a_search(source: str, text: str) -> None:
    assert edits_of(source, text).simple() == []


def aligned(source: str, text: str) -> Aligned:
    """An alignment of each word with the one at the same position."""
    weights = np.eye(len(text.split()), len(source.split()), dtype=np.float32)
    return Aligned(text, pieces(text), weights, pieces(source))


def pieces(text: str) -> list[Piece]:
    begins, begin = [], 0
    for word in text.split():
        begins.append((word, text.index(word, begin)))
        begin = begins[-1][1] + len(word)
    return [Piece(word, 0, at, at + len(word)) for word, at in begins]


@pytest.mark.parametrize(
    ("source", "text", "corrected"),
    [
        ("the 88,000 dollars", "die Dollar", "die 88.000 Dollar"),
        ("the 21 cats", "die 2 Katzen", "die 21 Katzen"),
        ("in 2010 we", "in 2010 sind sehr viele Menschen hier 2010 da", None),
    ],
)
def test_numbers_are_written_where_their_source_is(
    source: str, text: str, corrected: str | None
) -> None:
    edits = without_overlaps(edits_of(source, text).all(aligned(source, text)), 0)
    written = edited(text, edits)
    assert difference(source, written, LANGUAGES) == ([], [])
    assert corrected in (None, written)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=8), st.integers(0, 9))
def test_edits_do_not_overlap(spans: list[tuple[int, int]], begin: int) -> None:
    edits = [Edit(at, at + length, "x") for at, length in spans]
    kept = without_overlaps(iter(edits), begin)
    ends = [begin, *(edit.end for edit in kept)]
    assert all(edit.begin >= end for edit, end in zip(kept, ends, strict=False))
    assert set(kept) <= set(edits)
    assert bool(kept) == any(edit.begin >= begin for edit in edits)
