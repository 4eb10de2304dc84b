from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from dragoman_serving.engine.arrays import Copy, Floats
from dragoman_serving.engine.cache import CAPACITIES, Cache, CacheShape

SHAPE = CacheShape(parts=2, heads=2, head_size=3, src_tokens=40, tgt_tokens=400)


RECURRENT = replace(SHAPE, state_size=5)


def encoded(value: float, src_tokens: int) -> list[Floats]:
    return [np.full((1, 2, src_tokens, 3), value, np.float32) for _ in range(2)]


@pytest.mark.parametrize("width", [1, 3])
def test_slots_keep_their_contents_when_others_join_leave_and_grow(width: int) -> None:
    generator = random.Random(width)
    cache = Cache(SHAPE, width, 8)
    held: list[tuple[float, int, int]] = []  # value, source tokens, tokens
    for value in range(1, 200):
        if held and generator.random() < 0.45:
            slot = generator.randrange(len(held))
            cache.leave(slot, held[-1][2])
            held[slot] = held[-1]
            held.pop()
        else:
            src_tokens, tokens = generator.randint(1, 30), generator.randint(1, 60)
            cache.join(encoded(value, src_tokens), np.array([src_tokens]))
            held.append((value, src_tokens, tokens))
            cache.fit(max(tokens for *_, tokens in held))
            for part in cache.past:
                part[-width:, :, :tokens] = value
        if held:
            cache.fit(max(tokens for *_, tokens in held))
        assert cache.rows == width * len(held)
        assert cache.src_lengths.tolist() == [src_tokens for _, src_tokens, _ in held]
        for cross, past in zip(cache.cross, cache.past, strict=True):
            assert cross.flags.c_contiguous
            assert past.flags.c_contiguous
            for slot, (content, src_tokens, tokens) in enumerate(held):
                assert (cross[slot, :, :src_tokens] == content).all()
                assert (past[slot * width : (slot + 1) * width, :, :tokens] == content).all()
            assert np.isfinite(cross).all()
            assert np.isfinite(past).all()


def test_recurrent_states_follow_their_slots_whatever_their_tokens() -> None:
    cache = Cache(RECURRENT, 2, 8)
    for value in (1, 2, 3):
        cache.join(encoded(value, 4), np.array([4]))
        assert cache.past.shape == (1, 2 * value, 5)
        cache.past[:, -2:] = value
    layouts = {cache.layout}
    assert [cache.fit(tokens) for tokens in (1, 17, 400)] == [False] * 3
    assert {cache.layout} == layouts  # more tokens take no more memory
    cache.copy_rows([Copy(source=0, target=3, tokens=9)])
    assert cache.past[0, :, 0].tolist() == [1, 1, 2, 1, 3, 3]
    cache.leave(0, tokens=9)
    assert cache.past[0, :, 0].tolist() == [3, 3, 2, 1]
    assert cache.past[0].flags.c_contiguous
    assert cache.capacity == 400
    assert cache.fit(401)


def test_capacity_grows_and_shrinks_as_needed() -> None:
    cache = Cache(SHAPE, 1, 8)
    cache.join(encoded(1, 4), np.array([4]))
    capacities = []
    for tokens in (1, 16, 17, 100, 320, 60, 1):
        cache.fit(tokens)
        capacities.append(cache.capacity)
    assert capacities == [16, 16, 32, 128, 320, 64, 16]
    assert set(capacities) <= set(CAPACITIES)


def test_layouts_recur_and_new_memory_drops_the_bindings() -> None:
    cache = Cache(SHAPE, 1, 8)
    seen = []
    for src_tokens, tokens in ((4, 1), (17, 1), (4, 17), (4, 1)):
        cache.join(encoded(1, src_tokens), np.array([src_tokens]))
        cache.fit(tokens)
        seen.append((cache.layout, [part.ctypes.data for part in (*cache.cross, *cache.past)]))
        cache.bindings[cache.layout] = object()
        cache.leave(0, tokens)
    assert len({layout for layout, _ in seen}) == len(seen)
    cache.join(encoded(1, 4), np.array([4]))
    assert cache.layout == seen[-1][0]
    assert [part.ctypes.data for part in (*cache.cross, *cache.past)] == seen[-1][1]
    assert seen[-1][0] in cache.bindings
    assert seen[0][0] not in cache.bindings


@pytest.mark.parametrize("state_size", [None, 640])
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("seed", range(5))
def test_memory_stays_within_its_limit_while_it_grows(
    width: int, seed: int, state_size: int | None
) -> None:
    shape = CacheShape(4, 2, 16, src_tokens=100, tgt_tokens=150, state_size=state_size)
    slots, generator = 24 // width, random.Random(seed)
    lengths = np.array([generator.randint(1, 100) for _ in range(slots - 1)] + [100])
    bound = shape.most_bytes(width, slots)
    tracemalloc.start()
    cache = Cache(shape, width, slots)
    while cache.slots < slots:
        cache.fit(generator.randint(1, 150))
        joining = generator.randint(1, slots - cache.slots)
        cache.open(lengths[cache.slots : cache.slots + joining])
        assert cache.nbytes <= bound
    cache.fit(150)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert bound / 2 <= cache.nbytes <= bound
    assert peak <= bound + 50_000  # memory besides keys and values
