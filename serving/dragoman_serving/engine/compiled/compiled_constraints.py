"""Converts a sentence's constraints to the structures of the compiled code."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.constraints import Constraints, SuppressedWords
from dragoman_serving.engine.sentence import Sentence


class NativeConstraints:
    """The structure `Constraints` of `search_data.h`, with all memory that it points to.

    Attributes:
        address: address of the structure, valid as long as this object lives.
        scored: whether log-probabilities are computed, because they are requested or compared.
    """

    def __init__(self, sentence: Sentence, constraints: Constraints) -> None:
        """Build it for the search of a sentence."""
        self._kept: list[object] = []
        options = sentence.options
        alternatives = options.alternatives
        hypotheses = 1 if alternatives else options.hypotheses  # for each search
        enough = max(math.ceil(constraints.patience * options.beam_width), hypotheses)
        if not constraints.early_stopping:
            enough = 0
        self.scored = (
            constraints.scored
            or options.beam_width > 1
            or enough != 1
            or constraints.repetition_penalty != 1.0
        )
        self._structure = library.Constraints(
            prefix_length=len(constraints.prefix),
            prefix=self._array(constraints.prefix, np.int32),
            fewest=constraints.min_tokens,
            ngram_size=constraints.no_repeat_ngram_size or 0,
            enough=enough,
            branches=len(alternatives),
            first_branch=alternatives.start,
            scored=self.scored,
            repetition_penalty=constraints.repetition_penalty,
            temperature=1.0,
            top_p=1.0,
        )
        if constraints.suppressed is not None:
            self._structure.suppressed = self._suppressed(constraints.suppressed)
        if constraints.not_first is not None:
            self._structure.not_first = self._array(constraints.not_first, np.float32)
            self._structure.not_first_size = len(constraints.not_first)
        if (sampling := constraints.sampling) is not None:
            numbers = np.random.Generator(np.random.Philox(sampling.seed))
            self._structure.numbers = self._array(numbers.random(sentence.max_tokens), np.float64)
            self._structure.temperature = sampling.temperature
            self._structure.top_k = sampling.top_k or 0
            self._structure.top_p = 1.0 if sampling.top_p is None else sampling.top_p
        self.address = ctypes.addressof(self._structure)

    def _array(self, values: npt.ArrayLike, dtype: Any) -> int:
        """Returns the address of an array, which is kept alive."""
        array = np.ascontiguousarray(values, dtype)
        self._kept.append(array)
        return array.ctypes.data

    def _pointer(self, structure: ctypes.Structure) -> int:
        self._kept.append(structure)
        return ctypes.addressof(structure)

    def _suppressed(self, words: SuppressedWords) -> int:
        return self._pointer(
            library.Suppressed(
                text=self._array(words.text, np.int32),
                text_begins=self._array(words.text_begins, np.int64),
                always=len(words.always),
                always_ids=self._array(words.always, np.int32),
                beginnings=len(words.beginning_begins) - 1,
                beginning_text=self._array(words.beginning_text, np.int32),
                beginning_begins=self._array(words.beginning_begins, np.int64),
                ids=self._array(words.ids, np.int32),
                ids_begins=self._array(words.ids_begins, np.int64),
            )
        )
