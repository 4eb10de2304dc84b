"""Parts of the relay's side of the frames that only tests of the engine's process need."""

from __future__ import annotations

import struct

from dragoman_options.frames import Figure, Reading

_U8, _U32, _DOUBLE = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<d")


def unpack_figures(body: bytes) -> list[Figure]:
    """Parse a frame without its header."""
    reading = Reading(body)
    return [_figure(reading) for _ in range(reading.number(_U32))]


def _figure(reading: Reading) -> Figure:
    is_gauge, name, description = bool(reading.number(_U8)), reading.text(), reading.text()
    labels = tuple([(reading.text(), reading.text()) for _ in range(reading.number(_U32))])
    return Figure(is_gauge, name, description, reading.number(_DOUBLE), labels)
