"""Converts a checkpoint to a model folder of CTranslate2.

Source: https://opennmt.net/CTranslate2/conversion.html
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import ctranslate2.specs
import numpy as np
import numpy.typing as npt
import sentencepiece
from dragoman_training.network.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Transformer,
)
from dragoman_training.run import checkpoint, checkpoint_folder
from torch import nn

from dragoman.kernel.errors import UsageError
from dragoman.kernel.positions import sinusoidal_positions
from dragoman.kernel.text import BEGIN_ID, END_ID, UNKNOWN_ID
from lab.measurement import option, program

POSITIONS = 1024
"""Rows of the position table; no bundle allows longer sentences."""

Floats = npt.NDArray[np.float32]


def convert(source: Path, out: Path) -> None:
    """Write a checkpoint's model, in fp32, in CTranslate2's format.

    Args:
        source: folder of a checkpoint or a bundle.
        out: folder to create.

    Raises:
        UsageError: `out` exists, or the checkpoint cannot be read.
    """
    if out.exists():
        raise UsageError(f"{out}: exists already; name another folder, or remove it")
    loaded = checkpoint.load(source)
    if loaded.config.imported:
        raise UsageError(f"{source}: was imported; convert the original model")
    spec = build_spec(loaded.model)
    pieces = sentencepiece.SentencePieceProcessor(
        model_file=str(source / checkpoint_folder.TOKENIZER)
    )
    vocabulary = [pieces.IdToPiece(index) for index in range(pieces.GetPieceSize())]
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.unk_token = vocabulary[UNKNOWN_ID]
    spec.config.bos_token = vocabulary[BEGIN_ID]
    spec.config.eos_token = vocabulary[END_ID]
    spec.config.decoder_start_token = vocabulary[BEGIN_ID]
    spec.validate()
    spec.optimize()
    out.mkdir(parents=True)
    spec.save(str(out))


def build_spec(model: Transformer) -> Any:
    """A `TransformerSpec` with a model's weights, but without vocabularies.

    Args:
        model: any; its weights are taken in fp32.
    """
    config = model.config
    pre_norm = config.norm == "pre"
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers), config.heads, pre_norm=pre_norm
    )
    # CTranslate2 has a single epsilon for all norms.
    (epsilon,) = {module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)}
    spec.config.layer_norm_epsilon = epsilon
    embedding = _array(model.embedding.weight)  # [V, E], shared by both sides and the output
    # CTranslate2's own table has all sines, then all cosines; ours alternates.
    positions = sinusoidal_positions(POSITIONS, config.model_size)
    spec.encoder.embeddings[0].weight = embedding
    spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = True
        side.position_encodings.encodings = positions
    if pre_norm:
        _set_norm(spec.encoder.layer_norm, model.encoder_norm)
        _set_norm(spec.decoder.layer_norm, model.decoder_norm)
    for target, layer in zip(spec.encoder.layer, model.encoder_layers, strict=True):
        assert isinstance(layer, EncoderLayer)
        _set_self_attention(target.self_attention, layer)
        _set_feed_forward(target.ffn, layer)
    for target, layer in zip(spec.decoder.layer, model.decoder_layers, strict=True):
        assert isinstance(layer, DecoderLayer)
        _set_self_attention(target.self_attention, layer)
        _set_cross_attention(target.attention, layer.cross_attention, layer.cross_attention_norm)
        _set_feed_forward(target.ffn, layer)
    return spec


def _set_self_attention(target: Any, layer: EncoderLayer | DecoderLayer) -> None:
    """Queries, keys and values in one matrix, then the output."""
    source = layer.self_attention
    inputs = (_array(source.query.weight), _array(source.key_value.weight))
    target.linear[0].weight = np.concatenate(inputs)  # [E, E] and [2E, E] to [3E, E]
    target.linear[1].weight = _array(source.output.weight)
    _set_norm(target.layer_norm, layer.self_attention_norm)


def _set_cross_attention(target: Any, source: MultiHeadAttention, norm: nn.Module) -> None:
    """Queries, then keys and values in one matrix, then the output."""
    for linear, weight in zip(
        target.linear, (source.query, source.key_value, source.output), strict=True
    ):
        linear.weight = _array(weight.weight)
    _set_norm(target.layer_norm, norm)


def _set_feed_forward(target: Any, layer: EncoderLayer | DecoderLayer) -> None:
    source: FeedForward = layer.feed_forward
    target.linear_0.weight = _array(source.inner.weight)
    target.linear_0.bias = _array(source.inner.bias)
    target.linear_1.weight = _array(source.outer.weight)
    target.linear_1.bias = _array(source.outer.bias)
    _set_norm(target.layer_norm, layer.feed_forward_norm)


def _set_norm(target: Any, source: nn.Module) -> None:
    assert isinstance(source, nn.LayerNorm)
    target.gamma = _array(source.weight)
    target.beta = _array(source.bias)


def _array(tensor: Any) -> Floats:
    return np.ascontiguousarray(tensor.detach().float().numpy())


@program(
    option("checkpoint", type=Path, help="folder of a checkpoint or a bundle"),
    option("--out", type=Path, required=True, help="folder to create"),
    measures=False,
)
def main(arguments: argparse.Namespace) -> None:
    """Convert the checkpoint on the command line."""
    convert(arguments.checkpoint, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
