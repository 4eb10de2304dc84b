"""Results of the studies of scores and alignments."""

from __future__ import annotations

import math

import pytest
from dragoman_serving.translation.translator import Translator
from dragoman_training.text.parallel_text import Side

from lab.quality.alignment import Agreement
from lab.quality.confidence import (
    SHIPPED,
    Direction,
    draw,
    interval,
    kept,
    measure,
    ranks,
    spearman,
    tenths,
)

CHRF = [float(number) for number in range(0, 100, 5)]


def fields(one: Direction) -> tuple[list[float], list[float], list[int], list[float]]:
    return one.confidence, one.score, one.tokens, one.chrf


def direction(confidence: list[float]) -> Direction:
    return Direction("en-de", confidence, confidence, [3] * len(CHRF), CHRF)


def test_ranks_of_equal_values_are_shared() -> None:
    assert ranks([3.0, 1.0, 3.0, -2.0]).tolist() == [3.5, 2.0, 3.5, 1.0]


def test_spearmans_correlation_depends_only_on_the_order() -> None:
    assert spearman([1, 2, 3], [1, 10, 1000]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [9, 8, -1]) == pytest.approx(-1.0)
    # By hand: ranks 1 2 3 4 against 2 1 4 3, 1 - 6 x 4 / (4 x 15).
    assert spearman([1, 2, 3, 4], [20, 10, 40, 30]) == pytest.approx(0.6)


def test_the_interval_contains_the_correlation_and_shrinks() -> None:
    few, many = interval(0.6, 20), interval(0.6, 2000)
    assert few[0] < many[0] < 0.6 < many[1] < few[1]
    assert math.isclose(sum(interval(0.0, 100)), 0.0, abs_tol=1e-9)
    assert interval(0.6, 3) == (-1.0, 1.0)
    assert interval(1.0, 20) == (1.0, 1.0)
    assert interval(-1.0, 20) == (-1.0, -1.0)


def test_tenths_begin_with_the_least_confident() -> None:
    assert tenths(direction(CHRF)) == [2.5 + 10 * number for number in range(10)]
    assert tenths(direction(CHRF[::-1]))[0] == 92.5


def test_the_most_confident_translations_are_kept() -> None:
    assert kept(direction(CHRF))[[0, 1, -1]].tolist() == [95.0, 92.5, 47.5]
    assert kept(direction(CHRF[::-1]))[0] == 0.0


def test_the_picture_is_the_same_each_time() -> None:
    found = [direction(CHRF), direction(CHRF[::-1])]
    assert draw(found).startswith("<?xml")
    assert draw(found) == draw(found)
    assert "of-four" in draw([*found, *found[:1], Direction("of-four", *fields(found[0]))])


def test_agreement_counts_sure_and_possible_links() -> None:
    sure = [{(0, 0)}, {(1, 1)}]
    possible = [{(0, 0), (0, 1)}, {(1, 1)}]
    assert Agreement.of(sure, sure, possible) == Agreement(1.0, 1.0, 0.0)
    found = Agreement.of([{(0, 0), (0, 1), (5, 5)}, set()], sure, possible)
    assert (found.precision, found.recall) == (2 / 3, 1 / 2)
    assert found.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))


def test_translations_are_measured_beside_their_references() -> None:
    translator = Translator(SHIPPED)
    try:
        src, tgt = Side("de", ("Guten Morgen.", "Ja.")), Side("en", ("Good morning.", "No."))
        found = measure(translator, src, tgt, beam_width=1)
    finally:
        translator.close()
    assert found.name == "de-en"
    assert found.chrf[0] > found.chrf[1]
    assert len(found.confidence) == len(found.score) == len(found.tokens) == 2
    assert max(found.confidence) < 0.0
