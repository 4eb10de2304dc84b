"""Memory of a device, as the decoding sees it; nothing else here knows which device it is."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8}
"""By the names of types in manifests."""


@dataclass(frozen=True)
class DeviceTensor:
    """An array in a device's memory; whoever holds its memory keeps it."""

    address: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes that it takes."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


class Block(Protocol):
    """Memory that is given back when nobody holds it any more."""

    @property
    def address(self) -> int:
        """Where it begins."""
        ...

    @property
    def nbytes(self) -> int:
        """How long it is."""
        ...


class Memory(Protocol):
    """A device's memory, in which things happen in the order in which they are asked for."""

    def allocate(self, nbytes: int) -> Block:
        """New memory, all zero.

        Raises:
            OutOfMemory: there is not so much.
        """
        ...

    def upload(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy an array to the device."""
        ...

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Fill an array from the device, after all that was asked for before."""
        ...

    def copy(self, source: Lines, target: Lines, count: int, nbytes: int) -> None:
        """Copy the first bytes of each of so many lines, which must not overlap."""
        ...

    def synchronize(self) -> None:
        """Wait for all that was asked for."""


@dataclass(frozen=True)
class Lines:
    """Where lines lie that follow each other at a distance, in bytes."""

    address: int
    pitch: int


class HostMemory:
    """The machine's own memory, for a runtime on the CPU."""

    def allocate(self, nbytes: int) -> Block:
        """See `Memory`."""
        return _HostBlock(np.zeros(nbytes, np.uint8))

    def upload(self, array: npt.NDArray[Any], address: int) -> None:
        """See `Memory`."""
        ctypes.memmove(address, np.ascontiguousarray(array).ctypes.data, array.nbytes)

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """See `Memory`."""
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def copy(self, source: Lines, target: Lines, count: int, nbytes: int) -> None:
        """See `Memory`."""
        for line in range(count):
            ctypes.memmove(
                target.address + line * target.pitch, source.address + line * source.pitch, nbytes
            )

    def synchronize(self) -> None:
        """See `Memory`: nothing waits."""


class _HostBlock:
    def __init__(self, content: npt.NDArray[np.uint8]) -> None:
        self._content = content
        self.address = int(content.ctypes.data)
        self.nbytes = content.nbytes
