"""Compares structures in Python with the same structures in C, field by field."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Structure = type[ctypes.Structure] | np.dtype[Any]
Layout = dict[str, tuple[int, int]]
"""Offset and size in bytes of each field by its name, and of the whole by an empty name."""


def layout_of(structure: Structure) -> Layout:
    """Returns the layout of a structure in Python."""
    if isinstance(structure, np.dtype):
        fields = {
            name: (field[1], field[0].itemsize) for name, field in (structure.fields or {}).items()
        }
        return {**fields, "": (0, structure.itemsize)}
    names = [str(field[0]) for field in structure._fields_]
    fields = {
        name: (getattr(structure, name).offset, getattr(structure, name).size) for name in names
    }
    return {**fields, "": (0, ctypes.sizeof(structure))}


def compiled_layouts(
    structures: Mapping[str, Structure], headers: Sequence[Path], folder: Path
) -> dict[str, Layout]:
    """Returns the layouts of the same structures in C, by their names there.

    Args:
        structures: structures in Python, by the names of their types in C.
        headers: headers that define them.
        folder: folder for a program.
    """
    fields = [(name, field) for name in structures for field in layout_of(structures[name])]
    lines = [
        f'printf("%zu %zu\\n", offsetof({name}, {field}), sizeof(({name} *)0)->{field});'
        if field
        else f'printf("0 %zu\\n", sizeof({name}));'
        for name, field in fields
    ]
    includes = [f'#include "{path}"' for path in headers]
    source, program = folder / "layouts.c", folder / "layouts"
    source.write_text(
        "\n".join(
            [
                "#include <stddef.h>",
                "#include <stdio.h>",
                *includes,
                "int main(void) {",
                *lines,
                "}",
            ]
        )
    )
    include = {f"-I{path.parent}" for path in headers}
    subprocess.run(["cc", "-std=gnu11", *include, source, "-o", program], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    layouts: dict[str, Layout] = {name: {} for name in structures}
    for (name, field), line in zip(fields, output.splitlines(), strict=True):
        offset, size = map(int, line.split())
        layouts[name][field] = (offset, size)
    return layouts
