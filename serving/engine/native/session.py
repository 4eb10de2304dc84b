"""The session on the compiled code: int8, one core a call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.errors import UsageError
from dragoman.manifest import Dimensions, Manifest
from serving.engine.cache import MOST_BINDINGS, Cache, CacheShape, Floats, Ids, KeysValues
from serving.engine.native import library
from serving.engine.native.library import PANEL, Rows, Sources
from serving.engine.native.weights import load_weights, sizes_obstacle

_CAPACITIES = (64, 128, 256, 512)
"""Attention reads no more than there is, so that room costs nothing but memory."""


class NativeSession:
    """Runs the model in 8-bit products; several threads may, each with caches of its own."""

    pads_sources = False

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Load the weights.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.

        Raises:
            UsageError: the weights cannot be read, or the compiled code cannot be used.
        """
        self._library = library.load()
        limits = manifest.limits
        if limits.top_k > library.MOST_BEST:
            raise UsageError(
                f"limits.top_k is {limits.top_k}, more than {library.MOST_BEST}: "
                "serve with runtime onnxruntime"
            )
        # Nothing is read past the end of the table, since no cache has more room than that.
        needed = max(limits.max_source_tokens, limits.max_target_tokens)
        longest = -(-needed // _CAPACITIES[-1]) * _CAPACITIES[-1]
        weights = load_weights(bundle / manifest.weights, manifest.dimensions, longest)
        self._weights = weights  # the structures point into it
        self._model = ctypes.byref(weights.model)
        self._vocab_size = manifest.dimensions.vocab_size
        self._panels = weights.model.logits.outputs // PANEL
        self._of_thread = threading.local()
        model = weights.model
        self.cache_shape = CacheShape(
            *(2 * model.decoder_layers, model.heads, model.head_size), np.float16, _CAPACITIES
        )

    @property
    def ticks(self) -> Ids:
        """Ticks that steps of this thread have spent on each of `SECTIONS` so far."""
        ticks: Ids | None = getattr(self._of_thread, "ticks", None)
        if ticks is None:
            ticks = self._of_thread.ticks = np.zeros(len(library.SECTIONS), np.int64)
        return ticks

    def clock(self) -> int:
        """Ticks of the processor's clock."""
        return int(self._library.clock())

    def encode(self, src_ids: Ids, src_lengths: Ids) -> list[KeysValues]:
        """See `Session.encode`."""
        batch, room = src_ids.shape
        if (
            room > self._weights.model.longest
            or not 0 <= src_ids.min() <= src_ids.max() < self._vocab_size
        ):
            raise ValueError("source ids that the model does not have, or too many")
        ids = np.concatenate([row[:n] for row, n in zip(src_ids, src_lengths, strict=True)])
        lengths = np.ascontiguousarray(src_lengths, np.int64)
        shape = self.cache_shape
        # What lies behind a source is never read.
        cross: list[KeysValues] = [
            np.empty((batch, shape.heads, room, shape.head_size), np.float16)
            for _ in range(shape.parts)
        ]
        pointers = _pointers(cross)
        sources = Sources(
            batch, len(ids), _address(ids), _address(lengths), room, _address(pointers)
        )
        self._library.encode(self._model, ctypes.byref(sources), _address(self._scratch(len(ids))))
        return cross

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> Floats:
        """See `Session.step`."""
        bound = cache.bindings.get(cache.layout)
        if not isinstance(bound, _Bound):
            if cache.capacity > self._weights.model.longest:
                raise ValueError(f"{cache.capacity} tokens, more than the model can have")
            if len(cache.bindings) >= MOST_BINDINGS:
                cache.bindings.clear()
            bound = cache.bindings[cache.layout] = _Bound(cache, self.ticks)
        bound.ids[:] = input_ids
        bound.positions[:] = positions
        scratch, scores = self._scratch(cache.rows), self._scores(cache.rows)
        self._library.step(self._model, bound.structure, _address(scratch), _address(scores))
        return scores[:, : self._vocab_size]

    def likeliest(self, logits: Floats) -> Ids:
        """See `Session.likeliest`."""
        ids = np.empty(len(logits), np.int64)
        self._library.likeliest(_address(logits), len(logits), self._panels, _address(ids))
        return ids

    def best(self, logits: Floats, number: int) -> tuple[Floats, Ids]:
        """See `Session.best`."""
        log_probs = np.empty((len(logits), number), np.float32)
        ids = np.empty((len(logits), number), np.int64)
        self._library.best(
            _address(logits), len(logits), self._panels, number, _address(log_probs), _address(ids)
        )
        return log_probs, ids

    def _scratch(self, rows: int) -> npt.NDArray[np.uint8]:
        """Memory to compute in, one for each thread."""
        if getattr(self._of_thread, "scratch_rows", 0) < rows:
            needed = self._library.scratch_bytes(self._model, rows)
            self._of_thread.scratch = np.empty(needed, np.uint8)
            self._of_thread.scratch_rows = rows
        scratch: npt.NDArray[np.uint8] = self._of_thread.scratch
        return scratch

    def _scores(self, rows: int) -> Floats:
        """Memory for a step's scores, one for each thread: they are read before the next step.

        Behind each row's scores lie the largest of each panel, by which the best are found.
        """
        memory: Floats | None = getattr(self._of_thread, "scores", None)
        if memory is None or len(memory) < rows:
            row = self._panels * (PANEL + 1)
            memory = self._of_thread.scores = np.empty((rows, row), np.float32)
        return memory[:rows]


class _Bound:
    """One layout of a cache's memory, as the compiled code takes it."""

    def __init__(self, cache: Cache, ticks: Ids) -> None:
        self.ids, self.positions = np.zeros(cache.rows, np.int64), np.zeros(cache.rows, np.int64)
        src_lengths, cross, past = cache.src_lengths, _pointers(cache.cross), _pointers(cache.past)
        self._kept = src_lengths, cross, past, ticks
        self.structure = Rows(
            rows=cache.rows,
            sentences=cache.slots,
            ids=_address(self.ids),
            positions=_address(self.positions),
            src_lengths=_address(src_lengths),
            src_room=cache.cross[0].shape[2],
            room=cache.capacity,
            cross=_address(cross),
            past=_address(past),
            ticks=_address(ticks),
        )


def native_obstacle(sizes: Dimensions) -> str | None:
    """Why the compiled code cannot run a network of these sizes here, if so."""
    return library.obstacle() or sizes_obstacle(sizes)


def _pointers(arrays: Iterable[npt.NDArray[Any]]) -> npt.NDArray[np.uintp]:
    return np.array([array.ctypes.data for array in arrays], np.uintp)


def _address(array: npt.NDArray[Any]) -> int:
    return array.ctypes.data
