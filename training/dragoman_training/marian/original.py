"""A model's logits as Marian computes them, with NumPy from the model's own files.

The check of a conversion compares with these. Only the readers of files are shared with the
conversion: ids, names and the order of tensors are those of the files.

Source: Junczys-Dowmunt et al. 2018, https://aclanthology.org/P18-4020, and
https://huggingface.co/docs/transformers/model_doc/marian
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from dragoman.kernel.text import language_tag
from dragoman_training.marian.settings import CONFIG, content_of, read_object
from dragoman_training.marian.stored_tensors import Floats, StoredTensors

_SHARED, _OUTPUT = "model.shared.weight", "lm_head.weight"
_ENCODER, _DECODER = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
_LINEAR = {"self": "self_attn.{}_proj", "cross": "encoder_attn.{}_proj", "ffn": "fc{}"}
_NORM = {"self": "self_attn", "cross": "encoder_attn", "ffn": "final"}
_SPECIALS = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}

Block = tuple[str, int, str]
"""The side, the layer from 0, and the part: `self`, `cross`, `ffn` (feed-forward) or `rnn`."""


class Original(ABC):
    """A model before its conversion: layers that add what they read, and normalize the sum.

    Attributes:
        src_entries: ids of the source vocabulary by entry. Special tokens have our names.
        tgt_entries: of the target vocabulary.
        never_generated: the entry that a translation cannot contain.
        layers: number of layers of each side.
        heads: number of attention heads.
    """

    src_entries: Mapping[str, int]
    tgt_entries: Mapping[str, int]
    never_generated: str
    layers: Mapping[str, int]
    heads: int

    @abstractmethod
    def source_ids(self, text: str, target: str) -> list[int]:
        """The ids that the encoder reads for a text that is to be translated into `target`."""

    def memory(self, src_ids: Sequence[int]) -> Floats:
        """The encoder's output [S, E]."""
        states = self._placed("encoder", src_ids)
        for layer in range(self.layers["encoder"]):
            states = self._attended(("encoder", layer, "self"), states, states)
            states = self._fed_forward(("encoder", layer, "ffn"), states)
        return states

    def cross(self, memory: Floats) -> Iterator[Floats]:
        """Keys, then values [S, E], of the cross-attention of each decoder layer."""
        for layer in range(self.layers["decoder"]):
            for letter in "kv":
                yield self._linear(("decoder", layer, "cross"), letter, memory)

    def logits(self, memory: Floats, tgt_ids: Sequence[int]) -> Floats:
        """Logits [T + 1, V] of the first token, and after each of `tgt_ids` [T]."""
        states = self._placed("decoder", tgt_ids)
        for layer in range(self.layers["decoder"]):
            states = self._remembered(layer, states)
            states = self._attended(("decoder", layer, "cross"), states, memory)
            states = self._fed_forward(("decoder", layer, "ffn"), states)
        return self._output(states)

    @abstractmethod
    def _placed(self, side: str, ids: Sequence[int]) -> Floats:
        """Embeddings with positions: of the source, or of the start and the ids [T + 1, E]."""

    @abstractmethod
    def _remembered(self, layer: int, states: Floats) -> Floats:
        """What a decoder layer keeps of the tokens so far [T, E]."""

    @abstractmethod
    def _output(self, states: Floats) -> Floats:
        """Logits [T, V] of the decoder's states."""

    @abstractmethod
    def _linear(self, block: Block, part: str, states: Floats) -> Floats:
        """A linear map: `q`, `k`, `v` or `o` of an attention, 1 or 2 of a feed-forward network."""

    @abstractmethod
    def _normalized(self, block: Block, states: Floats) -> Floats: ...

    @abstractmethod
    def _activated(self, states: Floats) -> Floats: ...

    def _fed_forward(self, block: Block, states: Floats) -> Floats:
        inner = self._activated(self._linear(block, "1", states))
        return self._normalized(block, states + self._linear(block, "2", inner))

    def _attended(
        self, block: Block, states: Floats, memory: Floats, is_causal: bool = False
    ) -> Floats:
        query, key, value = (
            self._linear(block, letter, source).reshape(len(source), self.heads, -1).swapaxes(0, 1)
            for letter, source in (("q", states), ("k", memory), ("v", memory))
        )
        scores = query @ key.swapaxes(1, 2) / np.float32(math.sqrt(query.shape[-1]))
        if is_causal:
            scores = np.where(np.tri(len(states), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        joined = (weights @ value).swapaxes(0, 1).reshape(states.shape)
        return self._normalized(block, states + self._linear(block, "o", joined))


class OriginalMarian(Original):
    """A model in the layout of `transformers`."""

    never_generated = "<pad>"

    def __init__(self, folder: Path, tags: Mapping[str, str]) -> None:
        """Read a model that was imported without an error.

        Args:
            folder: with the model's files.
            tags: the vocabulary entry that selects each target language, if there are several.
        """
        self._config = {
            name: value[0] if isinstance(value, list) and len(value) == 1 else value
            for name, value in read_object(folder / CONFIG).items()
        }
        self._tensors = StoredTensors.read(folder)
        self._tags = tags
        self.layers = {side: self._config[f"{side}_layers"] for side in ("encoder", "decoder")}
        self.heads = self._config["encoder_attention_heads"]
        path = folder / "tokenizer_config.json"
        words = read_object(path) if path.exists() else {}
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
        self.src_entries = _named(read_object(folder / "vocab.json"), words, tags)
        self.tgt_entries = self.src_entries
        if words.get("separate_vocabs"):
            self.tgt_entries = _named(read_object(folder / "target_vocab.json"), words, {})

    def source_ids(self, text: str, target: str) -> list[int]:
        """See `Original`."""
        entries, pieces = self.src_entries, self._pieces.EncodeAsPieces(text)
        tags = [entries[language_tag(target)]] if self._tags else []
        return [*tags, *(entries.get(piece, entries["<unk>"]) for piece in pieces), entries["</s>"]]

    def _placed(self, side: str, ids: Sequence[int]) -> Floats:
        if side == "decoder":
            ids = [self._config["decoder_start_token_id"], *ids]
        size, stored = self._config["d_model"], f"model.{side}.embed_positions.weight"
        scale = math.sqrt(size) if self._config.get("scale_embedding", False) else 1.0
        positions = sines_then_cosines(len(ids), 10000.0 ** -(np.arange(0, size, 2) / size))
        if stored in self._tensors:
            positions = self._tensors[stored][: len(ids)]
        table = self._table(_ENCODER if side == "encoder" else _DECODER)
        placed: Floats = table[list(ids)] * np.float32(scale) + positions
        return placed

    def _table(self, name: str) -> Floats:
        """The stored matrix, else the first stored one of those that the settings tie it to."""
        is_tied = self._config.get("tie_word_embeddings", True)
        is_shared = self._config.get("share_encoder_decoder_embeddings", True)
        ties = (_SHARED, _OUTPUT, _DECODER, _ENCODER) if is_shared else (_DECODER, _OUTPUT)
        names = name, *(ties if is_tied else (_SHARED,))
        return self._tensors[next(candidate for candidate in names if candidate in self._tensors)]

    def _remembered(self, layer: int, states: Floats) -> Floats:
        return self._attended(("decoder", layer, "self"), states, states, is_causal=True)

    def _output(self, states: Floats) -> Floats:
        bias = "final_logits_bias"
        logits: Floats = states @ self._table(_OUTPUT).T
        return logits + self._tensors[bias] if bias in self._tensors else logits

    def _linear(self, block: Block, part: str, states: Floats) -> Floats:
        side, layer, kind = block
        place = _LINEAR[kind].format("out" if part == "o" else part)
        name = f"model.{side}.layers.{layer}.{place}"
        mapped: Floats = states @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]
        return mapped

    def _normalized(self, block: Block, states: Floats) -> Floats:
        side, layer, kind = block
        name = f"model.{side}.layers.{layer}.{_NORM[kind]}_layer_norm"
        weight, bias = (self._tensors[f"{name}.{part}"] for part in ("weight", "bias"))
        return normalized(states, weight, bias, 1e-5)

    def _activated(self, states: Floats) -> Floats:
        return _ACTIVATIONS[self._config.get("activation_function", "gelu")](states)


def normalized(states: Floats, weight: Floats, bias: Floats, epsilon: float) -> Floats:
    """Layer normalization of vectors [T, E]."""
    deviation = np.sqrt(states.var(axis=-1, keepdims=True) + np.float32(epsilon))
    result: Floats = (states - states.mean(axis=-1, keepdims=True)) / deviation * weight + bias
    return result


def sines_then_cosines(length: int, rates: npt.NDArray[np.float64]) -> Floats:
    """Position encodings [T, E] for rates [E / 2]."""
    angles = np.outer(np.arange(length), rates)
    table: Floats = np.concatenate((np.sin(angles), np.cos(angles)), axis=1).astype(np.float32)
    return table


def sigmoid(states: Floats) -> Floats:
    """1 / (1 + e^-x)."""
    result: Floats = 1 / (1 + np.exp(-states))
    return result


def _silu(states: Floats) -> Floats:
    result: Floats = states * sigmoid(states)
    return result


def _gelu(states: Floats) -> Floats:
    erf = np.vectorize(math.erf, otypes=[np.float32])(states / math.sqrt(2))
    result: Floats = states * (1 + erf) / 2
    return result


def relu(states: Floats) -> Floats:
    """The larger of x and 0."""
    result: Floats = np.maximum(states, 0)
    return result


_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": relu,
    **dict.fromkeys(("silu", "swish"), _silu),
    **dict.fromkeys(("gelu", "gelu_python"), _gelu),
}


def _named(
    listed: Mapping[str, int], words: Mapping[str, Any], tags: Mapping[str, str]
) -> dict[str, int]:
    """A list's ids by entry; special tokens and tags have our names."""
    names = {tag: language_tag(language) for language, tag in tags.items()}
    for kind, name in _SPECIALS.items():
        names[content_of(words.get(f"{kind}_token", name))] = name
    return {names.get(entry, entry): token_id for entry, token_id in listed.items()}
