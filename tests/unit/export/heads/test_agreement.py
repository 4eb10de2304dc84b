from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dragoman_export.heads.agreement import Agreement, BothDirections, LikePairs, look_both_ways
from dragoman_export.heads.alignment_heads import choose_heads, nominate, total_of
from dragoman_export.heads.anchors import Anchors
from dragoman_serving.scoring.score_graphs import ScoreGraph
from dragoman_serving.scoring.token_pair import Floats, TokenPair

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import Tokenizer
from tests.toy import reverse_pairs

LAYERS, HEADS = 2, 4
FIRST_HALF, SECOND_HALF = (1, 0), (1, 2)
"""Heads that know the source of one half of the tokens."""
DIAGONAL, MIRRORED, FIRST = (0, 0), (0, 3), (1, 3)
"""Heads that attend to positions, whatever the tokens."""


def made_up(random: np.random.Generator, length: int, pairs: int, first: float = 0.5) -> LikePairs:
    """Pairs of these lengths on both sides, in another order, with known heads.

    `first` is the share of the tokens that the first of the two heads knows.
    """
    both = [
        random.random((pairs, LAYERS, HEADS, length + 1, length)).astype(np.float32)
        for _ in range(2)
    ]
    pieces = np.arange(length)
    for pair in range(pairs):
        to_src = random.permutation(length)
        half = random.permutation(length) < int(first * length)  # of the target's tokens
        for attention, to, known in zip(
            both, (to_src, to_src.argsort()), (half, half[to_src.argsort()]), strict=True
        ):
            said = attention[pair, :, :, :-1]
            said[*FIRST_HALF, pieces[known], to[known]] += 5
            said[*SECOND_HALF, pieces[~known], to[~known]] += 5
            said[*DIAGONAL, pieces, pieces] += 2
            said[*MIRRORED, pieces, pieces[::-1]] += 2
            said[*FIRST, pieces, 0] += 2
    return LikePairs(*both)


@pytest.fixture
def directions() -> BothDirections:
    random = np.random.default_rng(0)
    return BothDirections(tuple(made_up(random, length, 40) for length in (4, 6, 9)))


def of_heads(directions: BothDirections, *heads: tuple[int, int]) -> Agreement:
    return directions.agreement(total_of(directions, heads, when_read=False))


def test_aligning_heads_are_found(directions: BothDirections) -> None:
    chosen = choose_heads(directions, "made up")
    assert set(chosen.heads) == {FIRST_HALF, SECOND_HALF}
    assert not chosen.when_read
    assert (chosen.criterion, chosen.value) == ("agreement", 1.0)
    assert (chosen.count, chosen.text) == (120, "made up")


def test_positional_heads_agree_more_but_are_not_chosen(
    directions: BothDirections,
) -> None:
    for head in (DIAGONAL, MIRRORED):
        positional = of_heads(directions, head)
        assert positional.same == positional.by_position == 1.0
        assert positional.beyond == 0.0
    for head in (FIRST_HALF, SECOND_HALF):
        assert of_heads(directions, head).same < 0.8
        assert of_heads(directions, head).beyond > 0.3
    assert of_heads(directions, FIRST).beyond <= 0.0
    assert directions.agreement(directions.diagonal) == Agreement(1.0, 1.0)


def test_the_step_is_chosen_too(directions: BothDirections) -> None:
    def later(attention: Floats) -> Floats:
        return np.roll(attention, 1, axis=3)

    read = BothDirections(
        tuple(LikePairs(later(group.forward), later(group.backward)) for group in directions.groups)
    )
    chosen = choose_heads(read, "made up")
    assert chosen.when_read
    assert set(chosen.heads) == {FIRST_HALF, SECOND_HALF}


def anchors_by(knowing: tuple[int, int], number: int = 60) -> Anchors:
    """Anchors that one head links correctly and all others incorrectly."""
    places = np.arange(number) % 5
    right = np.eye(6, dtype=bool)[places]
    said = np.zeros((number, LAYERS, HEADS, 6), np.float32)
    said[..., 5] = 1
    said[:, *knowing] = 3 * right
    return Anchors(said, np.zeros_like(said), right, places)


def test_a_choice_that_links_most_anchors_wrongly_is_replaced(directions: BothDirections) -> None:
    by_agreement = choose_heads(directions, "made up")
    assert nominate(directions, None, "made up") == [by_agreement]
    supporting = nominate(directions, anchors_by(FIRST_HALF), "made up")
    assert [choice.criterion for choice in supporting] == ["agreement", "anchors"]
    assert supporting[0] == by_agreement
    against = nominate(directions, anchors_by(DIAGONAL), "made up")
    assert [choice.criterion for choice in against] == ["anchors", "agreement"]
    assert against[0].heads == (DIAGONAL,)


def test_a_choice_by_anchors_with_similar_agreement_is_used() -> None:
    random = np.random.default_rng(0)
    knowing = BothDirections(tuple(made_up(random, length, 40, first=1.0) for length in (4, 6, 9)))
    nominees = nominate(knowing, anchors_by(FIRST_HALF), "made up")
    assert [nominee.criterion for nominee in nominees] == ["anchors", "agreement"]
    assert nominees[0].heads == (FIRST_HALF,)


def test_agreement_is_f1_of_the_links_of_two_directions() -> None:
    """Two pairs of two and three tokens, compared link by link."""
    forward = np.zeros((2, 1, 1, 4, 2), np.float32)
    backward = np.zeros((2, 1, 1, 3, 3), np.float32)
    # Links, source to target, by the forward direction: 0-0 1-1 1-2 and 0-0 0-1 0-2.
    forward[0, 0, 0, [0, 1, 2], [0, 1, 1]] = forward[1, 0, 0, [0, 1, 2], 0] = 1
    # And by the other: 0-0 1-1 and 0-2 1-1.
    backward[0, 0, 0, [0, 1], [0, 1]] = backward[1, 0, 0, [0, 1], [2, 1]] = 1
    directions = BothDirections((LikePairs(forward, backward),))
    agreement = of_heads(directions, (0, 0))
    # Of ten links, the same pairs share 0-0, 1-1 and 0-2; crosswise they share 1-1 and 0-0.
    assert agreement == Agreement(2 * 3 / 10, 2 * 2 / 10)
    assert agreement.beyond == pytest.approx(1 / 3)
    assert directions.report(total_of(directions, [(0, 0)], when_read=False)) == (
        "agreement 0.333 beyond position (60.0% of links, 40.0% by position alone)"
    )


def test_the_diagonal_is_at_the_same_relative_position_on_both_sides() -> None:
    group = LikePairs(np.zeros((2, 1, 1, 7, 3), np.float32), np.zeros((2, 1, 1, 4, 6), np.float32))
    forward, backward = np.split(BothDirections((group,)).diagonal, 2)
    assert forward.reshape(2, 6, 3).argmax(2).tolist() == [[0, 0, 1, 1, 2, 2]] * 2
    assert backward.reshape(2, 3, 6).argmax(2).tolist() == [[1, 3, 5]] * 2


def test_a_text_is_read_in_both_directions(random_bundle: Path) -> None:
    pairs = reverse_pairs(80, seed=4)
    directions = look_both_ways(random_bundle, pairs, ("en", "de"))
    manifest = Manifest.load(random_bundle)
    tokenizer = Tokenizer(random_bundle / manifest.tokenizer)
    graph = ScoreGraph(random_bundle, manifest)
    assert directions.heads == [(layer, head) for layer in range(3) for head in range(4)]
    # Each pair alone, in the order of the text among those of the same lengths.
    by_lengths: dict[tuple[int, int], list[tuple[Floats, Floats]]] = {}
    for pair in dict.fromkeys(pairs):
        ids = [tokenizer.encode(text) for text in pair]
        both = []
        for side in (0, 1):
            src = tokenizer.encode_source(pair[side], manifest.languages[1 - side])
            _, (attention,) = graph.run_all([TokenPair(tuple(src), tuple(ids[1 - side]))])
            both.append(attention[..., 1:-1])
        by_lengths.setdefault((len(ids[0]), len(ids[1])), []).append((both[0], both[1]))
    expected = {lengths: some for lengths, some in by_lengths.items() if len(some) > 1}
    assert [group.lengths for group in directions.groups] == sorted(expected)
    assert directions.count == sum(map(len, expected.values()))
    for group in directions.groups:
        for at, by_graph in enumerate(expected[group.lengths]):
            assert np.abs(group.forward[at] - by_graph[0]).max() < 1e-4
            assert np.abs(group.backward[at] - by_graph[1]).max() < 1e-4


def test_each_pair_counts_once_and_empty_or_long_ones_do_not_count(random_bundle: Path) -> None:
    pairs = reverse_pairs(80, seed=4)
    expected = look_both_ways(random_bundle, pairs, ("en", "de")).count
    counts: list[int] = []
    more = [*pairs, *pairs, *[("", "red"), ("red", " ")] * 60, *[("red " * 300, "red")] * 2]
    assert look_both_ways(random_bundle, more, ("en", "de"), counts.append).count == expected
    assert counts == sorted(counts)
    assert counts[-1] == len(more)


def test_too_few_pairs_are_refused(random_bundle: Path) -> None:
    message = r"only 0 pairs of the text share their lengths with another, less than 50: give"
    with pytest.raises(UsageError, match=message):
        look_both_ways(random_bundle, [("red blue", "blue red")] * 200, ("en", "de"))
