"""From a bundle's weights to one block of memory that the compiled code reads.

Every weight is coded in 8 bits with one scale an output, of the stored weights; the embedding stays
as it is stored. The block is the same for every instruction set; `model.c` finds its arrays.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Activation, Dimensions
from dragoman.kernel.positions import sinusoidal_positions
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.library import (
    ACTIVATIONS,
    LANES,
    MOST_HEAD_SIZE,
    MOST_LAYERS,
    PANEL,
    Sizes,
)

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Block = npt.NDArray[np.uint8]

_LARGEST_CODE = 127
_SMALLEST_SCALE = 1e-30
_ALIGNMENT = 64
"""Bytes, of which each array begins at a multiple."""
_MULTIPLE, _HEAD_MULTIPLE = 64, 16
"""Of sizes, so that no vector is cut."""


class NativeWeights:
    """A model's coded weights, and the structure that points into them.

    Attributes:
        block: of memory, as `code_weights` made it.
        sizes: of the model.
        address: of the structure, valid as long as this object lives.
    """

    def __init__(self, block: Block) -> None:
        """Find the arrays of a block that `code_weights` made."""
        loaded = library.load()
        self.block = block
        self._model = ctypes.create_string_buffer(loaded.model_bytes())
        self.address = ctypes.addressof(self._model)
        self.sizes = Sizes.from_buffer_copy(block[: ctypes.sizeof(Sizes)].tobytes())
        loaded.find_weights(block.ctypes.data, self.address)

    @property
    def panels(self) -> int:
        """Panels of a step's scores."""
        return -(-int(self.sizes.vocab_size) // PANEL)


class _Tensors:
    """Tensors of a file by their names in a checkpoint, each read when it is needed."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._names = set(file.keys())

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def floats(self, name: str) -> Floats:
        """A copy, in fp32."""
        if name not in self._names:
            raise KeyError(name)
        return np.array(self._file.get_tensor(name), np.float32)

    def halves(self, name: str) -> Array:
        return self.floats(name).astype(np.float16)

    def linear(self, name: str) -> tuple[Floats, Floats | None]:
        """Weight [M, K] and bias [M]."""
        bias = self.floats(f"{name}.bias") if f"{name}.bias" in self else None
        return self.floats(f"{name}.weight"), bias


def load_weights(
    path: Path, dimensions: Dimensions, longest: int, activation: Activation = "relu"
) -> NativeWeights:
    """Read and code a model's weights.

    Args:
        path: a checkpoint's `model.safetensors`.
        dimensions: of the network.
        longest: tokens that a sentence may have, on either side.
        activation: inside of the feed-forward layers.

    Raises:
        UsageError: they cannot be read, some are missing, or there is a `sizes_obstacle`.
    """
    if found := sizes_obstacle(dimensions):
        raise UsageError(f"{path}: {found}")
    try:
        with safe_open(path, "numpy") as file:
            return NativeWeights(code_weights(_Tensors(file), dimensions, longest, activation))
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except KeyError as error:
        raise UsageError(f"{path}: has no tensor {error}") from error


def code_weights(
    tensors: _Tensors, dimensions: Dimensions, longest: int, activation: Activation
) -> Block:
    """Code weights, one array after the other, into a block. For arguments see `load_weights`."""
    sizes = Sizes(
        model_size=dimensions.model_size,
        feed_forward_size=dimensions.feed_forward_size,
        heads=dimensions.heads,
        head_size=dimensions.head_size,
        encoder_layers=dimensions.encoder_layers,
        decoder_layers=dimensions.decoder_layers,
        longest=longest,
        vocab_size=dimensions.vocab_size,
        src_ids=dimensions.src_ids,
        own_src_embedding=dimensions.src_vocab_size is not None,
        norm_first="decoder_norm.weight" in tensors,
        activation=ACTIVATIONS.index(activation),
    )
    model = ctypes.create_string_buffer(library.load().model_bytes())
    # Only the sizes are read.
    needed = library.load().find_weights(ctypes.addressof(sizes), ctypes.addressof(model))
    block, offset = np.zeros(needed, np.uint8), 0
    for array in _arrays(tensors, sizes):
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        block[offset : offset + len(data)] = data
        offset += -(-len(data) // _ALIGNMENT) * _ALIGNMENT
    return block


def _arrays(tensors: _Tensors, sizes: Sizes) -> Iterator[Array]:
    """A block's arrays, in the order of the fields in `kernels.h`."""
    yield np.frombuffer(bytes(sizes), np.uint8)
    embedding = tensors.halves("embedding.weight")
    yield embedding
    if sizes.own_src_embedding:
        yield tensors.halves("src_embedding.weight")
    yield sinusoidal_positions(sizes.longest, sizes.model_size)
    for i in range(sizes.encoder_layers):
        yield from _encoder_layer(tensors, f"encoder_layers.{i}", sizes)
    for i in range(sizes.decoder_layers):
        yield from _decoder_layer(tensors, f"decoder_layers.{i}", sizes)
    for name in ("encoder_norm", "decoder_norm"):
        if sizes.norm_first:
            yield from _norm(tensors, name)
        else:
            yield from (np.zeros(sizes.model_size, np.float32),) * 2
    # By default the output has the embedding, as it is stored here.
    own_output = "own_output.weight" in tensors
    output = tensors.floats("own_output.weight") if own_output else embedding.astype(np.float32)
    bias = tensors.floats("output_bias") if "output_bias" in tensors else None
    yield from _product(output, bias, padding_bias=-np.inf)


def _encoder_layer(tensors: _Tensors, name: str, sizes: Sizes) -> Iterator[Array]:
    yield from _norm(tensors, f"{name}.self_attention_norm")
    yield from _norm(tensors, f"{name}.feed_forward_norm")
    yield from _self_attention(tensors, f"{name}.self_attention", sizes)
    yield from _feed_forward(tensors, f"{name}.feed_forward")


def _decoder_layer(tensors: _Tensors, name: str, sizes: Sizes) -> Iterator[Array]:
    yield from _norm(tensors, f"{name}.self_attention_norm")
    yield from _norm(tensors, f"{name}.cross_attention_norm")
    yield from _norm(tensors, f"{name}.feed_forward_norm")
    yield from _self_attention(tensors, f"{name}.self_attention", sizes)
    yield from _product(*_query(tensors, f"{name}.cross_attention", sizes))
    yield from _product(*tensors.linear(f"{name}.cross_attention.key_value"))
    yield from _product(*tensors.linear(f"{name}.cross_attention.output"))
    yield from _feed_forward(tensors, f"{name}.feed_forward")


def _feed_forward(tensors: _Tensors, name: str) -> Iterator[Array]:
    yield from _product(*tensors.linear(f"{name}.inner"))
    yield from _product(*tensors.linear(f"{name}.outer"))


def _self_attention(tensors: _Tensors, name: str, sizes: Sizes) -> Iterator[Array]:
    """One product for queries, keys and values, and the output's."""
    weight, bias = _query(tensors, name, sizes)
    weights, biases = tensors.linear(f"{name}.key_value")
    both = None if bias is None or biases is None else np.concatenate([bias, biases])
    yield from _product(np.concatenate([weight, weights]), both)
    yield from _product(*tensors.linear(f"{name}.output"))


def _query(tensors: _Tensors, name: str, sizes: Sizes) -> tuple[Floats, Floats | None]:
    """Weight and bias, scaled for attention once, so that no step does it again."""
    scale = np.float32(math.sqrt(sizes.head_size))
    weight, bias = tensors.linear(f"{name}.query")
    return weight / scale, None if bias is None else bias / scale


def _norm(tensors: _Tensors, name: str) -> Iterator[Array]:
    yield tensors.floats(f"{name}.weight")
    yield tensors.floats(f"{name}.bias")


def _product(
    weight: Floats, bias: Floats | None = None, padding_bias: float = 0.0
) -> Iterator[Array]:
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
    yield codes.reshape(padded // LANES, LANES, inputs // 4, 4).transpose(0, 2, 1, 3)
    yield codes.sum(axis=1, dtype=np.int32)
    yield scales
    yield biases


def sizes_obstacle(sizes: Dimensions) -> str | None:
    """Why the compiled code cannot take a network of these sizes, if so."""
    for name in ("model_size", "feed_forward_size"):
        if (size := getattr(sizes, name)) % _MULTIPLE:
            return f"{name} is {size}, which is no multiple of {_MULTIPLE}"
    if sizes.head_size % _HEAD_MULTIPLE:
        return f"head_size is {sizes.head_size}, which is no multiple of {_HEAD_MULTIPLE}"
    if sizes.head_size > MOST_HEAD_SIZE:
        return f"head_size is {sizes.head_size}, more than {MOST_HEAD_SIZE}"
    if (layers := max(sizes.encoder_layers, sizes.decoder_layers)) > MOST_LAYERS:
        return f"it has {layers} layers, more than {MOST_LAYERS}"
    return None
