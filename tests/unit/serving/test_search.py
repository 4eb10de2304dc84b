from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from serving.engine.search import place


@given(
    st.integers(1, 8).flatmap(
        lambda w: st.tuples(st.just(w), st.lists(st.integers(0, w - 1), max_size=w))
    )
)
def test_placing_copies_only_into_rows_that_nobody_reads(case: tuple[int, list[int]]) -> None:
    width, parents = case
    rows = place(parents, width)
    assert len(set(rows)) == len(parents)
    copies = [(row, parent) for row, parent in zip(rows, parents, strict=True) if row != parent]
    assert all(row not in parents for row, _ in copies)
    assert len(copies) == len(parents) - len(set(parents))
