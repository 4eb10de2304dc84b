"""Decoding with caches that stay on a device; without one, in the machine's own memory."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from dragoman_serving.engine.arrays import Ids
from dragoman_serving.engine.runtimes.device.capacities import capacities
from dragoman_serving.engine.runtimes.device.device_cache import DeviceCache
from dragoman_serving.engine.runtimes.device.device_memory import (
    Block,
    DeviceTensor,
    HostMemory,
    Lines,
)

HEADS, HEAD_SIZE, PARTS = 2, 3, 2
MOST_SLOTS = 8


class Host(HostMemory):
    """Memory whose contents are arrays; `reorder` does what a graph would do."""

    def __init__(self) -> None:
        self.reordered = 0

    def array(self, tensor: DeviceTensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        array = np.empty(tensor.shape, np.float32)
        self.download(tensor.address, array)
        return array

    def reorder(
        self, source: Sequence[DeviceTensor], rows: Ids, target: Sequence[DeviceTensor]
    ) -> None:
        self.reordered += 1
        for before, after in zip(source, target, strict=True):
            assert after.shape == (len(rows), *before.shape[1:])
            self.upload(self.array(before)[rows], after.address)


@pytest.fixture
def host() -> Host:
    return Host()


def begin(host: Host, width: int) -> DeviceCache:
    lengths = (4, 8, 16)
    return DeviceCache(
        host, host.reorder, PARTS, (HEADS, HEAD_SIZE), "float32", lengths, MOST_SLOTS, width
    )


class Rows:
    """A cache and the expected content of each row; its first token is enough."""

    def __init__(self, host: Host, width: int) -> None:
        self.host, self.width = host, width
        self.cache = begin(host, width)
        self.held: list[list[int]] = []

    def write(self, slot: int, values: list[int]) -> None:
        """Set the content of a slot's rows; they must have been settled."""
        self.held[slot] = values
        for part, tensor in enumerate(self.cache.tensors()):
            content = self.host.array(tensor)
            begin = slot * self.width
            content[begin : begin + self.width, :, 0] = np.array(values)[:, None, None] + part
            self.host.upload(content, tensor.address)

    def check(self) -> None:
        expected = np.array(self.held, np.float32).reshape(-1, 1, 1)
        assert self.cache.rows == len(expected)
        for part, tensor in enumerate(self.cache.tensors()):
            assert (self.host.array(tensor)[:, :, 0] == expected + part).all()


@pytest.mark.parametrize("width", [1, 3])
def test_rows_keep_their_contents_when_they_move(host: Host, width: int) -> None:
    generator = random.Random(width)
    rows = Rows(host, width)
    cache, held = rows.cache, rows.held
    for number in range(400):
        action = generator.random()
        if not held or action < 0.25:
            cache.join(1, 1)
            held.append([])
            rows.write(len(held) - 1, [100 * number + row for row in range(width)])
        elif action < 0.45:
            slot = generator.randrange(len(held))
            cache.leave(slot)
            held[slot] = held[-1]
            held.pop()
        elif action < 0.65 and width > 1:
            slot = generator.randrange(len(held))
            source, target = generator.sample(range(width), 2)
            cache.copy_row(slot * width + source, slot * width + target)
            held[slot][target] = held[slot][source]
        elif action < 0.8:
            tokens = generator.randint(1, 16)
            cache.fit(tokens)
            assert cache.capacity >= tokens
        if action < 0.9:  # otherwise together with the next action
            cache.settle()
            rows.check()


class _Counted:
    """A block whose bytes are counted while it is referenced."""

    def __init__(self, memory: CountingMemory, block: Block) -> None:
        self._memory, self._block = memory, block
        self.address, self.nbytes = block.address, block.nbytes

    def __del__(self) -> None:
        self._memory.held_bytes -= self.nbytes


class CountingMemory(Host):
    """Knows the largest number of bytes held."""

    def __init__(self) -> None:
        super().__init__()
        self.held_bytes = self.most_bytes = 0

    def allocate(self, nbytes: int) -> Block:
        self.held_bytes += nbytes
        self.most_bytes = max(self.most_bytes, self.held_bytes)
        return _Counted(self, super().allocate(nbytes))


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_memory_stays_within_its_limit_while_it_grows(width: int, seed: int) -> None:
    generator, memory = random.Random(seed), CountingMemory()
    cache = begin(memory, width)
    slots = 0
    while slots < MOST_SLOTS:
        joining = generator.randint(1, MOST_SLOTS - slots)
        cache.join(joining, generator.randint(1, 16))
        cache.fit(generator.randint(1, 16))
        slots += joining
        cache.leave(generator.randrange(slots))  # so that rows move to the spare memory
        cache.settle()
        cache.join(1, 16)
        assert cache.nbytes == memory.held_bytes <= cache.most_bytes
    assert cache.most_bytes / 2 <= memory.most_bytes <= cache.most_bytes


def test_all_changes_between_two_steps_are_one_run(host: Host) -> None:
    cache = begin(host, 2)
    cache.join(5, 1)
    cache.copy_row(0, 1)
    cache.leave(2)
    cache.leave(0)
    assert host.reordered == 0
    cache.settle()
    cache.settle()
    assert host.reordered == 1


def test_rows_are_copied_between_different_pitches() -> None:
    memory = HostMemory()
    source, target = memory.allocate(12), memory.allocate(20)
    memory.upload(np.arange(12, dtype=np.uint8), source.address)
    memory.copy(Lines(source.address, 4), Lines(target.address + 1, 6), 3, 4)
    downloaded = np.empty(20, np.uint8)
    memory.download(target.address, downloaded)
    assert downloaded.tolist() == [0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 7, 0, 0, 8, 9, 10, 11, 0, 0, 0]


@pytest.mark.parametrize(
    ("most", "lengths"), [(20, (20,)), (64, (32, 64)), (320, (32, 64, 128, 256, 320))]
)
def test_capacities_reach_the_required_size(most: int, lengths: tuple[int, ...]) -> None:
    assert capacities(most) == lengths
