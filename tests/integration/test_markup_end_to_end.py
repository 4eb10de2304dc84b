"""Sentences with tags as documents through the real server, as the benchmark measures them."""

from __future__ import annotations

import pytest

from lab.markup.end_to_end import root_of, translate_lines
from lab.markup.tag_quality import tag_quality
from lab.markup.tagged_pairs import read_tagged_pairs
from tests.conftest import CORPORA
from tests.servers import Served


@pytest.mark.thorough
@pytest.mark.skipif(not CORPORA.is_dir(), reason="needs the corpora")
@pytest.mark.parametrize("name", ["amazon en-de/test-eurlex", "php en-de/test"])
def test_tags_are_a_tree_and_are_at_valid_positions(shipped: Served, name: str) -> None:
    pairs = read_tagged_pairs(CORPORA / f"markup-{name.replace(' ', '-')}", "de")
    lines = [pair.line for pair in pairs]
    translated, uncertain = translate_lines(shipped.grpc, "de", lines, root_of(name))
    quality = tag_quality(pairs, translated)
    assert (quality.once, quality.in_parent) == (1, 1)
    assert uncertain < 0.02
    assert quality.bleu_of_pieces > 0.96 * quality.bleu_of_best_pieces
