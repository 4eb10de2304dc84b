"""JSON in which what fits in a line stands in a line, for recorded files."""

from __future__ import annotations

import json
import textwrap
from typing import Any

_COLUMNS = 100


def compact_json(value: Any, indent: str = "") -> str:
    """A value as JSON with sorted keys.

    Args:
        value: what `json.dumps` accepts.
        indent: what stands before its first line.
    """
    line = json.dumps(value, sort_keys=True)
    if len(indent) + len(line) <= _COLUMNS or not isinstance(value, dict | list):
        return line
    inner = indent + " "
    if isinstance(value, list):
        parts = [compact_json(child, inner) for child in value]
        if not any(" " in part for part in parts):
            filled = textwrap.fill(", ".join(parts), _COLUMNS - len(inner))
            parts = filled.replace(",\n", "\n").split("\n")
        return f"[\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}]"
    parts = [f"{json.dumps(name)}: {compact_json(value[name], inner)}" for name in sorted(value)]
    return f"{{\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}}}"
