"""Definition of an output of an answer: its names, its codec, and when it is sent."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import UnionType
from typing import Any, Final, Literal, get_args, get_type_hints

Datatype = Literal["BOOL", "BYTES", "FP32", "INT32", "INT64"]
"""Triton's data types."""
TRANSLATE: Final = "translate"
STREAM: Final = "translate_stream"
SCORE: Final = "score"
"""Names of Triton's models that take options."""
TRANSLATING: Final = (TRANSLATE, STREAM)
Join = Literal["first", "union", "sum"]
"""How a text's value follows from those of its sentences: `union` is of names."""


class JsonValue:
    """Base of values that are dataclasses and, in tensors, JSON of their fields."""

    def as_json(self) -> dict[str, Any]:
        """Returns a value for JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        """Returns the JSON."""
        return json.dumps(self.as_json(), ensure_ascii=False)


@dataclass(frozen=True)
class Codec:
    """Converts an output between its value, its element in a tensor, and JSON.

    Attributes:
        datatype: Triton's data type of the tensor.
        json_type: type of the value for JSON.
        parse: returns the value of an element: a text of `BYTES`, or a number. The second argument
            has the options of the request. Raises `ValueError` if the element is malformed.
        as_json: returns a value for JSON.
        empty: element of a translation that lacks the output.
        form: form of the element, in words; empty: that of the value.
    """

    datatype: Datatype
    json_type: Any
    parse: Callable[[Any, Mapping[str, Any]], Any] = lambda element, _: element
    as_json: Callable[[Any], Any] = lambda value: value
    empty: Any = ""
    form: str = ""

    def element(self, value: Any) -> Any:
        """Returns the element of a value or of its JSON: a text, or a number."""
        if value is None or isinstance(value, (str, int, float)):
            return value
        if isinstance(value, tuple | list):
            return ",".join(value)
        return json.dumps(value) if isinstance(value, dict) else str(value)

    def elements(self, values: Sequence[Any]) -> list[Any]:
        """Returns the elements of a tensor; None stands for no value."""
        if not self.form and None not in values:
            return list(values)
        elements = map(self.element, values) if self.form else values
        return [self.empty if element is None else element for element in elements]


_TEXT = Codec("BYTES", str)
_NAME = Codec("BYTES", str, lambda text, _: text or None)
"""A text that is never empty."""
_PLAIN = {
    int: Codec("INT32", int, lambda number, _: int(number), empty=0),
    float: Codec("FP32", float, lambda number, _: float(number), empty=0.0),
    tuple[str, ...]: Codec(
        datatype="BYTES",
        json_type=list[str],
        parse=lambda text, _: tuple(filter(None, text.split(","))),
        as_json=list,
        form="comma-separated",
    ),
}
"""Codecs by types of values other than texts."""


@dataclass(frozen=True)
class Output:
    """An output of the models, in the annotation of its field of `Translation`.

    Attributes:
        help: its content, in one line.
        models: models that have it; empty: those of its class.
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
        codec: converts its values; a class with `parse` and `as_json` needs none here.
        field: name of its field in `Translation` and in JSON.
    """

    help: str
    _: KW_ONLY
    models: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    if_any: bool = False
    detected: bool = False
    in_api: bool = False
    only_with: str = ""
    join: Join | None = None
    name: str = ""
    line: str = ""
    codec: Codec = _TEXT
    field: str = ""

    def joined(self, values: Sequence[Any]) -> Any:
        """Returns the value for a text from those for its sentences."""
        if self.join == "union":
            return tuple(sorted({name for names in values for name in names}))
        if self.join == "sum":
            return None if None in values else sum(values)
        return values[0]


def declared_outputs(kind: type, scored: type) -> dict[str, Output]:
    """Returns the outputs that the fields of a class declare, by the names of their tensors.

    Args:
        kind: class of translations.
        scored: base class of it, with the outputs that the model `score` has too.
    """
    hints = get_type_hints(kind, include_extras=True)
    of_score = {field.name for field in dataclasses.fields(scored)}
    outputs = {}
    for name, hint in hints.items():
        for output in getattr(hint, "__metadata__", ()):
            own = dataclasses.replace(
                output,
                name=output.name or name,
                line=output.line or name,
                field=name,
                models=output.models or TRANSLATING + (SCORE,) * (name in of_score),
                codec=_codec(output, hint.__origin__),
            )
            outputs[own.name] = own
    return outputs


def _codec(output: Output, hint: Any) -> Codec:
    if output.codec is not _TEXT:
        return output.codec
    kind, *_ = get_args(hint) if isinstance(hint, UnionType) else [hint]
    if kind is str:
        return _TEXT if output.always else _NAME
    if kind in _PLAIN:
        return _PLAIN[kind]
    return Codec("BYTES", kind, lambda text, _: kind.parse(text), kind.as_json, form="JSON")
