"""Parses request bodies: JSON objects with the fields of a struct, and options of the table."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Generic, TypeVar

import msgspec
from dragoman_options.option import Limits, Option, brief
from dragoman_options.table import OPTIONS, check

from dragoman_gateway.core.errors import InvalidInput, WrongMediaType, client_errors
from dragoman_gateway.texts.translations import CheckedOptions
from dragoman_gateway.web.requests import JSON, GatewayRequest

_Shape = TypeVar("_Shape", bound=msgspec.Struct)
_Value = TypeVar("_Value")
_NO_LIMITS: Limits = {}
_MOST_NAME = 40
"""Part of an unknown name that is compared with known ones, which takes time in the event loop."""
_NONE: frozenset[str] = frozenset()
_OPTIONS = frozenset(OPTIONS)
_MISSING = re.compile("Object missing required field `([^`]++)`")
_WRONG = re.compile("Expected `([^`]++)`, got `([^`]++)`")
_TYPE = re.compile("`([a-z]+)`")
_HALF = re.compile(rb"\\u[dD][89abAB][\da-fA-F]{2}(?!\\u)")
"""Half of a character, which msgspec takes for the end of the body."""
_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "null",
    "object": "an object",
    "str": "a text",
}
"""Descriptions of JSON types by msgspec's names."""
_OTHER_NAMES = {
    "q": "text",
    "source": "source_language",
    "source_lang": "source_language",
    "target": "target_language",
    "target_lang": "target_language",
}
"""Our names of fields, by their names in other services."""
_SWITCHES = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Body(Generic[_Shape]):
    """A parsed body.

    Attributes:
        fields: the endpoint's own fields.
        options: checked options of the table, without those equal to the default.
    """

    fields: _Shape
    options: CheckedOptions


def read_body(
    request: GatewayRequest,
    shape: type[_Shape],
    model: str | None = None,
    limits: Limits = _NO_LIMITS,
) -> Body[_Shape]:
    """Parse a JSON body.

    Args:
        request: the request with its body.
        shape: type of the endpoint's own fields.
        model: model whose options the object may have; None: no options.
        limits: limits of the model; missing ones are not checked.

    Raises:
        InvalidInput: the body is not valid; the message names the field, the value and the fix.
        WrongMediaType: the content type is not JSON.
    """
    if request.media_type != JSON:
        sent = repr(request.media_type[:80]) if request.media_type else "none"
        raise WrongMediaType(f"the content type is {sent}: send the header 'Content-Type: {JSON}'")
    if not request.content.strip():
        raise InvalidInput('the body is empty: send a JSON object such as {"text": "Hello."}')
    return read_object(decoded_object(request.content), shape, model, limits)


def decoded_object(content: bytes, name: str = "body") -> dict[str, Any]:
    """Parse a JSON object.

    Args:
        content: the object, in UTF-8.
        name: what it is, for messages.

    Raises:
        InvalidInput: it is not a JSON object.
    """
    try:
        given = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = r"an invalid \u escape" if _HALF.search(content) else str(error)
        raise InvalidInput(f"the {name} is not valid JSON in UTF-8: {fault}") from error
    if not isinstance(given, dict):
        raise InvalidInput(f"the {name} is {brief(given)}: send a JSON object")
    return given


def read_object(
    given: Mapping[str, Any],
    shape: type[_Shape],
    model: str | None = None,
    limits: Limits = _NO_LIMITS,
) -> Body[_Shape]:
    """Split an object into the endpoint's fields and the options; see `read_body`."""
    own = _names(shape)
    options = _NONE if model is None else _OPTIONS  # `check` refuses those of other models
    fields, chosen = {}, {}
    for name, value in given.items():
        if name in own:
            if value is not None:
                fields[name] = value
        elif name in options:
            chosen[name] = value
        else:
            raise InvalidInput(_unknown(name, own | options, model), "unknown_option")
    body = Body(as_shape(fields, shape), CheckedOptions())
    if model is not None:
        with client_errors():
            body.options.update(check(chosen, model, limits))
    return body


@functools.cache
def _names(shape: type[msgspec.Struct]) -> frozenset[str]:
    """Returns the names of a struct's fields."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(shape))


def as_shape(given: Any, shape: type[_Value]) -> _Value:
    """Convert JSON values to a struct.

    Raises:
        InvalidInput: the values do not fit; the message names the field.
    """
    try:
        return msgspec.convert(given, shape)
    except msgspec.ValidationError as error:
        raise InvalidInput(_in_words(str(error))) from error


def options_of_form(given: Mapping[str, str]) -> dict[str, Any]:
    """Convert the fields of a form, whose values are texts, to options.

    Raises:
        InvalidInput: a value does not have the option's type.
    """
    return {
        name: _of_form(OPTIONS[name], value) if name in OPTIONS else value
        for name, value in given.items()
    }


def read_switch(name: str, value: str) -> bool:
    """Returns the value of a field of a form that is true or false.

    Raises:
        InvalidInput: it is neither.
    """
    if value.lower() not in _SWITCHES:
        raise InvalidInput(f"{name} is {brief(value)}: give true or false", option=name)
    return _SWITCHES[value.lower()]


def _of_form(option: Option, value: str) -> Any:
    if option.kind == "switch":
        return read_switch(option.name, value)
    if option.kind in ("whole number", "number"):
        try:
            return (int if option.kind == "whole number" else float)(value)
        except ValueError:
            message = f"{option.name} is {brief(value)}: give a number"
            raise InvalidInput(message, option=option.name) from None
    if option.kind == "texts" and value.startswith("["):
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return value
    return value


def _in_words(message: str) -> str:
    """Rewrites a message of msgspec for people who do not know Python."""
    fault, _, path = message.partition(" - at ")
    name = path.strip("`").removeprefix("$").removeprefix(".")
    if missing := _MISSING.fullmatch(fault):
        return f"{name}.{missing[1]} is missing" if name else f"{missing[1]} is missing"
    if wrong := _WRONG.fullmatch(fault):
        expected = " or ".join(_TYPES.get(kind, kind) for kind in wrong[1].split(" | "))
        if wrong[2] == "array" and expected == "a text":
            expected = "one text"
        return f"{name or 'the value'} is {_TYPES.get(wrong[2], wrong[2])}: give {expected}"
    fault = _TYPE.sub(lambda match: _TYPES.get(match[1], match[0]), fault)
    return f"{name}: {fault[:1].lower()}{fault[1:]}" if name else fault


def _unknown(name: str, known: Collection[str], model: str | None) -> str:
    other = _OTHER_NAMES.get(name)
    close = [other] if other in known else get_close_matches(name[:_MOST_NAME], known, n=1)
    if close:
        return f"unknown field {brief(name)}: did you mean {close[0]}?"
    fields = sorted(set(known) - set(OPTIONS)) if model else sorted(known)
    more = ", and the options of a translation" if model else ""
    return f"unknown field {brief(name)}: give {', '.join(fields)}{more}"
