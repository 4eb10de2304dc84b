"""The agreement of word alignments."""

from __future__ import annotations

import pytest

from lab.quality.alignment import Agreement


def test_agreement_counts_sure_and_possible_links() -> None:
    sure = [{(0, 0)}, {(1, 1)}]
    possible = [{(0, 0), (0, 1)}, {(1, 1)}]
    assert Agreement.of(sure, sure, possible) == Agreement(1.0, 1.0, 0.0)
    agreement = Agreement.of([{(0, 0), (0, 1), (5, 5)}, set()], sure, possible)
    assert (agreement.precision, agreement.recall) == (2 / 3, 1 / 2)
    assert agreement.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))
