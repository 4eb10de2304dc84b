from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.compiled.library import obstacle
from dragoman_serving.engine.runtimes.search_choice import begin_searches
from dragoman_serving.engine.search.plain_search import (
    BeamSearches,
    GreedySearches,
    Searches,
    place,
)
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.session import Session
from hypothesis import given, settings
from hypothesis import strategies as st

END = 3
VOCAB = 12

needs_library = pytest.mark.skipif(obstacle() is not None, reason="not compiled here")


@settings(deadline=None)
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


@pytest.mark.parametrize("width", [1, 4, 512, 513, 2000])
def test_beams_of_every_width_have_a_search(width: int) -> None:
    """The compiled code ranks so many candidates at once and no more."""
    searches = begin_searches(width, END)
    sentence = Sentence((1,), 3, SearchOptions(width, 0.6))
    searches.join([sentence])
    scores = np.tile(np.arange(2 * width, dtype=np.float32)[::-1], (width, 1))
    ids = np.tile(np.arange(10, 10 + 2 * width), (width, 1))
    session = SimpleNamespace(
        best=lambda logits, number: (scores.copy(), ids.copy()),
        likeliest=lambda logits: ids[:, 0].copy(),
    )
    advance = searches.advance(cast(Session, session), np.zeros((width, 1), np.float32))
    assert advance.done == []
    assert sorted(advance.tokens.tolist()) == list(range(10, 10 + width))


@dataclass
class Scored:
    """A session whose scores depend on what a row has said, and on nothing else."""

    seed: int
    said: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By row."""

    def likeliest(self, logits: Floats) -> Ids:
        return self.best(logits, 1)[1][:, 0]

    def log_probs(self, logits: Floats, rows: Ids) -> Floats:
        raise NotImplementedError

    def best(self, logits: Floats, number: int) -> tuple[Floats, Ids]:
        scores, ids = [], []
        for row in range(len(logits)):
            key = [self.seed, *self.said[row]]
            # Few different scores, so that many are equal.
            of_row = np.random.default_rng(key).integers(-9, 0, VOCAB).astype(np.float32)
            order = np.argsort(-of_row, kind="stable")[:number]
            scores.append(of_row[order])
            ids.append(order)
        return np.array(scores), np.array(ids)


@st.composite
def plans(draw: st.DrawFn) -> tuple[int, list[tuple[int, Sentence]]]:
    """A width, and sentences that join after so many steps."""
    width = draw(st.integers(1, 5))
    sentences = [
        Sentence((1,), draw(st.integers(1, 90)), SearchOptions(width, draw(st.floats(0.0, 2.0))))
        for _ in range(draw(st.integers(1, 9)))
    ]
    return width, [(draw(st.integers(0, 6)), sentence) for sentence in sentences]


def run(searches: Searches, width: int, plan: list[tuple[int, Sentence]], seed: int) -> list[str]:
    """All that can be seen of searches in the course of a plan."""
    session = Scored(seed)
    seen: list[str] = []
    slots: list[int] = []
    waiting = sorted(enumerate(plan), key=lambda entry: entry[1][0])
    for step in range(200):
        joining = [entry for entry in waiting if entry[1][0] <= step]
        waiting = [entry for entry in waiting if entry[1][0] > step]
        if joining:
            searches.join([sentence for _, (_, sentence) in joining])
            for index, _ in joining:
                for row in range(len(slots) * width, (len(slots) + 1) * width):
                    session.said[row] = (index,)  # another key for each sentence
                slots.append(index)
        if not slots and not waiting:
            return seen
        if not slots:
            continue
        logits = np.zeros((len(slots) * width, VOCAB), np.float32)
        advance = searches.advance(cast(Session, session), logits)
        before = dict(session.said)
        for copy in advance.copies:
            assert copy.tokens == len(before[copy.source])
            session.said[copy.target] = before[copy.source]
        for slot, index in enumerate(slots):
            if slot in advance.done:
                found = (searches.result(slot), *searches.next_best(slot, 2 * width))
                assert len(found) >= width
                seen.append(f"{step} {index} {found} {searches.next_best(slot, 1)}")
                continue
            seen.append(f"{step} {index} {searches.certain(slot)}")
            for row in range(slot * width, (slot + 1) * width):
                session.said[row] = (*session.said[row], int(advance.tokens[row]))
        for slot in reversed(advance.done):
            searches.leave(slot)
            last = len(slots) - 1
            slots[slot] = slots[last]
            slots.pop()
            for row in range(width):
                session.said[slot * width + row] = session.said[last * width + row]
    raise AssertionError("a search does not end")


@needs_library
@settings(deadline=None)
@given(plans(), st.integers(0, 1000))
def test_compiled_searches_do_as_those_in_python(
    case: tuple[int, list[tuple[int, Sentence]]], seed: int
) -> None:
    width, plan = case
    in_python = GreedySearches(END) if width == 1 else BeamSearches(END)
    expected = run(in_python, width, plan, seed)
    assert run(NativeSearches(width, END), width, plan, seed) == expected
