"""Convert the tensors of a Marian model to ours.

Differences are resolved here as far as possible, so that inference has less to compute:

- Ids are put in our order, and the rows of the embeddings with them.
- Marian's positional encodings have all sines first, then all cosines; ours alternate. The order of
  the components of a model's vectors is arbitrary, so every weight is permuted to our order.
- Embeddings that Marian does not scale are divided by our scale.

Source: the paper on Marian, Junczys-Dowmunt et al. 2018, https://aclanthology.org/P18-4020
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError
from dragoman.kernel.positions import sinusoidal_positions
from dragoman_training.marian.pieces import Entry
from dragoman_training.marian.settings import MarianSettings
from dragoman_training.marian.stored_tensors import Floats, StoredTensors
from dragoman_training.network.architecture import NEVER, ModelConfig
from dragoman_training.run.checkpoint_folder import Arrays

_SHARED = "model.shared.weight"
_VOCABULARY_MATRICES = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
"""Embeddings of both sides, and the output projection."""


def convert(
    folder: Path, theirs: MarianSettings, src_entries: list[Entry], tgt_entries: list[Entry]
) -> tuple[Arrays, ModelConfig]:
    """Read a Marian model's weights, and convert them to our names and our order.

    Args:
        folder: with the weights.
        theirs: settings of the network, from the folder's `config.json`.
        src_entries: of the source vocabulary.
        tgt_entries: of the target vocabulary; the same list object if there is one.

    Returns:
        All weights by our names, and the model's configuration.

    Raises:
        UsageError: the file is missing, damaged or of another kind of model.
    """
    return _Weights(StoredTensors.read(folder), theirs, src_entries, tgt_entries).converted()


def paired_order(size: int) -> npt.NDArray[np.int64]:
    """Permutation that puts the sine and cosine of each frequency next to each other."""
    return np.arange(size).reshape(2, size // 2).T.flatten()


class _Weights:
    """Converts a model's tensors to our names and our order."""

    def __init__(
        self,
        tensors: StoredTensors,
        theirs: MarianSettings,
        src_entries: Sequence[Entry],
        tgt_entries: Sequence[Entry],
    ) -> None:
        self._tensors, self._theirs = tensors, theirs
        self._src_entries, self._tgt_entries = src_entries, tgt_entries
        self._arrays: Arrays = {}

    @cached_property
    def _order(self) -> npt.NDArray[np.int64]:
        """See `paired_order`."""
        # Built only after a tensor of this size was found: the file's number may be arbitrary.
        return paired_order(self._theirs.sizes.model_size)

    def converted(self) -> tuple[Arrays, ModelConfig]:
        """All weights by our names, and the matching configuration."""
        sizes = self._theirs.sizes
        embeddings = self._embeddings()
        for side, layers in (("encoder", sizes.encoder_layers), ("decoder", sizes.decoder_layers)):
            self._check_positions(f"model.{side}.embed_positions.weight")
            for layer in range(layers):
                self._layer(f"model.{side}.layers.{layer}", f"{side}_layers.{layer}")
        self._tensors.check_empty()
        return self._arrays, embeddings

    def _embeddings(self) -> ModelConfig:
        """Convert embeddings, output projection and bias; the result tells which are shared."""
        theirs, size = self._theirs, self._theirs.sizes.model_size
        encoder, decoder, output = self._vocabulary_matrices()
        bias = np.zeros((1, len(decoder)), np.float32)
        if "final_logits_bias" in self._tensors:
            bias = self._tensors.take("final_logits_bias", *bias.shape)
        one_list = self._src_entries is self._tgt_entries
        shared = one_list and np.array_equal(encoder, decoder)
        own_output = not theirs.scaled or not np.array_equal(decoder, output)
        scale = 1.0 if theirs.scaled else 1 / math.sqrt(size)
        self._arrays["embedding.weight"] = self._rows(decoder, self._tgt_entries) * scale
        if not shared:
            self._arrays["src_embedding.weight"] = self._rows(encoder, self._src_entries) * scale
        if own_output:
            self._arrays["own_output.weight"] = self._rows(output, self._tgt_entries)
        said = [entry.is_said for entry in self._tgt_entries]
        picked = _picked(bias[0], self._tgt_entries)
        self._arrays["output_bias"] = np.where(said, picked, np.float32(NEVER))
        return replace(
            theirs.sizes,
            vocab_size=len(self._tgt_entries),
            src_vocab_size=None if shared else len(self._src_entries),
            own_output=own_output,
        )

    def _vocabulary_matrices(self) -> tuple[Floats, Floats, Floats]:
        """Embeddings of encoder and decoder, and the output projection, in Marian's order."""
        theirs, size = self._theirs, self._theirs.sizes.model_size
        encoder, decoder, output = (f"{name}.weight" for name in _VOCABULARY_MATRICES)
        stored: dict[str, Floats] = {}
        for name in (*((_SHARED,) if theirs.shared else ()), encoder, decoder, output):
            if name in self._tensors:
                rows = theirs.sizes.vocab_size if name == encoder else theirs.tgt_vocab_size
                stored[name] = self._tensors.take(name, rows, size)
        # As in transformers 5: what is stored is used, also where the settings share a matrix; the
        # rest of the sharing ones get the first that is stored.
        sharing: tuple[str, ...] = ()
        if theirs.tied:
            sharing = (_SHARED, output, decoder, encoder) if theirs.shared else (decoder, output)
        elif theirs.shared:
            sharing = (encoder, decoder)
        leaders = sharing if theirs.tied else (_SHARED,)
        leader = next((stored[name] for name in leaders if name in stored), None)
        if leader is not None:
            stored = {**dict.fromkeys(sharing, leader), **stored}
        for name in (encoder, decoder, output):
            if name not in stored:
                raise UsageError(f"{self._tensors.path}: the tensor {name!r} is missing")
        return stored[encoder], stored[decoder], stored[output]

    def _rows(self, matrix: Floats, entries: Sequence[Entry]) -> Floats:
        return np.ascontiguousarray(_picked(matrix, entries)[:, self._order])

    def _check_positions(self, name: str) -> None:
        """Check stored positional encodings, if any: they must equal ours."""
        if name not in self._tensors:
            return
        length, size = self._theirs.max_tokens, self._theirs.sizes.model_size
        positions = self._tensors.take(name, length, size)[:, self._order]
        if not np.allclose(positions, sinusoidal_positions(length, size), atol=1e-3):
            raise UsageError(
                f"{self._tensors.path}: {name!r} is not a sinusoidal positional encoding"
            )

    def _layer(self, theirs: str, ours: str) -> None:
        self._attention(f"{theirs}.self_attn", f"{ours}.self_attention")
        self._norm(f"{theirs}.self_attn_layer_norm", f"{ours}.self_attention_norm")
        if ours.startswith("decoder"):
            self._attention(f"{theirs}.encoder_attn", f"{ours}.cross_attention")
            self._norm(f"{theirs}.encoder_attn_layer_norm", f"{ours}.cross_attention_norm")
        size, wide = self._theirs.sizes.model_size, self._theirs.sizes.feed_forward_size
        weight, bias = self._linear(f"{theirs}.fc1", wide, size)
        self._put(f"{ours}.feed_forward.inner", weight[:, self._order], bias)
        weight, bias = self._linear(f"{theirs}.fc2", size, wide)
        self._put(f"{ours}.feed_forward.outer", weight[self._order], bias[self._order])
        self._norm(f"{theirs}.final_layer_norm", f"{ours}.feed_forward_norm")

    def _attention(self, theirs: str, ours: str) -> None:
        size = self._theirs.sizes.model_size
        query, key, value, output = (
            self._linear(f"{theirs}.{part}_proj", size, size) for part in ("q", "k", "v", "out")
        )
        self._put(f"{ours}.query", query[0][:, self._order], query[1])
        joined = np.concatenate((key[0], value[0]))[:, self._order]
        self._put(f"{ours}.key_value", joined, np.concatenate((key[1], value[1])))
        self._put(f"{ours}.output", output[0][self._order], output[1][self._order])

    def _norm(self, theirs: str, ours: str) -> None:
        size = self._theirs.sizes.model_size
        weight, bias = (self._tensors.take(f"{theirs}.{part}", size) for part in ("weight", "bias"))
        self._put(ours, weight[self._order], bias[self._order])

    def _linear(self, name: str, outputs: int, inputs: int) -> tuple[Floats, Floats]:
        weight = self._tensors.take(f"{name}.weight", outputs, inputs)
        return weight, self._tensors.take(f"{name}.bias", outputs)

    def _put(self, name: str, weight: Floats, bias: Floats) -> None:
        self._arrays[f"{name}.weight"] = np.ascontiguousarray(weight)
        self._arrays[f"{name}.bias"] = np.ascontiguousarray(bias)


def _picked(rows: Floats, entries: Sequence[Entry]) -> Floats:
    """The row of each entry, and zeros for padding entries."""
    ids = [-1 if entry.marian_id is None else entry.marian_id for entry in entries]
    picked: Floats = np.concatenate((rows, np.zeros_like(rows[:1])))[ids]
    return picked
