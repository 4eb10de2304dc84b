"""Reads a student's lexical shortlists, and writes them in the form that the engine reads.

Marian's output layer computes a part of the target vocabulary: the first tokens, and those that any
source token of the batch lists. With one vocabulary, it adds the source tokens themselves. Here
each sentence has its own shortlist, and the engine computes whole vectors of tokens, so that its
shortlists contain those of Marian for the same sentence alone, and more.

Source: https://github.com/browsermt/marian-dev/blob/master/src/data/shortlist.cpp
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import END_ID, UNKNOWN_ID
from dragoman_training.marian.pieces import Entry

_MAGIC = 0xF11A48D5013417F5
_HEADER_WORDS = 6
_WORD_BYTES, _ID_BYTES = 8, 4
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B9


@dataclass(frozen=True)
class LexicalLists:
    """Lists of a model, in Marian's ids.

    Attributes:
        path: of the file.
        first: ids below this are in every shortlist.
        begins: where each source token's list begins in `ids`, and the end [V + 1].
        ids: target ids of all lists.
    """

    path: Path
    first: int
    begins: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int64]

    @classmethod
    def read(cls, path: Path, src_vocab_size: int, tgt_vocab_size: int) -> LexicalLists:
        """Read a file.

        Raises:
            UsageError: it cannot be read, is damaged, or is for vocabularies of other sizes.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        if len(content) < _HEADER_WORDS * _WORD_BYTES:
            raise UsageError(f"{path}: is cut short: it has {len(content)} bytes")
        header = np.frombuffer(content, "<u8", _HEADER_WORDS).tolist()
        magic, checksum, first, _, count, size = header
        if magic != _MAGIC:
            raise UsageError(f"{path}: is not a file of Marian's shortlists")
        expected = _HEADER_WORDS * _WORD_BYTES + count * _WORD_BYTES + size * _ID_BYTES
        if len(content) != expected:
            raise UsageError(f"{path}: has {len(content)} bytes, its header says {expected}")
        words = np.frombuffer(content, "<u8", len(content) // _WORD_BYTES)[2:]
        if (actual := _checksum(words)) != checksum:
            raise UsageError(f"{path}: is damaged: its checksum is {actual:#x}, not {checksum:#x}")
        if count != src_vocab_size + 1:
            raise UsageError(
                f"{path}: has lists of {count - 1} tokens, the source vocabulary has "
                f"{src_vocab_size}"
            )
        begins = np.frombuffer(content, "<u8", count, _HEADER_WORDS * _WORD_BYTES)
        ids = np.frombuffer(content, "<u4", size, len(content) - size * _ID_BYTES).astype(np.int64)
        is_whole = begins[0] == 0 and begins[-1] == size and (begins[1:] >= begins[:-1]).all()
        if not is_whole or ids.max(initial=0) >= tgt_vocab_size:
            raise UsageError(f"{path}: has lists outside its ids, or ids outside the vocabulary")
        return cls(path, min(first, tgt_vocab_size), begins.astype(np.int64), ids)

    def arrays(
        self, src_entries: Sequence[Entry], tgt_entries: Sequence[Entry], one_vocabulary: bool
    ) -> dict[str, npt.NDArray[Any]]:
        """The tensors of `dragoman_export.shortlist`, for a model without tags.

        Args:
            src_entries: of the source vocabulary, in our order.
            tgt_entries: of the target vocabulary, in our order.
            one_vocabulary: whether a source token may also be copied.
        """
        ours = _our_ids(tgt_entries)
        src_rows = _our_ids(src_entries)
        of_list = np.repeat(src_rows, np.diff(self.begins))
        ids = ours[self.ids]
        parts = [(of_list, ids), (np.full(self.first, END_ID), ours[: self.first])]
        if one_vocabulary:
            parts.append((src_rows, src_rows))
        rows, ids = (np.concatenate(column) for column in zip(*parts, strict=True))
        is_said = ids != UNKNOWN_ID
        keys = np.unique(rows[is_said] * len(tgt_entries) + ids[is_said])
        rows, ids = np.divmod(keys, len(tgt_entries))
        return {
            "tags": np.zeros(0, np.int32),
            "begins": np.searchsorted(rows, np.arange(len(src_entries) + 1)).astype(np.int32),
            "ids": ids.astype(np.uint16 if len(tgt_entries) <= 1 << 16 else np.uint32),
        }


def _our_ids(entries: Sequence[Entry]) -> npt.NDArray[np.int64]:
    """Our id of each of Marian's ids."""
    pairs = [
        (entry.marian_id, ours) for ours, entry in enumerate(entries) if entry.marian_id is not None
    ]
    return np.array([ours for _, ours in sorted(pairs)], np.int64)


def _checksum(words: npt.NDArray[np.uint64]) -> int:
    value = 0
    for word in words.tolist():
        value ^= (word + _GOLDEN + (value << 6) + (value >> 2)) & _MASK
    return value
