"""Fields by name and type, of JSON and of forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.web.fields import Fields


@pytest.mark.parametrize(("value", "expected"), [("a", "a"), ("", ""), (None, None)])
def test_text(value: Any, expected: Any) -> None:
    assert Fields({"a": value}).text("a") == expected


@pytest.mark.parametrize(
    "read",
    [Fields.text, Fields.texts, Fields.whole_number, Fields.switch, Fields.file, Fields.sections],
)
def test_absent_fields_are_not_given(read: Callable[[Fields, str], Any]) -> None:
    assert read(Fields({}), "a") is None
    assert Fields({}).listed("a") == []


def test_texts_and_lists() -> None:
    assert Fields({"a": "x,y"}).texts("a") == ["x,y"]
    assert Fields({"a": ["x", "y"]}).texts("a") == ["x", "y"]
    assert Fields({"a": "x, y,,"}).listed("a") == ["x", "y"]
    assert Fields({"a": ["x,y", "z"]}).listed("a") == ["x", "y", "z"]


@pytest.mark.parametrize(("value", "expected"), [(3, 3), ("3", 3), (" -1 ", -1)])
def test_whole_numbers(value: Any, expected: int) -> None:
    assert Fields({"a": value}).whole_number("a") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("1", True), (0, False), ("False", False), ("true", True)],
)
def test_switches(value: Any, expected: bool) -> None:
    assert Fields({"a": value}).switch("a") is expected


def test_sections_of_json_and_of_forms() -> None:
    of_json = Fields({"a": [{"b": 1}, {"b": 2}]}).sections("a")
    of_form = Fields({"a[0].b": 1, "a[1].b": 2, "a[1].c": 3, "ab": 4}).sections("a")
    assert of_json is not None
    assert of_form is not None
    assert (
        [section.get("b") for section in of_json]
        == [section.get("b") for section in of_form]
        == [1, 2]
    )
    assert of_form[1].get("c") == 3


_READERS: dict[str, Callable[[Fields, str], Any]] = {
    "text": Fields.text,
    "texts": Fields.texts,
    "whole_number": Fields.whole_number,
    "switch": Fields.switch,
    "file": Fields.file,
    "sections": Fields.sections,
}
_WRONG: dict[str, tuple[Any, ...]] = {
    "text": (1, True, ["a"], {}, 1.5),
    "texts": (1, ["a", None], [["a"]], {}),
    "whole_number": ("x", "", 1.5, True, "9" * 30, ["1", "2"], "1.0"),
    "switch": ("yes", 2, ["1", "0"], 1.0),
    "file": ("a", 1, []),
    "sections": ("a", {}, [1], [{}, "a"]),
}


@pytest.mark.parametrize(
    ("reader", "value"), [(name, value) for name, values in _WRONG.items() for value in values]
)
def test_values_of_the_wrong_type_are_named(reader: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^name: "):
        _READERS[reader](Fields({"name": value}), "name")
