from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dragoman_export.heads.alignment_heads import choose_heads, total_of
from dragoman_export.heads.anchors import Anchors, accuracy_of, anchors_of, find_anchors
from dragoman_serving.scoring.score_graphs import ScoreGraph
from dragoman_serving.scoring.token_pair import TokenPair

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import Tokenizer
from tests.toy import reverse_pairs


def spelt(source: str, target: str) -> list[tuple[str, str]]:
    return [(src[0], tgt[0]) for src, tgt in anchors_of(source, target)]


def test_anchors_occur_once_on_each_side_with_the_same_spelling() -> None:
    assert spelt("Tom's 3 dogs", "TOM hat 3 Hunde") == [("Tom", "TOM"), ("3", "3")]
    assert spelt("Tom and Tom", "Tom und Maria") == []
    assert spelt("Mary", "Maria, Mary und mary") == []
    assert spelt("- _ !", "- _ !") == []


def synthetic(number: int = 400) -> Anchors:
    """Heads of two layers: one in the second knows one half, another the other half."""
    random = np.random.default_rng(0)
    right = np.zeros((number, 6), bool)
    places = random.integers(0, 6, number)
    right[np.arange(number), places] = True
    said = random.random((number, 2, 3, 6)).astype(np.float32)
    half = np.arange(number) % 2 == 0
    said[half, 1, 2] += 9 * right[half]
    said[~half, 1, 0] += 9 * right[~half]
    said[:40, 0, 1] += 2 * right[:40]
    said[:, 0, 0] += 20 * np.roll(right, 1, axis=1)  # wrong, with high weight
    return Anchors(said, random.random(said.shape).astype(np.float32), right, np.zeros_like(places))


def test_heads_are_added_while_they_link_more_anchors_correctly() -> None:
    anchors = synthetic()
    chosen = choose_heads(anchors, "synthetic")
    assert set(chosen.heads) == {(1, 0), (1, 2)}
    assert not chosen.when_read
    assert (chosen.criterion, chosen.value) == ("anchors", 1.0)
    assert (chosen.count, chosen.text) == (400, "synthetic")
    assert anchors.value(total_of(anchors, anchors.heads, False)) < 0.5
    assert anchors.value(anchors.diagonal) == pytest.approx(anchors.right[:, 0].mean())
    assert anchors.report(total_of(anchors, chosen.heads, False)) == "100.0% of 400 anchors right"


def test_the_step_is_chosen_too() -> None:
    anchors = synthetic()
    turned = Anchors(anchors.read, anchors.said, anchors.right, anchors.places)
    assert choose_heads(turned, "turned").when_read


@pytest.mark.parametrize("side", [0, 1])
def test_anchors_are_looked_up_in_the_graph(random_bundle: Path, side: int) -> None:
    pairs = reverse_pairs(80, seed=4)
    direction = ("en", "de") if side == 0 else ("de", "en")
    anchors = find_anchors(random_bundle, [pair[:: 1 - 2 * side] for pair in pairs], [direction])
    assert anchors.said.shape == anchors.read.shape
    assert anchors.said.shape[:3] == (len(anchors.right), 3, 4)
    assert anchors.right.any(axis=1).all()
    # One pair alone, word by word.
    manifest = Manifest.load(random_bundle)
    tokenizer = Tokenizer(random_bundle / manifest.tokenizer)
    pair = next(pair for pair in pairs if len(set(pair[0].split())) == len(pair[0].split()) == 3)
    src = tokenizer.encode_source(pair[side], manifest.languages[1 - side])
    tgt = tokenizer.encode(pair[1 - side])
    _, (attention,) = ScoreGraph(random_bundle, manifest).run_all(
        [TokenPair(tuple(src), tuple(tgt))]
    )
    for piece in range(len(tgt)):
        expected = attention[:, :, piece, 1:-1]
        width = expected.shape[-1]
        near = np.abs(anchors.said[..., :width] - expected).max(axis=(1, 2, 3)) < 1e-4
        assert near.any(), piece
        assert not anchors.right[near][:, width:].any()


def test_too_few_anchors_are_refused(random_bundle: Path) -> None:
    with pytest.raises(UsageError, match=r"the text has \d+ anchors.*less than 50"):
        find_anchors(random_bundle, reverse_pairs(2, seed=4), [("en", "de"), ("de", "en")])


def test_accuracy_is_that_of_the_largest_weight() -> None:
    weights = np.array([[0.1, 0.9], [0.8, 0.2]], np.float32)
    assert accuracy_of(weights, np.array([[False, True], [False, True]])) == 0.5
