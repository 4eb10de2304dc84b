"""From a bundle's weights to the structures of the compiled code.

Every weight is coded in 8 bits with one scale an output, of the stored weights, when a bundle is
loaded; the embedding stays as it is stored.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Activation, Dimensions
from dragoman.kernel.positions import sinusoidal_positions
from dragoman_serving.engine.compiled.library import (
    ACTIVATIONS,
    PANEL,
    DecoderLayer,
    EncoderLayer,
    Model,
    Norm,
    Product,
)

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

_LARGEST_CODE = 127
_SMALLEST_SCALE = 1e-30
_LANES = 16
"""Outputs of a vector."""
_MULTIPLE, _HEAD_MULTIPLE = 64, 16
"""Of sizes, so that no vector is cut."""


class NativeWeights:
    """A model's weights, coded, and the structure that points to them.

    Attributes:
        model: the structure; valid as long as this object lives.
    """

    def __init__(
        self,
        tensors: Mapping[str, Array],
        sizes: Dimensions,
        longest: int,
        activation: Activation = "relu",
    ) -> None:
        """Code the weights.

        Args:
            tensors: by their names in a checkpoint.
            sizes: of the network; there is no `sizes_obstacle`.
            longest: tokens that a sentence may have, on either side.
            activation: inside of the feed-forward layers.
        """
        self._tensors = tensors
        self._sizes = sizes
        self._kept: list[object] = []
        encoder = [self._encoder_layer(i) for i in range(sizes.encoder_layers)]
        decoder = [self._decoder_layer(i) for i in range(sizes.decoder_layers)]
        norm_first = "decoder_norm.weight" in tensors
        embedding = np.ascontiguousarray(tensors["embedding.weight"], np.float16)
        src_embedding = embedding
        if sizes.src_vocab_size is not None:
            src_embedding = np.ascontiguousarray(tensors["src_embedding.weight"], np.float16)
        # The output takes the embedding as it is stored here.
        own_output = "own_output.weight" in tensors
        output = self._floats("own_output.weight") if own_output else embedding.astype(np.float32)
        output_bias = self._floats("output_bias") if "output_bias" in tensors else None
        self.model = Model(
            model_size=sizes.model_size,
            feed_forward_size=sizes.feed_forward_size,
            heads=sizes.heads,
            head_size=sizes.head_size,
            encoder_layers=sizes.encoder_layers,
            decoder_layers=sizes.decoder_layers,
            longest=longest,
            vocab_size=sizes.vocab_size,
            src_ids=sizes.src_ids,
            norm_first=norm_first,
            activation=ACTIVATIONS.index(activation),
            embedding=self._address(embedding),
            src_embedding=self._address(src_embedding),
            positions=self._address(sinusoidal_positions(longest, sizes.model_size)),
            encoder=(EncoderLayer * len(encoder))(*encoder),
            decoder=(DecoderLayer * len(decoder))(*decoder),
            encoder_norm=self._norm("encoder_norm") if norm_first else Norm(),
            decoder_norm=self._norm("decoder_norm") if norm_first else Norm(),
            logits=self._product(output, output_bias, padding_bias=-np.inf),
        )
        del self._tensors

    def _encoder_layer(self, index: int) -> EncoderLayer:
        name = f"encoder_layers.{index}"
        inner, outer = self._feed_forward(name)
        return EncoderLayer(
            attention_norm=self._norm(f"{name}.self_attention_norm"),
            feed_forward_norm=self._norm(f"{name}.feed_forward_norm"),
            query_key_value=self._query_key_value(f"{name}.self_attention"),
            attention_output=self._linear(f"{name}.self_attention.output"),
            inner=inner,
            outer=outer,
        )

    def _decoder_layer(self, index: int) -> DecoderLayer:
        name = f"decoder_layers.{index}"
        inner, outer = self._feed_forward(name)
        return DecoderLayer(
            self_norm=self._norm(f"{name}.self_attention_norm"),
            cross_norm=self._norm(f"{name}.cross_attention_norm"),
            feed_forward_norm=self._norm(f"{name}.feed_forward_norm"),
            query_key_value=self._query_key_value(f"{name}.self_attention"),
            self_output=self._linear(f"{name}.self_attention.output"),
            cross_query=self._product(*self._query(f"{name}.cross_attention")),
            cross_key_value=self._linear(f"{name}.cross_attention.key_value"),
            cross_output=self._linear(f"{name}.cross_attention.output"),
            inner=inner,
            outer=outer,
        )

    def _feed_forward(self, name: str) -> tuple[Product, Product]:
        inner, outer = f"{name}.feed_forward.inner", f"{name}.feed_forward.outer"
        return self._linear(inner), self._linear(outer)

    def _query(self, name: str) -> tuple[Floats, Floats | None]:
        """Weight and bias, scaled for attention once, so that no step does it again."""
        scale = np.float32(math.sqrt(self._sizes.head_size))
        weight, bias = self._floats(f"{name}.query.weight"), self._bias(f"{name}.query")
        return weight / scale, None if bias is None else bias / scale

    def _query_key_value(self, name: str) -> Product:
        weight, bias = self._query(name)
        others, others_bias = (
            self._floats(f"{name}.key_value.weight"),
            self._bias(f"{name}.key_value"),
        )
        if bias is not None and others_bias is not None:
            bias = np.concatenate((bias, others_bias))
        return self._product(np.concatenate((weight, others)), bias)

    def _linear(self, name: str) -> Product:
        return self._product(self._floats(f"{name}.weight"), self._bias(name))

    def _bias(self, name: str) -> Floats | None:
        return self._floats(f"{name}.bias") if f"{name}.bias" in self._tensors else None

    def _product(
        self,
        weight: Floats,
        bias: Floats | None = None,
        padding_bias: float = 0.0,
    ) -> Product:
        """Code a weight [M, K], in the order in which a product reads it, and use it up."""
        outputs, inputs = weight.shape
        padded = -(-outputs // PANEL) * PANEL
        scales = np.zeros(padded, np.float32)
        largest = np.maximum(weight.max(axis=1), -weight.min(axis=1))
        scales[:outputs] = np.maximum(largest / _LARGEST_CODE, _SMALLEST_SCALE)
        codes = np.zeros((padded, inputs), np.int8)
        np.divide(weight, scales[:outputs, None], out=weight)  # a copy would be as large as it
        codes[:outputs] = np.rint(weight, out=weight)
        biases = np.full(padded, padding_bias, np.float32)
        biases[:outputs] = 0 if bias is None else bias
        sums = codes.sum(axis=1, dtype=np.int32)
        in_order = codes.reshape(padded // _LANES, _LANES, inputs // 4, 4).transpose(0, 2, 1, 3)
        return Product(
            codes=self._address(np.ascontiguousarray(in_order)),
            sums=self._address(sums),
            scales=self._address(scales),
            biases=self._address(biases),
            inputs=inputs,
            outputs=padded,
        )

    def _norm(self, name: str) -> Norm:
        scales, biases = self._floats(f"{name}.weight"), self._floats(f"{name}.bias")
        return Norm(self._address(scales), self._address(biases))

    def _floats(self, name: str) -> Floats:
        """A copy."""
        return np.array(self._tensors[name], np.float32)

    def _address(self, array: Array) -> ctypes.c_void_p:
        self._kept.append(array)
        return ctypes.c_void_p(array.ctypes.data)


def load_weights(
    path: Path, sizes: Dimensions, longest: int, activation: Activation = "relu"
) -> NativeWeights:
    """Read and code a model's weights.

    Args:
        path: a checkpoint's `model.safetensors`.
        sizes: of the network.
        longest: tokens that a sentence may have, on either side.
        activation: inside of the feed-forward layers.

    Raises:
        UsageError: they cannot be read, some are missing, or `sizes_obstacle`.
    """
    if found := sizes_obstacle(sizes):
        raise UsageError(f"{path}: {found}")
    try:
        return NativeWeights(load_file(path), sizes, longest, activation)
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except KeyError as error:
        raise UsageError(f"{path}: has no tensor {error}") from error


def sizes_obstacle(sizes: Dimensions) -> str | None:
    """Why the compiled code cannot take a network of these sizes, if so."""
    for name in ("model_size", "feed_forward_size"):
        if (size := getattr(sizes, name)) % _MULTIPLE:
            return f"{name} is {size}, which is no multiple of {_MULTIPLE}"
    if sizes.head_size % _HEAD_MULTIPLE:
        return f"head_size is {sizes.head_size}, which is no multiple of {_HEAD_MULTIPLE}"
    return None
