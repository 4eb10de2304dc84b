"""Reads the binary file of a student that Marian trained: its tensors and its settings.

All numbers are little-endian. A header of four 64-bit numbers for each item (length of the name,
type, number of dimensions, bytes of data) follows the version and the number of items; then come
the names, the dimensions, padding, and the data in the same order. A number of the file is compared
with the bytes that are left before anything of that size is read.

Source: https://github.com/browsermt/marian-dev/blob/master/src/common/binary.cpp
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError
from dragoman_training.marian.stored_tensors import Floats

SETTINGS = "special:model.yml"
"""Item with the settings, as text."""
FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101
"""Types of items."""
ACTIVATION = "_QuantMultA"
"""End of the names of scalars that Marian multiplies activations with before it rounds them."""
TABLE = "Wemb"
"""Part of the names of embeddings, the only matrices whose codes are not transposed."""
Indices = npt.NDArray[np.int64]

_VERSION = 1
_MOST_DIMENSIONS = 8
_WORD, _DIMENSION = 8, 4
"""Bytes of a number in a header, and of a dimension."""
_HEADER = 4 * _WORD
_KNOWN_ITEM_BYTES = {FLOAT32: 4, INT8: 1, INTGEMM8: 1}
_MULTIPLIER_BYTES = 4
_LARGEST_CODE = 127


@dataclass(frozen=True)
class Matrix:
    """A matrix [M, K] of outputs and inputs.

    Attributes:
        values: fp32 numbers, or int8 codes.
        scales: what each row's codes are multiplied with, fp32 [M, 1]; None for fp32 numbers.
    """

    values: npt.NDArray[Any]
    scales: Floats | None = None

    def picked(
        self,
        rows: npt.NDArray[np.int64] | None = None,
        columns: npt.NDArray[np.int64] | None = None,
    ) -> Matrix:
        """The matrix with these rows and columns, in this order."""
        values, scales = self.values, self.scales
        if rows is not None:
            values = values[rows]
            scales = None if scales is None else scales[rows]
        if columns is not None:
            values = values[:, columns]
        return Matrix(np.ascontiguousarray(values), scales)

    @property
    def transposed(self) -> Matrix:
        """The matrix [K, M]; of codes only if all rows have the same scale."""
        scales = self.scales
        if scales is not None:
            scales = np.full((self.values.shape[1], 1), scales[0, 0], np.float32)
        return Matrix(self.values.T, scales)


def joined(first: Matrix, second: Matrix) -> Matrix:
    """The rows of both matrices; both are of fp32 numbers, or both of codes."""
    scales = None
    if first.scales is not None and second.scales is not None:
        scales = np.concatenate((first.scales, second.scales))
    return Matrix(np.concatenate((first.values, second.values)), scales)


class StudentFile:
    """A file's settings and tensors; tensors are taken one by one, and all must be taken."""

    def __init__(self, path: Path) -> None:
        """Read a file.

        Raises:
            UsageError: it cannot be read, or is damaged.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        self.path = path
        self._items = {item.name: item for item in _items(path, content)}
        settings = self._items.pop(SETTINGS, None)
        if settings is None or settings.kind != INT8:
            raise UsageError(f"{path}: has no {SETTINGS}")
        try:
            self.settings = settings.data.rstrip(b"\0").decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: {SETTINGS} is not UTF-8") from error

    def __contains__(self, name: str) -> bool:
        """Whether a tensor is present and not yet taken."""
        return name in self._items

    def vector(self, name: str, size: int) -> Floats:
        """Take a vector, stored as [1, size].

        Raises:
            UsageError: it is missing, or has another type, shape or values.
        """
        item = self._taken(name, (1, size))
        if item.kind != FLOAT32:
            raise UsageError(f"{self.path}: {name!r} is not stored as float32")
        return _floats(self.path, item).reshape(size)

    def matrix(self, name: str, inputs: int, outputs: int) -> Matrix:
        """Take a matrix, which the file describes as [inputs, outputs].

        Raises:
            UsageError: see `vector`.
        """
        return self._matrix(name, inputs, outputs).transposed

    def table(self, name: str, entries: int, size: int) -> Matrix:
        """Take an embedding [entries, size].

        Raises:
            UsageError: see `vector`.
        """
        return self._matrix(name, entries, size)

    def numbers(self) -> dict[str, Floats]:
        """Take all tensors in fp32, with the shapes that the file gives; codes times their scales.

        Raises:
            UsageError: see `vector`.
        """
        names = [name for name in self._items if not name.endswith(ACTIVATION)]
        matrices = {name: self._matrix(name, *self._items[name].shape) for name in names}
        return {
            name: (matrix.values if matrix.scales is None else matrix.values * matrix.scales)
            for name, matrix in matrices.items()
        }

    def check_empty(self) -> None:
        """Refuse tensors that were not taken.

        Raises:
            UsageError: there is one.
        """
        rest = [name for name in self._items if not name.endswith(ACTIVATION)]
        if rest:
            raise UsageError(f"{self.path}: the tensor {min(rest)!r} is not part of such a model")

    def _matrix(self, name: str, rows: int, columns: int) -> Matrix:
        item = self._taken(name, (rows, columns))
        if item.kind == FLOAT32:
            return Matrix(_floats(self.path, item))
        if item.kind != INTGEMM8:
            raise UsageError(f"{self.path}: {name!r} is stored neither as float32 nor as intgemm8")
        count = rows * columns
        codes = np.frombuffer(item.data, np.int8, count)
        (multiplier,) = np.frombuffer(item.data, "<f4", 1, count)
        if codes.min() < -_LARGEST_CODE:
            raise UsageError(f"{self.path}: {name!r} has a code of -128")
        if not (np.isfinite(multiplier) and multiplier >= np.finfo(np.float32).tiny):
            raise UsageError(f"{self.path}: {name!r} has the multiplier {multiplier}")
        is_table = TABLE in name
        codes = codes.reshape(rows, columns) if is_table else codes.reshape(columns, rows).T
        return Matrix(codes, np.full((rows, 1), np.float32(1) / multiplier, np.float32))

    def _taken(self, name: str, shape: tuple[int, int]) -> _Item:
        item = self._items.pop(name, None)
        if item is None:
            raise UsageError(f"{self.path}: the tensor {name!r} is missing")
        if item.shape != shape:
            raise UsageError(
                f"{self.path}: {name!r} has shape {list(item.shape)}, {SETTINGS} says {list(shape)}"
            )
        return item


@dataclass(frozen=True)
class _Item:
    name: str
    kind: int
    shape: tuple[int, ...]
    data: bytes


def _floats(path: Path, item: _Item) -> Floats:
    floats = np.frombuffer(item.data, "<f4", math.prod(item.shape)).astype(np.float32)
    if not np.isfinite(floats).all():
        raise UsageError(f"{path}: {item.name!r} has numbers that are not finite")
    return floats.reshape(item.shape)


def _items(path: Path, content: bytes) -> Iterator[_Item]:
    """The items of a file, in order."""
    reader = _Reader(path, content)
    version, count = reader.numbers("<Q", 2)
    if version != _VERSION:
        raise UsageError(f"{path}: is not a binary file of Marian's, or of another version")
    if count > len(content) // _HEADER:
        raise reader.cut_short()
    headers = [reader.numbers("<Q", 4) for _ in range(count)]
    names = [_name(path, reader.taken(length)) for length, *_ in headers]
    if len(set(names)) < len(names):
        raise UsageError(f"{path}: has two tensors of one name")
    shapes = []
    for name, (_, _, dimensions, _) in zip(names, headers, strict=True):
        if dimensions > _MOST_DIMENSIONS:
            raise UsageError(f"{path}: {name!r} has {dimensions} dimensions")
        shape = reader.numbers("<i", dimensions)
        if min(shape, default=1) < 1:
            raise UsageError(f"{path}: {name!r} has shape {list(shape)}")
        shapes.append(tuple(shape))
    (padding,) = reader.numbers("<Q", 1)
    reader.taken(padding)
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        if kind not in _KNOWN_ITEM_BYTES:
            raise UsageError(f"{path}: {name!r} is of the unknown type {kind:#06x}")
        needed = math.prod(shape) * _KNOWN_ITEM_BYTES[kind]
        needed += _MULTIPLIER_BYTES if kind == INTGEMM8 else 0
        if size < needed:
            raise UsageError(f"{path}: {name!r} has {size} bytes, its shape needs {needed}")
        yield _Item(name, kind, shape, reader.taken(size)[:needed])
    reader.check_end()


def _name(path: Path, stored: bytes) -> str:
    name, end, rest = stored.partition(b"\0")
    if not name or not end or rest or not name.isascii():
        raise UsageError(f"{path}: is damaged: the name of a tensor is {stored[:40]!r}")
    return name.decode("ascii")


class _Reader:
    """Takes bytes from the front of a file."""

    def __init__(self, path: Path, content: bytes) -> None:
        self._path, self._content, self._position = path, content, 0

    def taken(self, length: int) -> bytes:
        begin = self._position
        if length > len(self._content) - begin:
            raise self.cut_short()
        self._position += length
        return self._content[begin : begin + length]

    def numbers(self, kind: str, count: int) -> Sequence[int]:
        size = struct.calcsize(kind)
        return [number for (number,) in struct.iter_unpack(kind, self.taken(count * size))]

    def check_end(self) -> None:
        if rest := len(self._content) - self._position:
            raise UsageError(f"{self._path}: has {rest} bytes after its last tensor")

    def cut_short(self) -> UsageError:
        return UsageError(
            f"{self._path}: is cut short or damaged: it has {len(self._content)} bytes, and its "
            "headers name more"
        )
