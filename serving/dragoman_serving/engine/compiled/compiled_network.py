"""The model in compiled code: int8, one core per call."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.manifest import Manifest, SpecialIds
from dragoman_serving.engine.cache import Cache, CacheShape
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.compiled_decoding import NativeDecoding
from dragoman_serving.engine.compiled.scratch import Scratch, scores_size
from dragoman_serving.engine.compiled.shortlists import Shortlists
from dragoman_serving.engine.compiled.weights import coded_bytes, load_weights

_CAPACITIES = (64, 128, 256, 512)
"""Attention reads only existing tokens, so unused capacity costs only memory."""


class NativeMemory:
    """Memory of a model in compiled code, computed from its manifest.

    Attributes:
        cache_shape: shape of the keys and values.
        encoded_tokens: maximum tokens that a thread encodes at once.
    """

    def __init__(self, manifest: Manifest) -> None:
        """Read the sizes of a model that the compiled code supports."""
        limits, sizes = manifest.limits, manifest.dimensions
        self._manifest = manifest
        self._aligns = manifest.alignment is not None
        src_tokens, tgt_tokens = map(
            whole_blocks, (limits.max_source_tokens, limits.max_target_tokens)
        )
        # No cache has more capacity than this, so the table of positions is never exceeded.
        self.longest = max(src_tokens, tgt_tokens)
        self.encoded_tokens = max(src_tokens, library.ENCODED_TOGETHER)
        self.cache_shape = CacheShape(
            parts=2 * sizes.decoder_layers,
            heads=sizes.heads,
            head_size=sizes.head_size + library.TOKEN_BYTES,
            src_tokens=src_tokens,
            tgt_tokens=tgt_tokens,
            dtype=np.uint8,
            capacities=_CAPACITIES,
            state_size=sizes.state_size,
        )

    def most_bytes(self, width: int, slots: int) -> int:
        """See `Measured`."""
        shape = self.cache_shape
        weights = slots * width * shape.src_tokens * shape.tgt_tokens if self._aligns else 0
        return shape.most_bytes(width, slots) + np.dtype(np.float32).itemsize * weights

    def weights_bytes(self) -> int:
        """Bytes of the quantized weights."""
        return coded_bytes(self._manifest.dimensions, self.longest, self._manifest.activation)[0]

    def scratch_bytes(self, tokens: int, rows: int) -> int:
        """Returns the bytes of one thread's scratch memory.

        Args:
            tokens: maximum tokens that it encodes or scores at once.
            rows: maximum rows of its steps.
        """
        sizes = self._manifest.dimensions
        _, of_rows = coded_bytes(
            dimensions=sizes,
            longest=self.longest,
            activation=self._manifest.activation,
            rows=max(tokens, rows),
        )
        return of_rows + rows * scores_size(sizes.vocab_size) * np.dtype(np.float32).itemsize


class NativeNetwork:
    """See `Network`; the model with 8-bit products."""

    most_rows = None
    pads_sources = False
    gains_alone = False

    def __init__(self, bundle: Path, manifest: Manifest, threads: int = 1) -> None:
        """Load the weights.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            threads: threads of a step while nothing else is in flight.

        Raises:
            UsageError: the weights or the shortlists cannot be read, or the compiled code cannot
                be used.
        """
        library.load()
        self._helpers = library.helpers(threads - 1).ctypes.data if threads > 1 else 0
        memory = NativeMemory(manifest)
        self.cache_shape, self.most_bytes = memory.cache_shape, memory.most_bytes
        self._weights = load_weights(
            bundle / manifest.weights,
            manifest.dimensions,
            memory.longest,
            manifest.activation,
            sha256=manifest.files[manifest.weights],
        )
        self._shortlists = None
        if manifest.shortlist is not None:
            self._shortlists = Shortlists(bundle / manifest.shortlist, manifest)
        self._of_thread = threading.local()
        sizes = self._weights.sizes
        self.most_steps = manifest.limits.max_target_tokens
        self.aligns = manifest.alignment is not None
        self.aligning = np.zeros((sizes.decoder_layers, sizes.heads), np.uint8)
        for layer, head in manifest.alignment.heads if manifest.alignment else ():
            self.aligning[layer, head] = 1

    @property
    def scratch(self) -> Scratch:
        """Scratch memory of this thread, which its decodings use one after the other."""
        scratch: Scratch | None = getattr(self._of_thread, "scratch", None)
        if scratch is None:
            scratch = self._of_thread.scratch = Scratch(self._weights)
        return scratch

    def begin(
        self, width: int, special_ids: SpecialIds, slots: int, searches: int = 1
    ) -> NativeDecoding:
        """See `Network`."""
        cache = Cache(self.cache_shape, width * searches, slots)
        return NativeDecoding(
            weights=self._weights,
            cache=cache,
            scratch=self.scratch,
            special_ids=special_ids,
            searches=searches,
            helpers=self._helpers,
            aligning=self.aligning if self.aligns else None,
            shortlists=self._shortlists,
        )

    @property
    def address(self) -> int:
        """Address of the model's structure."""
        return self._weights.address

    def new_cross(self, sources: int, room: int) -> list[npt.NDArray[np.uint8]]:
        """Returns memory for the keys and values of sources, by layer and kind."""
        return [self._new_heads(sources, room) for _ in range(self.cache_shape.parts)]

    def new_past(self, rows: int, room: int) -> dict[str, npt.NDArray[Any]]:
        """Returns memory for what rows keep of their tokens in a layer, by its name in `Pairs`."""
        if (state_size := self.cache_shape.state_size) is not None:
            return {"cells": np.empty((rows, state_size), np.float32)}
        return {name: self._new_heads(rows, room) for name in ("keys", "values")}

    def _new_heads(self, rows: int, room: int) -> npt.NDArray[np.uint8]:
        shape = self.cache_shape
        return np.empty((rows, shape.heads, room, shape.head_size), np.uint8)


def whole_blocks(tokens: int) -> int:
    """Returns a number of tokens, rounded up to whole blocks of keys and values."""
    return -(-tokens // library.BLOCK) * library.BLOCK
