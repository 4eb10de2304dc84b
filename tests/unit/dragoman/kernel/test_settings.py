from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from dragoman.kernel.errors import UsageError
from dragoman.kernel.settings import from_mapping, override, read_json, read_toml


@dataclass(frozen=True)
class Inner:
    size: int = 1


@dataclass(frozen=True)
class Outer:
    name: str
    rate: float = 0.5
    limit: int | None = None
    kind: Literal["a", "b"] = "a"
    words: tuple[str, ...] = ()
    inner: Inner = field(default_factory=Inner)
    sizes: dict[str, int] = field(default_factory=dict)


def test_values_become_fields_of_their_types() -> None:
    values = {
        "name": "x",
        "rate": 2,
        "limit": 3,
        "kind": "b",
        "words": ["p", "q"],
        "inner": {"size": 5},
        "sizes": {"k": 1},
    }
    assert from_mapping(Outer, values, "f") == Outer(
        "x", 2.0, 3, "b", ("p", "q"), Inner(5), {"k": 1}
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "f: the key 'name' is missing"),
        ({"name": "x", "nmae": 1}, "f: unknown key 'nmae'"),
        ({"name": 1}, "f: name is 1: expected str"),
        ({"name": "x", "rate": "fast"}, "f: rate is 'fast': expected float"),
        ({"name": "x", "limit": True}, "f: limit is True: expected int"),
        ({"name": "x", "kind": "c"}, "f: kind is 'c': give one of 'a', 'b'"),
        ({"name": "x", "inner": {"sise": 1}}, "f: inner: unknown key 'sise'"),
        ({"name": "x", "inner": 3}, "f: inner: expected a table"),
        ({"name": "x", "sizes": {"k": "1"}}, "f: sizes.k is '1': expected int"),
        ([], "f: expected a table"),
    ],
)
def test_invalid_settings_are_named(values: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        from_mapping(Outer, values, "f")
    assert message in str(caught.value)


def test_words_override_and_reach_into_tables() -> None:
    settings: dict[str, Any] = {"model": {"heads": 4}}
    override(settings, ["model.heads=8", "model.norm=pre", "data.train=['a', 'b']", "x=1.5"])
    assert settings == {
        "model": {"heads": 8, "norm": "pre"},
        "data": {"train": ["a", "b"]},
        "x": 1.5,
    }


def test_words_reach_into_lists_by_number() -> None:
    settings: dict[str, Any] = {
        "data": {"train": [{"prefix": "a"}, {"prefix": "b"}], "valid": ["c"]}
    }
    override(settings, ["data.train.1.weight=2", "data.valid.0=d"])
    assert settings == {
        "data": {"train": [{"prefix": "a"}, {"prefix": "b", "weight": 2}], "valid": ["d"]}
    }


@pytest.mark.parametrize(
    "word",
    [
        *("model.heads", "=3", "model.heads.more=1"),
        *("train.2=b", "train.1.prefix=b", "train.-1.prefix=b", "train.prefix=b", "train.0.x.y=1"),
    ],
)
def test_invalid_words_are_refused(word: str) -> None:
    settings: dict[str, Any] = {"model": {"heads": 4}, "train": [{"x": 1}]}
    before = copy.deepcopy(settings)
    with pytest.raises(UsageError, match="--set"):
        override(settings, [word])
    assert settings == before


@pytest.mark.parametrize(
    ("read", "notation", "deep"),
    [(read_toml, "TOML", "a = " + "[" * 100_000), (read_json, "JSON", "[" * 100_000)],
)
def test_broken_files_are_named(
    tmp_path: Path, read: Callable[[Path], Any], notation: str, deep: str
) -> None:
    path = tmp_path / "a.txt"
    with pytest.raises(UsageError, match=r"a\.txt: cannot be read"):
        read(path)
    for content in (b"a = ", b'a = "\xff"', b'"\xff"'):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=rf"a\.txt: not valid {notation}"):
            read(path)
    path.write_text(deep, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"a\.txt: not valid {notation}: nested too deeply"):
        read(path)
