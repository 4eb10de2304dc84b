"""A bundle's lexical shortlists: the possible target tokens of each source token."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman_serving.engine.compiled.library import LANES, PANEL

Words = npt.NDArray[np.uint64]

_WORD = 64
"""Bits per word."""


class Shortlists:
    """The lists of all source tokens, for each target language.

    The output layer computes vectors of 16 tokens. So a sentence's shortlist includes all tokens of
    each vector with a listed token. These cost nothing, and translations lack half as many tokens.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Read the lists.

        Args:
            path: the file, written by `dragoman_export.shortlist`.
            manifest: manifest of its bundle.

        Raises:
            UsageError: the file cannot be read, or does not fit the model.
        """
        sizes = manifest.dimensions
        tags, begins, ids = _read(path)
        expected = sorted(manifest.special_ids.tags.values())
        lists = max(len(tags), 1) * sizes.src_ids
        is_whole = len(begins) == lists + 1 and begins[0] == 0 and begins[-1] == len(ids)
        if sorted(tags.tolist()) != expected or not is_whole or (np.diff(begins) < 0).any():
            raise UsageError(f"{path}: has not a list for each source token of the model")
        if len(ids) and not 0 <= ids.min() <= ids.max() < sizes.vocab_size:
            raise UsageError(f"{path}: has ids that are not below {sizes.vocab_size}")
        self._first = {tag: index * sizes.src_ids for index, tag in enumerate(tags.tolist())}
        self._begins = begins
        self._vectors = ids // LANES  # in the type of the ids, which is small
        padded = -(-sizes.vocab_size // PANEL) * PANEL
        self._bits = -(-padded // (LANES * _WORD)) * _WORD

    def of_sentence(self, src_ids: Sequence[int], others: Iterable[int]) -> Words:
        """Returns one bit for each vector of 16 tokens, for `multiply_listed` in `products.h`.

        Args:
            src_ids: ids of the sentence, tag and end symbol included.
            others: more target tokens that must be possible.
        """
        rows = self._first.get(src_ids[0], 0) + np.array(sorted({*src_ids}))
        begins, ends = self._begins[rows].tolist(), self._begins[rows + 1].tolist()
        spans = map(slice, begins, ends)
        listed = np.zeros(self._bits, np.bool_)
        listed[np.concatenate([self._vectors[span] for span in spans])] = True
        for token in others:
            listed[token // LANES] = True
        return np.packbits(listed, bitorder="little").view("<u8")


def _read(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    try:
        arrays = load_file(path)
        tags, begins, ids = (arrays[name] for name in ("tags", "begins", "ids"))
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except KeyError as error:
        raise UsageError(f"{path}: has no tensor {error}") from error
    if not len(begins) or any(array.ndim != 1 for array in (tags, begins, ids)):
        raise UsageError(f"{path}: has a tensor of another shape than [N]")
    return tags, begins.astype(np.int32), ids
