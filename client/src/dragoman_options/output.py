"""Definition of an output of an answer: its names, its codec, and when it is sent."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, Protocol, Self, get_type_hints

from dragoman_options.option import Datatype

TRANSLATE: Final = "translate"
STREAM: Final = "translate_stream"
SCORE: Final = "score"
"""Names of Triton's models that take options."""
TRANSLATING: Final = (TRANSLATE, STREAM)
Join = Literal["first", "union"]
"""How a text's value follows from those of its sentences: `union` is of names."""


class Value(Protocol):
    """A value with a shape of its own; `str` is its element in a tensor."""

    @classmethod
    def parse(cls, answer: str, /) -> Self:
        """Returns the value of an element.

        Raises:
            ValueError: the element does not have its form.
        """

    def as_json(self) -> Any:
        """Returns a value for JSON."""


@dataclass(frozen=True)
class Codec:
    """Converts an output between its value, its element in a tensor, and JSON.

    Attributes:
        form: form of the element, in words; empty: plain.
        datatype: Triton's data type of the tensor.
        json_type: type of the value for JSON.
        parse: returns the value of an element: a text of `BYTES`, or a number. The second argument
            has the options of the request. Raises `ValueError` if the element is malformed.
        as_json: returns a value for JSON.
        empty: element of a translation that lacks the output.
    """

    form: str
    datatype: Datatype
    json_type: Any
    parse: Callable[[Any, Mapping[str, Any]], Any] = lambda element, _: element
    as_json: Callable[[Any], Any] = lambda value: value
    empty: Any = ""

    @classmethod
    def of(cls, kind: type[Value]) -> Self:
        """Returns the codec of a class of values."""

        def parse(text: str, _options: Mapping[str, Any]) -> Value:
            return kind.parse(text)

        return cls("JSON", "BYTES", kind, parse, kind.as_json)

    def element(self, value: Any) -> Any:
        """Returns the element of a value or of its JSON: a text, or a number."""
        if value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, tuple | list):
            return ",".join(value)
        return json.dumps(value) if isinstance(value, dict) else str(value)

    def elements(self, values: Sequence[Any]) -> list[Any]:
        """Returns the elements of a tensor; None stands for no value."""
        return [self.empty if value is None else self.element(value) for value in values]


TEXT = Codec("", "BYTES", str)
NAME = Codec("", "BYTES", str, lambda text, _: text or None)
"""A text that is never empty."""
NAMES = Codec(
    "comma-separated",
    "BYTES",
    list[str],
    lambda text, _: tuple(filter(None, text.split(","))),
    list,
)
COUNT = Codec("", "INT32", int, lambda number, _: int(number), empty=0)
NUMBER = Codec("", "FP32", float, lambda number, _: float(number), empty=0.0)


@dataclass(frozen=True)
class Output:
    """An output of the models, in the annotation of its field of `Translation`.

    Attributes:
        codec: converts its values.
        help: its content, in one line.
        models: models that have it.
        always: models that always send it.
        if_any: whether an answer has it if any of its translations has a value. An output that is
            neither this nor in `always` is sent if an option requests it.
        detected: whether a source language of `auto` requests it.
        in_api: whether the gateway's own API sends it even if it is empty.
        only_with: name of an earlier output without which files have no value of it.
        join: how the gateway joins its values for sentences; None: a text for which it is requested
            is not split.
        name: name of its tensor; empty: that of its field.
        line: name in files; empty: that of its field.
        field: name of its field in `Translation` and in JSON.
    """

    codec: Codec
    help: str
    _: KW_ONLY
    models: tuple[str, ...] = TRANSLATING
    always: tuple[str, ...] = ()
    if_any: bool = False
    detected: bool = False
    in_api: bool = False
    only_with: str = ""
    join: Join | None = None
    name: str = ""
    line: str = ""
    field: str = ""

    def joined(self, values: Sequence[Any]) -> Any:
        """Returns the value for a text from those for its sentences."""
        if self.join == "union":
            return tuple(sorted({name for names in values for name in names}))
        return values[0]


def declared_outputs(kind: type) -> dict[str, Output]:
    """Returns the outputs that the fields of a dataclass declare, by the names of their tensors."""
    hints = get_type_hints(kind, include_extras=True)
    found = {}
    for field in dataclasses.fields(kind):
        for output in getattr(hints[field.name], "__metadata__", ()):
            name, line = output.name or field.name, output.line or field.name
            found[name] = dataclasses.replace(output, name=name, line=line, field=field.name)
    return found
