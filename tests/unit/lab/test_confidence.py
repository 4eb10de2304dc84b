"""The statistics of confidence and of word alignments."""

from __future__ import annotations

import math

import pytest
from dragoman_serving.translation.translator import Translator
from dragoman_training.text.parallel_text import Side

from lab.measurement import SHIPPED
from lab.quality.alignment import Agreement
from lab.quality.confidence import Direction, interval, kept, measure, ranks, spearman, tenths

CHRF = [float(number) for number in range(0, 100, 5)]


def direction(confidence: list[float]) -> Direction:
    return Direction("en-de", confidence, confidence, [3] * len(CHRF), CHRF)


def test_spearmans_correlation_depends_only_on_the_order() -> None:
    assert ranks([3.0, 1.0, 3.0, -2.0]).tolist() == [3.5, 2.0, 3.5, 1.0]
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


def test_translations_are_ordered_by_their_confidence() -> None:
    assert tenths(direction(CHRF)) == [2.5 + 10 * number for number in range(10)]
    assert tenths(direction(CHRF[::-1]))[0] == 92.5
    assert kept(direction(CHRF))[[0, 1, -1]].tolist() == [95.0, 92.5, 47.5]
    assert kept(direction(CHRF[::-1]))[0] == 0.0


def test_agreement_counts_sure_and_possible_links() -> None:
    sure = [{(0, 0)}, {(1, 1)}]
    possible = [{(0, 0), (0, 1)}, {(1, 1)}]
    assert Agreement.of(sure, sure, possible) == Agreement(1.0, 1.0, 0.0)
    agreement = Agreement.of([{(0, 0), (0, 1), (5, 5)}, set()], sure, possible)
    assert (agreement.precision, agreement.recall) == (2 / 3, 1 / 2)
    assert agreement.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))


def test_translations_are_measured_beside_their_references() -> None:
    translator = Translator(SHIPPED)
    try:
        src, tgt = Side("de", ("Guten Morgen.", "Ja.")), Side("en", ("Good morning.", "No."))
        measured = measure(translator, src, tgt, beam_width=1)
    finally:
        translator.close()
    assert measured.name == "de-en"
    assert measured.chrf[0] > measured.chrf[1]
    assert len(measured.confidence) == len(measured.score) == len(measured.tokens) == 2
    assert max(measured.confidence) < 0.0
