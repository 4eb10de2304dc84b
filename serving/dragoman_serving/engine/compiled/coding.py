"""Quantizes a checkpoint's tensors into one block of memory for the compiled code.

Every weight is quantized to 8 bits with one scale per output; the embedding stays in its stored
precision, in fp16 unless its stored codes are those of the output layer. The block is the same for
every instruction set; `model.c` finds its arrays. It is written piece by piece, with at most one
layer in memory at the same time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dragoman.kernel.positions import PositionRates, sinusoidal_positions
from dragoman.kernel.tensors import SCALES
from dragoman_serving.engine.compiled.library import LANES, PANEL, Sizes

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Pieces = Iterable[Array]
"""The consecutive parts of an array; each may be freed before the next one is made."""

CODING_VERSION = 3
"""Increment this when the same weights give another block, so that kept blocks are made again."""
_EMBEDDING = "embedding.weight"
_LARGEST_CODE = 127
_SMALLEST_SCALE = 1e-30
_ALIGNMENT = 64
"""Alignment of each array, in bytes."""
_PIECE_ROWS = 64 * PANEL
"""Rows of an embedding or a product that are in memory at once."""


class Weight(Protocol):
    """A weight [M, K]; slices of rows are read in fp32 when they are needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """M and K."""
        ...

    def __getitem__(self, rows: slice, /) -> Floats:
        """Returns a slice of rows, which may be overwritten."""
        ...


@dataclass(frozen=True)
class Linear:
    """A linear map.

    Attributes:
        weight: [M, K].
        bias: [M], if there is one.
        scales: [M], of the codes that the weight is stored as; None: it is not stored in int8.
    """

    weight: Weight
    bias: Floats | None = None
    scales: Floats | None = None


class Tensors:
    """Tensors of a safetensors file by name, each read when it is needed.

    The file is opened again for each one, because its pages stay resident until it is closed.
    """

    def __init__(self, path: Path) -> None:
        """Read the names.

        Raises:
            OSError, SafetensorError: the file cannot be read.
        """
        self._path = path
        with _opened(path) as file:
            names = file.keys()
            self._shapes = {name: tuple(file.get_slice(name).get_shape()) for name in names}

    def __contains__(self, name: str) -> bool:
        return name in self._shapes

    def floats(self, name: str) -> Floats:
        """Returns a copy of a tensor, in fp32.

        Raises:
            KeyError: there is no tensor of this name.
        """
        if name not in self:
            raise KeyError(name)
        with _opened(self._path) as file:
            floats = np.array(file.get_tensor(name), np.float32)
            return floats * file.get_tensor(scales) if (scales := name + SCALES) in self else floats

    def weight(self, name: str) -> Weight:
        """Returns a tensor that is too large to be read as a whole.

        Raises:
            KeyError: there is no tensor of this name.
        """
        scales = name + SCALES if name + SCALES in self else None
        return _StoredWeight(self._path, name, self._shapes[name], scales)

    def linear(self, name: str) -> Linear:
        """Returns a weight with its bias.

        Raises:
            KeyError: there is no tensor of this name.
        """
        bias = self.floats(f"{name}.bias") if f"{name}.bias" in self else None
        return Linear(self.floats(f"{name}.weight"), bias, self.scales(f"{name}.weight"))

    @property
    def embedding_in_codes(self) -> bool:
        """Whether the output layer has the embedding's own codes, from which it can be read."""
        return _EMBEDDING + SCALES in self and "own_output.weight" not in self

    def scales(self, name: str) -> Floats | None:
        """Returns the scale [M] of each row of a weight that is stored in int8, else None."""
        return self.floats(name + SCALES).reshape(-1) if name + SCALES in self else None


class _StoredWeight:
    """See `Weight`; stored in a file."""

    def __init__(
        self, path: Path, name: str, shape: tuple[int, ...], scales: str | None = None
    ) -> None:
        self._path, self._name, self._scales = path, name, scales
        self.shape = shape

    def __getitem__(self, rows: slice) -> Floats:
        end = min(rows.stop, self.shape[0])
        with _opened(self._path) as file:
            floats = np.array(file.get_slice(self._name)[rows.start : end], np.float32)
            if self._scales is not None:
                floats *= file.get_slice(self._scales)[rows.start : end]
            return floats


class _Halved:
    """See `Weight`; another weight, rounded to fp16."""

    def __init__(self, weight: Weight) -> None:
        self._weight, self.shape = weight, weight.shape

    def __getitem__(self, rows: slice) -> Floats:
        return self._weight[rows].astype(np.float16).astype(np.float32)


def _opened(path: Path) -> Any:
    from safetensors import safe_open  # not needed for a model with a kept block

    return safe_open(path, "numpy")


def write_block(tensors: Tensors, sizes: Sizes, write: Callable[[Array | bytes], object]) -> None:
    """Write a block, one array after the other.

    Args:
        tensors: tensors of the checkpoint.
        sizes: sizes of the model; `norm_first` is set from the tensors.
        write: appends to the block.

    Raises:
        KeyError: a tensor is missing.
    """
    sizes = Sizes.from_buffer_copy(sizes)
    sizes.norm_first = "decoder_norm.weight" in tensors
    for pieces in _arrays(tensors, sizes):
        length = 0
        for piece in pieces:
            data = np.ascontiguousarray(piece).reshape(-1).view(np.uint8)
            write(data)
            length += len(data)
        write(bytes(-length % _ALIGNMENT))


def _arrays(tensors: Tensors, sizes: Sizes) -> Iterator[Pieces]:
    """A block's arrays, in the order of the fields in `model.h`."""
    yield [np.frombuffer(bytes(sizes), np.uint8)]
    embedding = tensors.weight(_EMBEDDING)
    if not sizes.embedding_in_codes:
        yield _halves(embedding)
    if sizes.own_src_embedding:
        yield _halves(tensors.weight("src_embedding.weight"))
    rates: PositionRates = "inclusive" if sizes.inclusive_rates else "paper"
    yield [sinusoidal_positions(sizes.longest, sizes.model_size, rates)]
    for i in range(sizes.encoder_layers):
        yield from _encoder_layer(tensors, f"encoder_layers.{i}", sizes)
    for i in range(sizes.decoder_layers):
        yield from _decoder_layer(tensors, f"decoder_layers.{i}", sizes)
    for name in ("encoder_norm", "decoder_norm"):
        if sizes.norm_first:
            yield from _norm(tensors, name)
        else:
            yield from ([np.zeros(sizes.model_size, np.float32)],) * 2
    # By default, the output projection is the embedding, in its stored precision.
    own_output = "own_output.weight" in tensors
    output = tensors.weight("own_output.weight") if own_output else _Halved(embedding)
    bias = tensors.floats("output_bias") if "output_bias" in tensors else None
    scales = tensors.scales("own_output.weight" if own_output else _EMBEDDING)
    yield from _product(Linear(output, bias, scales), padding_bias=-np.inf)


def _encoder_layer(tensors: Tensors, name: str, sizes: Sizes) -> Iterator[Pieces]:
    yield from _norm(tensors, f"{name}.self_attention_norm")
    yield from _norm(tensors, f"{name}.feed_forward_norm")
    yield from _self_attention(tensors, f"{name}.self_attention", sizes)
    yield from _feed_forward(tensors, f"{name}.feed_forward")


def _decoder_layer(tensors: Tensors, name: str, sizes: Sizes) -> Iterator[Pieces]:
    part = f"{name}.ssru" if sizes.has_ssru else f"{name}.self_attention"
    yield from _norm(tensors, f"{part}_norm")
    yield from _norm(tensors, f"{name}.cross_attention_norm")
    yield from _norm(tensors, f"{name}.feed_forward_norm")
    yield from (_ssru(tensors, part) if sizes.has_ssru else _self_attention(tensors, part, sizes))
    yield from _product(_query(tensors, f"{name}.cross_attention", sizes))
    yield from _product(tensors.linear(f"{name}.cross_attention.key_value"))
    yield from _product(tensors.linear(f"{name}.cross_attention.output"))
    yield from _feed_forward(tensors, f"{name}.feed_forward")


def _feed_forward(tensors: Tensors, name: str) -> Iterator[Pieces]:
    yield from _product(tensors.linear(f"{name}.inner"))
    yield from _product(tensors.linear(f"{name}.outer"))


def _self_attention(tensors: Tensors, name: str, sizes: Sizes) -> Iterator[Pieces]:
    """One product for queries, keys and values, and the output product."""
    query = _query(tensors, name, sizes)
    yield from _product(_joined(query, tensors.linear(f"{name}.key_value")))
    yield from _product(tensors.linear(f"{name}.output"))


def _ssru(tensors: Tensors, name: str) -> Iterator[Pieces]:
    """One product for the forget gate and the candidate."""
    forget, candidate = tensors.linear(f"{name}.forget"), tensors.linear(f"{name}.candidate")
    no_bias = np.zeros(candidate.weight.shape[0], np.float32)
    yield from _product(_joined(forget, replace(candidate, bias=no_bias)))


def _query(tensors: Tensors, name: str, sizes: Sizes) -> Linear:
    """Returns a linear map with the scale of attention already applied."""
    scale = np.float32(math.sqrt(sizes.model_size // sizes.heads))
    query = tensors.linear(f"{name}.query")
    bias = None if query.bias is None else query.bias / scale
    scales = None if query.scales is None else query.scales / scale
    return Linear(query.weight[:] / scale, bias, scales)


def _joined(first: Linear, second: Linear) -> Linear:
    """Returns both maps of the same input as one."""

    def both(left: Floats | None, right: Floats | None) -> Floats | None:
        return None if left is None or right is None else np.concatenate([left, right])

    return Linear(
        np.concatenate([first.weight[:], second.weight[:]]),
        both(first.bias, second.bias),
        both(first.scales, second.scales),
    )


def _norm(tensors: Tensors, name: str) -> Iterator[Pieces]:
    yield [tensors.floats(f"{name}.weight")]
    yield [tensors.floats(f"{name}.bias")]


def _halves(weight: Weight) -> Iterator[Array]:
    for begin in range(0, weight.shape[0], _PIECE_ROWS):
        yield weight[begin : begin + _PIECE_ROWS].astype(np.float16)


def _product(linear: Linear, padding_bias: float = 0.0) -> Iterator[Pieces]:
    """Quantize a weight [M, K], in the order in which a product reads it; overwrites the weight.

    A weight that is stored in int8 keeps its codes and scales. The other arrays are complete only
    after all codes have been read.
    """
    weight = linear.weight
    outputs, inputs = weight.shape
    padded = -(-outputs // PANEL) * PANEL
    scales, sums = np.zeros(padded, np.float32), np.zeros(padded, np.int32)
    biases = np.full(padded, padding_bias, np.float32)
    biases[:outputs] = 0 if linear.bias is None else linear.bias

    def codes() -> Iterator[Array]:
        for begin in range(0, padded, _PIECE_ROWS):
            rows = slice(begin, min(begin + _PIECE_ROWS, padded))
            stored = None if linear.scales is None else linear.scales[rows]
            quantized = _codes(weight[rows], scales[rows], stored)
            sums[rows] = quantized.sum(axis=1, dtype=np.int32)
            yield quantized.reshape(-1, LANES, inputs // 4, 4).transpose(0, 2, 1, 3)

    yield codes()
    yield [sums]
    yield [scales]
    yield [biases]


def _codes(weight: Floats, scales: Floats, stored: Floats | None) -> npt.NDArray[np.int8]:
    """Codes of rows, padded with 0 to the number of scales, which this fills.

    They are the stored scales, if any, or else those by which a row's largest code is 127.
    """
    outputs, inputs = weight.shape
    if stored is not None:
        scales[:outputs] = stored
    else:
        largest = np.maximum(weight.max(axis=1), -weight.min(axis=1))
        scales[:outputs] = np.maximum(largest / _LARGEST_CODE, _SMALLEST_SCALE)
    codes = np.zeros((len(scales), inputs), np.int8)
    np.divide(weight, scales[:outputs, None], out=weight)  # in place, to save the memory of a copy
    codes[:outputs] = np.rint(weight, out=weight)
    return codes
