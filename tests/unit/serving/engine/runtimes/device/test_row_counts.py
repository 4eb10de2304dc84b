"""How many sentences a step gets if row counts should recur."""

from __future__ import annotations

from dragoman_serving.engine.runtimes.device.row_counts import padded_count


def test_all_sentences_fit_with_little_unused_space() -> None:
    counts = [padded_count(sentences, None) for sentences in range(1, 1025)]
    assert counts[:12] == [1, 2, 4, 4, 6, 6, 8, 8, 12, 12, 12, 12]
    for sentences, count in enumerate(counts, 1):
        assert sentences <= count <= max(4, 1.5 * sentences)
    assert len(set(counts)) == 19


def test_the_limit_of_rows_is_kept() -> None:
    assert [padded_count(sentences, 5) for sentences in range(1, 6)] == [1, 2, 4, 4, 5]
