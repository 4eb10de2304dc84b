"""Conversion of a request's options and texts to input tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from dragoman_options.option import encode
from dragoman_options.output import Datatype
from dragoman_options.table import OPTIONS, ShortItems, short_items

Array = npt.NDArray[Any]

TYPES: Mapping[Datatype, type] = {
    "BOOL": np.bool_,
    "BYTES": np.object_,
    "FP32": np.float32,
    "INT32": np.int32,
    "INT64": np.int64,
}
"""NumPy's types by Triton's."""


def option_tensors(options: Mapping[str, Any]) -> dict[str, Array]:
    """Returns the options' input tensors by name, each of shape [1, values].

    Args:
        options: options by name, as `dragoman_options.table.check` returns them.
    """
    if (short := short_items(options)) is not None:
        return dict(_short_tensors(short))
    return {name: _tensor(name, value) for name, value in options.items()}


@functools.lru_cache(maxsize=256)
def _short_tensors(options: ShortItems) -> dict[str, Array]:
    """The tensors of options with short values, which many requests share and nobody changes."""
    tensors = {name: _tensor(name, value) for name, _, value in options}
    for array in tensors.values():
        array.setflags(write=False)
    return tensors


def text_tensor(texts: Sequence[str], what: str = "text", first_index: int = 0) -> Array:
    """Returns texts as an object tensor [1, N] of UTF-8 bytes.

    Args:
        texts: N texts.
        what: what to call a text in messages.
        first_index: index of the first text among all texts of the caller, for messages.

    Raises:
        TypeError: a text is not a `str`.
        ValueError: a text cannot be encoded in UTF-8.
    """
    encoded = [_encoded(text, f"{what} {first_index + i}") for i, text in enumerate(texts)]
    return np.array([encoded], dtype=np.object_)


def _tensor(name: str, value: Any) -> Array:
    option = OPTIONS[name]
    elements = option.elements(value)
    if option.datatype == "BYTES":
        elements = [text.encode("utf-8") for text in elements]
    return np.array([elements], TYPES[option.datatype])


def _encoded(text: str, what: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{what} must be str, got {type(text).__name__}")
    return encode(text, what)
