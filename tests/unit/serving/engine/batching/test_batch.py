from __future__ import annotations

from dragoman_serving.engine.batching.batch import length_groups
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(1, 200), min_size=1, max_size=60))
def test_length_groups_have_all_sentences_and_little_padding(lengths: list[int]) -> None:
    lengths.sort()
    groups = [lengths[group] for group in length_groups(lengths, 512, 1.15)]
    assert [length for group in groups for length in group] == lengths
    assert all(len(group) * max(group) <= 1.15 * sum(group) for group in groups)
    assert all(len(group) == 1 or len(group) * max(group) <= 512 for group in groups)
    unpadded = [lengths[group] for group in length_groups(lengths, 512, None)]
    assert [length for group in unpadded for length in group] == lengths
    assert all(len(group) == 1 or sum(group) <= 512 for group in unpadded)
