from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from lab.gpu import packing


def fat_binary(entries: list[tuple[int, bytes]]) -> bytes:
    body = b"".join(
        struct.pack("<HHIQ", 2, 1, 64, len(code)).ljust(28, b"\1")
        + struct.pack("<I", architecture).ljust(36, b"\2")
        + code
        for architecture, code in entries
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


@pytest.mark.parametrize("seed", range(5))
def test_only_the_code_of_other_architectures_is_zeroed(seed: int, tmp_path: Path) -> None:
    generator = random.Random(seed)
    library, expected = bytearray(generator.randbytes(100)), bytearray()
    expected += library
    for _ in range(3):
        entries = [
            (architecture, generator.randbytes(8 * generator.randint(1, 9)))
            for architecture in generator.sample([75, 80, 90, 120], k=3)
        ]
        other = generator.randbytes(24) + struct.pack("<I", 0xBA55ED50) + generator.randbytes(20)
        library += fat_binary(entries) + other
        zeroed = [(number, code if number == 90 else bytes(len(code))) for number, code in entries]
        expected += fat_binary(zeroed) + other
    path = tmp_path / "library.so"
    path.write_bytes(library)
    kept, dropped = packing.zero_other_architectures(path, 90)
    assert path.read_bytes() == expected
    assert kept + dropped > 0


def test_pieces_join_and_sizes_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = random.Random(0).randbytes(2500)
    (tmp_path / "model.tar").write_bytes(data)
    pieces = packing.split(tmp_path / "model.tar", tmp_path, 1000)
    assert [path.name for path in pieces] == ["model.tar.0", "model.tar.1", "model.tar.2"]
    assert b"".join(path.read_bytes() for path in pieces) == data
    assert packing.check_sizes(pieces, 1000)
    assert not packing.check_sizes(pieces, 999)
    assert "model.tar.1: over" in capsys.readouterr().out
