"""Protocols of a device's memory; the decoding does not depend on the kind of device."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8}
"""Bytes of an element, by the names of types in manifests."""


@dataclass(frozen=True)
class DeviceTensor:
    """An array in a device's memory; it does not own the memory."""

    address: int
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]


class Block(Protocol):
    """A block of memory, freed when there are no more references to it."""

    @property
    def address(self) -> int:
        """Start address."""
        ...

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        ...


class Memory(Protocol):
    """A device's memory; operations are executed in the order of the calls."""

    def allocate(self, nbytes: int) -> Block:
        """Returns new memory, filled with zeros.

        Raises:
            OutOfMemory: there is not enough memory.
        """
        ...

    def upload(self, array: npt.NDArray[Any], address: int) -> None:
        """Copy an array to the device."""
        ...

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """Fill an array from the device, after all earlier operations."""
        ...

    def copy(self, source: Lines, target: Lines, count: int, nbytes: int) -> None:
        """Copy the first bytes of each line; source and target must not overlap."""
        ...

    def synchronize(self) -> None:
        """Wait for all operations."""


@dataclass(frozen=True)
class Lines:
    """Lines of memory: the address of the first, and their distance in bytes."""

    address: int
    pitch: int


class HostMemory:
    """Host memory, for a runtime on the CPU."""

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
        """See `Memory`; does nothing, because operations are synchronous."""


class _HostBlock:
    def __init__(self, content: npt.NDArray[np.uint8]) -> None:
        self._content = content
        self.address = int(content.ctypes.data)
        self.nbytes = content.nbytes
