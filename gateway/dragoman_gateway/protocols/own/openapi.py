"""The OpenAPI 3.1 document of this API, from its operations, structs and the option table.

Source: https://spec.openapis.org/oas/v3.1.1.html
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from dragoman_options.option import Limits, Option
from dragoman_options.table import OPTIONS, restrictions, takes

from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.protocols.own.operation import PREFIX, Operation
from dragoman_gateway.protocols.own.samples import samples
from dragoman_gateway.protocols.own.shapes import Refusal
from dragoman_gateway.web.requests import JSON, MULTIPART

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/{name}"
_TERMS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_NULL: Schema = {"type": "null"}
_SPAN: Schema = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0},
    "minItems": 2,
    "maxItems": 2,
}
_CODE: Schema = {
    "type": "array",
    "prefixItems": [{"type": "integer"}, {"type": "integer"}, {"type": ["integer", "null"]}],
    "minItems": 2,
    "maxItems": 3,
}
_MARKUP: Schema = {
    "type": "object",
    "properties": {
        "codes": {"type": "array", "items": _CODE},
        "keep": {"type": "array", "items": _SPAN},
    },
    "additionalProperties": False,
}
_LINES: Schema = {"type": "string"}
_HEAD = """\
Machine translation with every option of the engine.

All errors have the form `{"error": {"code", "message", "retry_after_s"?}, "request_id"}`. The
message names the value and the fix. A `429` or `503` has the header `Retry-After` if a retry can
help.

| code | status | meaning |
|---|---|---|
"""
_AFTER = """
Send an API key as `Authorization: Bearer drg_...`. You need none while the gateway has no keys and
listens only on loopback.

The gateway also speaks the protocols of other programs, with the same keys and limits:

| path | protocol |
|---|---|
| `/translate`, `/detect`, `/languages` and others | LibreTranslate's |
| `/v2`, `/v3` | DeepL's |
| `/v1/chat/completions`, `/v1/models` | OpenAI's chat completions, for translation requests |
| `/mcp` | the Model Context Protocol, for agents |
| `/immersive-translate`, `/kiss-translator`, `/translate_a` | those of browser extensions |
| `/translator.js` | the web's `Translator` and `LanguageDetector`, for web pages |
"""


def openapi_document(
    operations: Sequence[Operation],
    *,
    version: str,
    base: str,
    limits: Limits,
    keys_required: bool,
) -> Schema:
    """Returns the document.

    Args:
        operations: all operations.
        version: version of Dragoman.
        base: URL of the gateway, for examples.
        limits: limits of the model, for the ranges of options.
        keys_required: whether requests need a key.
    """
    schemas = _schemas(operations, limits)
    required: list[Schema] = [{"key": []}]
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        entry = _operation(operation, samples(operation, base, keys_required))
        entry["security"] = (
            ([] if keys_required else [{}]) + required if operation.needs_key else []
        )
        paths.setdefault(PREFIX + operation.path, {})[operation.method.lower()] = entry
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Dragoman",
            "version": version,
            "description": _HEAD + error_table() + _AFTER,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": urlsplit(base).path or "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {
                "Refusal": {
                    "description": "The request failed.",
                    "content": {JSON: {"schema": _reference(Refusal)}},
                }
            },
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "an API key"}
            },
        },
    }


def error_table() -> str:
    """Returns the rows of a Markdown table of all errors."""
    kinds = sorted(GatewayError.__subclasses__(), key=lambda kind: kind.status)
    return "".join(f"| `{kind.code}` | {kind.status} | {_first_line(kind)} |\n" for kind in kinds)


def option_schema(option: Option, limits: Limits) -> Schema:
    """Returns the schema of an option's value."""
    schema: Schema = {}
    if option.kind == "switch":
        schema["type"] = "boolean"
    elif option.kind == "text":
        schema |= {"type": "string", "minLength": 1}
        if option.choices:
            schema = {"type": "string", "enum": list(option.choices)}
    elif option.kind == "texts":
        listed: Schema = {"type": "array", "items": {"type": "string"}}
        if option.items is not None:
            listed["maxItems"] = option.items.most
        schema["anyOf"] = [{"type": "string"}, listed]
    elif option.kind == "markup":
        schema["anyOf"] = [_MARKUP, {"type": "array", "items": {"anyOf": [_MARKUP, _NULL]}}]
    elif option.kind == "terms":
        schema |= _TERMS
        if option.items is not None:
            schema["maxProperties"] = option.items.most
    else:
        schema["type"] = "integer" if option.kind == "whole number" else "number"
        schema |= _bounds(option, limits)
    if option.default not in (None, (), {}):
        schema["default"] = option.default
    return schema | {"description": _help(option)}


def _bounds(option: Option, limits: Limits) -> Schema:
    if option.range is None:
        return {}
    lower = "exclusiveMinimum" if option.range.above else "minimum"
    most = option.range.most
    bound = limits.get(most) if isinstance(most, str) else most
    bounds: Schema = {lower: option.range.least}
    return bounds if bound is None else {**bounds, "maximum": bound}


def _help(option: Option) -> str:
    """Returns an option's help and restrictions, in Markdown."""
    defaults = [f"default: {option.default_text}"] * (option.default in (None, (), {}))
    return "; ".join([option.help, *defaults, *restrictions(option)])


def _schemas(operations: Sequence[Operation], limits: Limits) -> dict[str, Schema]:
    """Returns the schemas by name; those of requests include the options of the endpoint."""
    shapes = [
        shape
        for operation in operations
        for shape in (operation.request, operation.answer)
        if shape
    ]
    _, components = msgspec.json.schema_components([*shapes, Refusal], ref_template=_REFERENCE)
    schemas = {name: _cleaned(schema) for name, schema in components.items()}
    for operation in operations:
        if operation.request is None:
            continue
        schema = schemas[operation.request.__name__]
        schema["additionalProperties"] = False
        if operation.model is not None:
            schema["properties"] |= _options(operation.model, limits)
        if operation.accepts == (MULTIPART,):
            file = {"type": "string", "contentMediaType": "application/octet-stream"}
            schema["properties"] = {"file": file} | schema["properties"]
            schema["required"] = ["file"]
    return schemas


def _options(model: str, limits: Limits) -> dict[str, Schema]:
    return {
        name: option_schema(option, limits)
        for name, option in OPTIONS.items()
        if takes(model, option)
    }


def _cleaned(schema: Any) -> Any:
    """Removes titles, which only repeat names, and all but the first paragraph of docstrings."""
    if isinstance(schema, dict):
        return {
            name: _cleaned(value)
            for name, value in schema.items()
            if not (name == "title" and isinstance(value, str))
        }
    if isinstance(schema, str):
        return schema.partition("\n\n")[0]
    return [_cleaned(part) for part in schema] if isinstance(schema, list) else schema


def _operation(operation: Operation, sources: Mapping[str, str]) -> Schema:
    entry: Schema = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "responses": {
            str(operation.status): _response(operation),
            "4XX": {"$ref": "#/components/responses/Refusal"},
            "5XX": {"$ref": "#/components/responses/Refusal"},
        },
        "x-codeSamples": [{"lang": name, "source": text} for name, text in sources.items()],
    }
    if operation.help:
        entry["description"] = operation.help
    if operation.parameters:
        entry["parameters"] = [
            {
                "name": parameter.name,
                "in": "query" if parameter.in_query else "path",
                "required": not parameter.in_query,
                "description": parameter.help,
                "schema": parameter.schema,
                "example": float(parameter.example)
                if parameter.schema["type"] == "number"
                else parameter.example,
            }
            for parameter in operation.parameters
        ]
    if operation.request is not None or operation.example is not None:
        entry["requestBody"] = {"required": True, "content": dict(_contents(operation))}
    return entry


def _contents(operation: Operation) -> Iterable[tuple[str, Schema]]:
    for media_type in operation.accepts:
        if operation.request is not None:
            schema = _reference(operation.request)
        else:
            schema = _TERMS if media_type == JSON else _LINES
        content: Schema = {"schema": schema}
        if media_type == JSON:
            content["example"] = operation.example
        yield media_type, content


def _response(operation: Operation) -> Schema:
    if operation.status == 204:
        return {"description": "Done."}
    contents: dict[str, Schema] = {}
    for media_type in operation.media_types:
        if operation.answer is not None:
            contents[media_type] = {"schema": _reference(operation.answer)}
        elif media_type == JSON:
            contents[media_type] = {"schema": {"type": "object"}}
        else:
            contents[media_type] = {"schema": _LINES}
    described = _first_line(operation.answer) if operation.answer else "The content."
    return {"description": described, "content": contents}


def _reference(shape: type[msgspec.Struct]) -> Schema:
    return {"$ref": _REFERENCE.format(name=shape.__name__)}


def _first_line(shape: type) -> str:
    return re.sub(r"\s+", " ", (inspect.getdoc(shape) or "").partition("\n\n")[0])
