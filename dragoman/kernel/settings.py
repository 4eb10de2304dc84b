"""Strict configuration: frozen dataclasses from mappings, TOML files and `key=value` words."""

from __future__ import annotations

import dataclasses
import functools
import json
import tomllib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dragoman.kernel.errors import UsageError

T = TypeVar("T")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        UsageError: the file is missing, unreadable or not TOML.
    """
    document: dict[str, Any] = _parsed(path, "TOML", tomllib.loads)
    return document


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        UsageError: the file is missing, unreadable or not JSON.
    """
    return _parsed(path, "JSON", json.loads)


def _parsed(path: Path, what: str, parse: Callable[[str], Any]) -> Any:
    """Read and parse a file."""
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # of either format, and of UTF-8
        raise UsageError(f"{path}: not valid {what}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{path}: not valid {what}: nested too deeply") from error


def override(settings: dict[str, Any], words: Sequence[str]) -> None:
    """Write words such as `model.dropout=0.2` into nested settings, in place.

    Entries of a list are named by index: `data.train.0.weight=2` is for the first corpus. A value
    is parsed as TOML; other values are strings.

    Raises:
        UsageError: a word without `=`, a name with a part that is neither table nor list, or an
            index outside a list.
    """
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"--set {word!r}: write it as name=value, such as model.dropout=0.2")
        *tables, last = name.strip().split(".")
        table: Any = settings
        for part in tables:
            if isinstance(table, dict):
                table.setdefault(part, {})
            table = table[_key(table, part, word)]
            if not isinstance(table, dict | list):
                raise UsageError(f"--set {word!r}: {part!r} is a value, not a table")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text
        table[_key(table, last, word)] = value


def _key(table: dict[str, Any] | list[Any], part: str, word: str) -> str | int:
    """Returns the key of a table, or the index of a list."""
    if isinstance(table, dict):
        return part
    if part.isdecimal() and int(part) < len(table):
        return int(part)
    raise UsageError(f"--set {word!r}: {part!r} is not an index, from 0, of a list of {len(table)}")


def from_mapping(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Make a dataclass from a mapping, refusing unknown keys.

    Args:
        kind: a dataclass whose fields are scalars, optional scalars, literals, tuples, mappings or
            other dataclasses.
        values: values of the fields; missing fields take their defaults.
        where: the file or table to name in errors.

    Raises:
        UsageError: an unknown or missing key, or a value of the wrong type, by name.
    """
    if not isinstance(values, Mapping):
        raise UsageError(f"{where}: expected a table, got {values!r}")
    assert dataclasses.is_dataclass(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(fields)}")
    for name, field in fields.items():
        no_default = field.default is dataclasses.MISSING
        if name not in values and no_default and field.default_factory is dataclasses.MISSING:
            raise UsageError(f"{where}: the key {name!r} is missing")
    hints = _type_hints(kind)
    converted = {
        name: _convert(hints[name], value, f"{where}: {name}") for name, value in values.items()
    }
    return kind(**converted)


@functools.cache
def _type_hints(kind: type) -> dict[str, Any]:
    """The types of a dataclass's fields, cached because this is slow."""
    return typing.get_type_hints(kind)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint):
        return from_mapping(typing.cast("type[Any]", hint), value, where)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is typing.Literal:
        if value in arguments:
            return value
        raise UsageError(f"{where} is {value!r}: give one of {', '.join(map(repr, arguments))}")
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_convert(arguments[0], item, where) for item in value)
    if origin is dict and isinstance(value, Mapping):
        return {key: _convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(hint, type) and type(value) is hint):
        return value
    name = getattr(hint, "__name__", None) if origin is None else str(hint)
    raise UsageError(f"{where} is {value!r}: expected {name or hint}")
