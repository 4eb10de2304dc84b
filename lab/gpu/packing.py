"""Packs what a rented GPU needs, so that each upload stays below a limit, and unpacks it there.

Knows nothing of training: encoded text, CUDA libraries and files are packed by their formats.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

_FAT_BINARY = struct.Struct("<IHHQ")
"""Magic, version, bytes of this header, bytes of the entries."""
_FAT_BINARY_MAGIC = 0xBA55ED50
_ENTRY = struct.Struct("<HHIQ")
"""Kind, version, bytes of the entry's header, bytes of its payload."""
_ARCHITECTURE_OFFSET = 28
_ENDS, LENGTHS = "ends.bin", "lengths.bin"


def zero_other_architectures(library: Path, architecture: int) -> tuple[int, int]:
    """Overwrite the machine code of other GPUs with zeros, in place, so that it compresses.

    Args:
        library: a shared library with CUDA code.
        architecture: compute capability to keep, such as 90.

    Returns:
        Bytes of machine code that were kept, and that were overwritten.
    """
    kept = zeroed = 0
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for begin, size, code_architecture in _machine_code(data):
            if code_architecture == architecture:
                kept += size
            else:
                data[begin : begin + size] = bytes(size)
                zeroed += size
    return kept, zeroed


def _machine_code(data: mmap.mmap) -> Iterator[tuple[int, int, int]]:
    """Begin, size and architecture of each payload in a library's fat binaries."""
    magic = struct.pack("<I", _FAT_BINARY_MAGIC)
    at = data.find(magic)
    while at >= 0:
        _, _, header_bytes, size = _FAT_BINARY.unpack_from(data, at)
        entry, end = at + header_bytes, at + header_bytes + size
        if header_bytes != _FAT_BINARY.size or end > len(data):
            at = data.find(magic, at + 4)  # these four bytes by coincidence
            continue
        while entry + _ARCHITECTURE_OFFSET + 4 <= end:
            _, _, entry_bytes, payload = _ENTRY.unpack_from(data, entry)
            if not entry_bytes or entry + entry_bytes + payload > end:
                break
            (architecture,) = struct.unpack_from("<I", data, entry + _ARCHITECTURE_OFFSET)
            yield entry + entry_bytes, payload, architecture
            entry += entry_bytes + payload
        at = data.find(magic, end)


def shrink_ends(encoded: Path) -> None:
    """Replace the ends of an encoded text's sides by their lengths, which compress better."""
    ends = np.fromfile(encoded / _ENDS, np.int64)
    np.diff(ends).astype(np.uint16).tofile(encoded / LENGTHS)
    (encoded / _ENDS).unlink()


def restore_ends(encoded: Path) -> None:
    """Undo `shrink_ends`."""
    lengths = np.fromfile(encoded / LENGTHS, np.uint16)
    np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).tofile(encoded / _ENDS)
    (encoded / LENGTHS).unlink()


def split(file: Path, folder: Path, piece_bytes: int) -> list[Path]:
    """Write a file in pieces `NAME.0`, `NAME.1`, ...; the last appears last."""
    pieces: list[Path] = []
    with file.open("rb") as data:
        while piece := data.read(piece_bytes):
            path = folder / f"{file.name}.{len(pieces)}"
            path.write_bytes(piece)
            pieces.append(path)
    return pieces


def check_sizes(paths: Sequence[Path], limit_bytes: int) -> bool:
    """Print the sizes of files; returns whether all are within the limit."""
    sizes = {path: path.stat().st_size for path in paths}
    for path, size in sizes.items():
        over = f": over {limit_bytes / 2**20:.0f} MiB" if size > limit_bytes else ""
        print(f"{size / 2**20:8.1f} MiB  {path.name}{over}")
    return max(sizes.values()) <= limit_bytes
