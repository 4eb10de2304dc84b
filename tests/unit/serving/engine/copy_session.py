"""A small fake model that drives the real engine."""

from __future__ import annotations

import threading

import numpy as np
from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.cache import Cache, CacheShape
from dragoman_serving.engine.compiled.compiled_ranking import log_softmax

END, VOCAB = 3, 120


class CopySession:
    """Copies the source: generates its token at each position, then the end.

    It reads the source from the cross cache and its own tokens from the self cache, so that rows at
    the wrong place show in the result.
    """

    cache_shape = CacheShape(parts=1, heads=1, head_size=1, src_tokens=256, tgt_tokens=320)

    pads_sources = True
    vocab_size = VOCAB

    def __init__(self) -> None:
        self.encoded: list[int] = []
        self.rows: list[int] = []
        self.failure: BaseException | None = None
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, src_ids: Ids, _src_lengths: Ids) -> list[Floats]:
        self.gate.wait(10)
        self.encoded.append(len(src_ids))
        if self.failure is not None:
            raise self.failure
        return [src_ids[:, None, :, None].astype(np.float32)]

    def step(self, cache: Cache, input_ids: Ids, positions: Ids) -> Floats:
        self.gate.wait(10)
        if self.failure is not None:
            raise self.failure
        self.rows.append(cache.rows)
        logits = np.full((cache.rows, VOCAB), -60.0, np.float32)
        logits[:, 100:115] = -5.0 - np.arange(15, dtype=np.float32)
        for row, position in enumerate(positions):
            cache.past[0][row, 0, position, 0] = input_ids[row]
            said = cache.past[0][row, 0, 1 : position + 1, 0]
            slot = row // cache.width
            source = cache.cross[0][slot, 0, : cache.src_lengths[slot], 0]
            best = int(source[position]) if position < len(source) else END
            # A row that has not copied its source so far gets no probability.
            logits[row] -= 0.0 if np.array_equal(said, source[: len(said)]) else 20.0
            logits[row, best] += 59.9
        return logits

    def argmax(self, logits: Floats) -> Ids:
        ids: Ids = logits.argmax(axis=1)
        return ids

    def log_probs(self, logits: Floats, rows: Ids) -> Floats:
        return log_softmax(logits[rows])

    def best(self, logits: Floats, _number: int) -> tuple[Floats, Ids]:
        ids = np.argsort(-logits, axis=1, kind="stable")[:, :16]
        return np.take_along_axis(logits, ids, axis=1), ids
