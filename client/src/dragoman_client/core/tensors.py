"""Conversion of a request's options and texts to input tensors."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman_options.client_frames import TEXTS
from dragoman_options.frames import DataType, Tensor
from dragoman_options.option import encode
from dragoman_options.table import OPTIONS, ShortItems, short_items

Values = Sequence[Any]
"""The elements of a tensor of shape [1, N]: numbers, bools, or texts as UTF-8 bytes."""


def input_tensor(name: str, values: Values, *, is_flat: bool = False) -> Tensor:
    """Returns an input in Triton's representation, of shape [1, N], or [N] if it is flat."""
    datatype = DataType.BYTES if name in TEXTS else DataType[OPTIONS[name].datatype]
    shape = (len(values),) if is_flat else (1, len(values))
    return Tensor.of(name, datatype, shape, values)


def option_values(options: Mapping[str, Any]) -> dict[str, Values]:
    """Returns the elements of the options' input tensors by name.

    Args:
        options: options by name, as `dragoman_options.table.check` returns them.
    """
    if (short := short_items(options)) is not None:
        return dict(_short_values(short))
    return {name: _values(name, value) for name, value in options.items()}


@functools.lru_cache(maxsize=256)
def _short_values(options: ShortItems) -> dict[str, Values]:
    """The values of short options, which many requests share."""
    return {name: _values(name, value) for name, _, value in options}


def text_values(texts: Sequence[str], what: str = "text", first_index: int = 0) -> list[bytes]:
    """Returns texts in UTF-8.

    Args:
        texts: N texts.
        what: what to call a text in messages.
        first_index: index of the first text among all texts of the caller, for messages.

    Raises:
        TypeError: a text is not a `str`.
        ValueError: a text cannot be encoded in UTF-8.
    """
    return [_encoded(text, what, first_index + i) for i, text in enumerate(texts)]


def _values(name: str, value: Any) -> Values:
    option = OPTIONS[name]
    elements = option.elements(value)
    if option.datatype == "BYTES":
        return tuple(text.encode("utf-8") for text in elements)
    return tuple(elements)


def _encoded(text: str, what: str, index: int) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{what} {index} must be str, got {type(text).__name__}")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return encode(text, f"{what} {index}")  # raises
