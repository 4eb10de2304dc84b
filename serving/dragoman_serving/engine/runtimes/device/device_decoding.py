"""Decoding with caches on a device: uploads ids, and downloads the scores of the top-k tokens."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from dragoman.kernel.manifest import Dimensions, Limits, SpecialIds
from dragoman.kernel.tensors import (
    REORDER_STATES,
    best_name,
    cross_names,
    past_names,
    present_names,
)
from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.compiled.compiled_ranking import log_softmax
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.network import SearchResults
from dragoman_serving.engine.runtimes.device.device_cache import DeviceCache
from dragoman_serving.engine.runtimes.device.device_memory import Block, DeviceTensor, Memory
from dragoman_serving.engine.runtimes.device.row_counts import padded_count
from dragoman_serving.engine.sentence import Sentence

_MOST_SOURCE_TOKENS = 16_384
"""Maximum padded source tokens of one encoder run, which bounds its working memory."""


class Runner(Protocol):
    """The bundle's graphs on a device, ready to run."""

    @property
    def cache_dtype(self) -> str:
        """Element type of the keys and values."""
        ...

    @property
    def most_rows(self) -> int | None:
        """Maximum rows of a run, if it was built for a fixed number; else None."""
        ...

    @property
    def source_capacities(self) -> Sequence[int]:
        """Possible capacities of a source in tokens, in ascending order."""
        ...

    @property
    def target_capacities(self) -> Sequence[int]:
        """Possible capacities of a target in tokens, in ascending order."""
        ...

    @property
    def pads_steps(self) -> bool:
        """Whether steps should be padded to recurring sizes, which are faster."""
        ...

    def run(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> None:
        """Run a graph on inputs and outputs, by name, in order with the memory's copies."""
        ...


class _Staging:
    """Growing device memory for small tensors, each with its own block."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._blocks: dict[str, Block] = {}

    def tensor(self, name: str, shape: tuple[int, ...], dtype: str) -> DeviceTensor:
        tensor = DeviceTensor(0, shape, dtype)
        block = self._blocks.get(name)
        if block is None or block.nbytes < tensor.nbytes:
            held = 0 if block is None else block.nbytes
            block = self._blocks[name] = self._memory.allocate(max(tensor.nbytes, 2 * held))
        return DeviceTensor(block.address, shape, dtype)

    def upload(self, name: str, array: Ids) -> DeviceTensor:
        tensor = self.tensor(name, array.shape, "int64")
        self._memory.upload(array, tensor.address)
        return tensor


class DeviceDecoding:
    """See `Decoding`."""

    def __init__(
        self,
        runner: Runner,
        memory: Memory,
        sizes: Dimensions,
        limits: Limits,
        special_ids: SpecialIds,
        width: int,
        most_slots: int,
        searches: int = 1,
    ) -> None:
        """Start without sentences.

        Args:
            runner: runs the graphs.
            memory: memory of the device.
            sizes: sizes of the network.
            limits: limits of the bundle.
            special_ids: special ids of the model's vocabulary.
            width: rows of each sentence.
            most_slots: maximum number of sentences.
            searches: number of searches of each sentence.
        """
        self._runner = runner
        self._memory = memory
        self._sizes = sizes
        self._limits = limits
        self._special_ids = special_ids
        self._width = width
        self._staging = _Staging(memory)
        layers, head = sizes.decoder_layers, (sizes.heads, sizes.head_size)
        self._cross_names = cross_names(layers)
        self._past_names = past_names(layers, sizes.is_recurrent)
        self._present_names = present_names(layers, sizes.is_recurrent)
        cache = partial(DeviceCache, memory, most_slots=most_slots, padded=self._padded)
        of_layers = partial(cache, self._reorder, 2 * layers, head, runner.cache_dtype)
        self._cross = of_layers(runner.source_capacities)
        if not sizes.is_recurrent:
            self._past = of_layers(runner.target_capacities, width=width)
        else:  # a recurrent state is like a single token
            shape = (1, sizes.model_size)
            self._past = cache(self._reorder_states, layers, shape, "float32", (1,), width=width)
        self._searches = NativeSearches(
            width // searches, special_ids.end, sizes.vocab_size, searches
        )
        self._tokens: list[int] = []
        self._positions: list[int] = []
        self._src_lengths: list[int] = []

    @property
    def rows(self) -> int:
        """See `Decoding`."""
        return self._past.rows

    @property
    def nbytes(self) -> int:
        """See `Decoding`."""
        return self._cross.nbytes + self._past.nbytes

    @property
    def most_bytes(self) -> int:
        """Maximum of `nbytes`."""
        return self._cross.most_bytes + self._past.most_bytes

    def join(self, sentences: Sequence[Sentence], _alone: bool) -> None:
        """See `Decoding`."""
        src_lengths = [len(sentence.src_ids) for sentence in sentences]
        first = self._cross.rows
        self._cross.join(len(sentences), max(*src_lengths, *self._src_lengths, 1))
        self._past.join(len(sentences), 1)
        at_once = max(1, _MOST_SOURCE_TOKENS // self._cross.capacity)
        for begin in range(0, len(sentences), at_once):
            self._encode(sentences[begin : begin + at_once], first + begin)
        self._searches.join(sentences)
        self._src_lengths += src_lengths
        rows = len(sentences) * self._width
        self._tokens += [self._special_ids.begin] * rows
        self._positions += [0] * rows

    def _padded(self, slots: int) -> int:
        """The padded number of sentences of a step."""
        if not self._runner.pads_steps or not slots:
            return slots
        most = self._runner.most_rows
        return padded_count(slots, None if most is None else most // self._width)

    def _encode(self, sentences: Sequence[Sentence], first: int) -> None:
        """Encode sentences for the slots from `first` on.

        They are padded to the capacity of the cache, so that the encoder writes directly into it.
        """
        src_lengths = np.array([len(sentence.src_ids) for sentence in sentences])
        src_ids = np.full((len(sentences), self._cross.capacity), self._special_ids.pad, np.int64)
        for row, sentence in zip(src_ids, sentences, strict=True):
            row[: len(sentence.src_ids)] = sentence.src_ids
        cross = self._cross.tensors(first, first + len(sentences))
        self._runner.run(
            "encoder",
            {
                "input_ids": self._staging.upload("src_ids", src_ids),
                "src_lengths": self._staging.upload("new_lengths", src_lengths),
                **dict(zip(self._cross_names, cross, strict=True)),
            },
        )

    def step(
        self, _alone: bool, _waiting: ctypes.c_int64 | None = None
    ) -> tuple[int, Sequence[int]]:
        """See `Decoding`; it is always one step."""
        self._cross.settle()
        self._past.settle()
        self._past.fit(max(self._positions) + 1)
        rows, slots = self._past.padded_rows, self._cross.padded_rows
        logits = self._staging.tensor("logits", (rows, self._sizes.vocab_size), "float32")
        past = self._past.tensors()
        if self._sizes.is_recurrent:
            past = _vectors(past)
        self._runner.run(
            "decoder",
            {
                "input_ids": self._upload("tokens", self._tokens, rows, self._special_ids.pad),
                "positions": self._upload("positions", self._positions, rows, 0),
                "src_lengths": self._upload("src_lengths", self._src_lengths, slots, 1),
                **dict(zip(self._cross_names, self._cross.tensors(), strict=True)),
                **dict(zip(self._past_names, past, strict=True)),
                **dict(zip(self._present_names, past, strict=True)),
                "logits": logits,
            },
        )
        advance = self._searches.advance(self, logits)
        self._tokens = advance.tokens.tolist()
        self._positions = [position + 1 for position in self._positions]
        for copy in advance.copies:
            self._past.copy_row(copy.source, copy.target)
        return 1, advance.done

    def _upload(self, name: str, values: Sequence[int], length: int, rest: int) -> DeviceTensor:
        padded = np.full(length, rest, np.int64)
        padded[: len(values)] = values
        return self._staging.upload(name, padded)

    def argmax(self, logits: DeviceTensor) -> Ids:
        """See `Session.argmax`."""
        return np.ascontiguousarray(self.best(logits, 1)[1][:, 0])

    def best(self, logits: DeviceTensor, number: int) -> tuple[Floats, Ids]:
        """See `Session.best`."""
        rows = logits.shape[0]
        k = next(size for size in self._limits.best_sizes if size >= number)
        scores = self._staging.tensor("top_scores", (rows, k), "float32")
        ids = self._staging.tensor("top_ids", (rows, k), "int64")
        self._runner.run(best_name(k), {"logits": logits, "top_scores": scores, "top_ids": ids})
        top_scores, top_ids = np.empty((rows, k), np.float32), np.empty((rows, k), np.int64)
        self._memory.download(scores.address, top_scores)
        self._memory.download(ids.address, top_ids)
        return top_scores[: self.rows], top_ids[: self.rows]

    def log_probs(self, logits: DeviceTensor, rows: Ids) -> Floats:
        """See `Session.log_probs`."""
        downloaded = np.empty((len(rows), logits.shape[1]), np.float32)
        row_bytes = downloaded[0].nbytes
        for of_row, row in zip(downloaded, rows.tolist(), strict=True):
            self._memory.download(logits.address + row * row_bytes, of_row)
        return log_softmax(downloaded)

    @property
    def found(self) -> SearchResults:
        """See `Decoding`."""
        return self._searches

    def leave(self, slots: Sequence[int]) -> None:
        """See `Decoding`."""
        width = self._width
        for slot in reversed(slots):
            self._searches.leave(slot)
            self._cross.leave(slot)
            self._past.leave(slot)
            begin, end = slot * width, len(self._tokens) - width
            for kept in (self._tokens, self._positions):
                kept[begin : begin + width] = kept[end:]
                del kept[end:]
            self._src_lengths[slot] = self._src_lengths[-1]
            self._src_lengths.pop()

    def _reorder(
        self, source: Sequence[DeviceTensor], rows: Ids, target: Sequence[DeviceTensor]
    ) -> None:
        layers = self._sizes.decoder_layers
        self._runner.run(
            "reorder",
            {
                "rows": self._staging.upload("rows", rows),
                **dict(zip(past_names(layers), source, strict=True)),
                **dict(zip(present_names(layers), target, strict=True)),
            },
        )

    def _reorder_states(
        self, source: Sequence[DeviceTensor], rows: Ids, target: Sequence[DeviceTensor]
    ) -> None:
        self._runner.run(
            REORDER_STATES,
            {
                "rows": self._staging.upload("rows", rows),
                **dict(zip(self._past_names, _vectors(source), strict=True)),
                **dict(zip(self._present_names, _vectors(target), strict=True)),
            },
        )


def _vectors(states: Sequence[DeviceTensor]) -> list[DeviceTensor]:
    """States [R, 1, 1, E] as [R, E]."""
    return [replace(state, shape=(state.shape[0], state.shape[-1])) for state in states]
