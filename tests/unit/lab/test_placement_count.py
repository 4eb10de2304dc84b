"""Tags counted as right or wrong by the benchmark of their placement."""

from __future__ import annotations

import numpy as np
import pytest
from dragoman_options.markup import Span
from dragoman_serving.markup.evidence import Evidence

from lab.markup.placement import Count, count
from lab.markup.tagged_pairs import tagged_pair

NOTHING = Evidence(np.zeros((0, 0), np.float32), [], [])


def counted(source: str, target: str, found: list[Span]) -> Count:
    pair = tagged_pair(source, target)
    assert pair is not None
    return count([(pair, NOTHING)], lambda pair, evidence: found)


@pytest.mark.parametrize("found", [[(3, 11), (12, 27)], [(12, 27), (3, 11)]])
def test_elements_numbered_by_language_are_matched(found: list[Span]) -> None:
    total = counted(
        'The <g id="1">macroeconomic</g> <g id="2">scenario</g> is favourable.',
        'Le <g id="1">scénario</g> <g id="2">macroéconomique</g> est optimiste.',
        found,
    )
    assert total == Count(tags=4, right_tags=4, pairs=2, right_pairs=2)


def test_elements_with_other_names_or_attributes_are_not_matched() -> None:
    swapped: list[Span] = [(4, 5), (0, 1)]
    for source in ("x <a>a</a> <b>b</b> x", 'x <a id="n">a</a> <a id="m">b</a> x'):
        total = counted(source, source, swapped)
        assert (total.tags, total.right_tags) == (4, 0)


def test_an_element_at_another_word_is_wrong() -> None:
    total = counted("a <g>red</g> car", "ein <g>rotes</g> Auto", [(4, 14)])
    assert total == Count(tags=2, right_tags=1, pairs=1, right_pairs=0)
