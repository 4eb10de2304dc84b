"""DeepL's published description of its API, for the calls that the gateway answers.

`python -m tests.deepl_openapi openapi.json` makes `tests/data/deepl_openapi/answers.json` from the
published document: the response schemas of each of these calls, and those they refer to, without
prose.

Source: https://github.com/DeepLcom/openapi, commit d161fd2, openapi.json 3.11.0, MIT licence
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from openapi_schema_validator import OAS30Validator

from tests.compact_json import compact_json

FILE = Path(__file__).parent / "data" / "deepl_openapi" / "answers.json"
_SERVED = re.compile(r"/v2/(translate|document|glossar|usage|languages)|/v3/(glossaries|languages)")
_METHODS = {"get", "post", "put", "patch", "delete"}
_PROSE = {"description", "example", "examples"}
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["message"],
    "properties": {"message": {"type": "string"}, "detail": {"type": "string"}},
    "additionalProperties": False,
}
"""What clients read of any error; the document omits some statuses, and the content of 404."""


def faults(method: str, path: str, status: int, media_type: str, body: bytes) -> list[str]:
    """Problems of a response; empty if there are none.

    Args:
        method: of HTTP.
        path: as requested, without the query.
        status: of the response.
        media_type: of the response, without parameters.
        body: of the response.
    """
    described = _described(method, path)
    if status >= 400:
        return [error.message for error in _checked(_ERROR, body)]
    if described is None:
        return [f"{method} {path} is not in the document"]
    if str(status) not in described:
        return [f"status {status} is not in the document, only {', '.join(described)}"]
    schemas = described[str(status)]
    if not schemas:
        return ["has a body"] if body else []
    if media_type not in schemas:
        return [f"media type {media_type} is not one of {', '.join(schemas)}"]
    if media_type != "application/json":
        return []
    return [error.message for error in _checked(_closed(schemas[media_type]), body)]


def _checked(schema: dict[str, Any], body: bytes) -> Iterator[Any]:
    yield from OAS30Validator(schema).iter_errors(json.loads(body))


def _described(method: str, path: str) -> dict[str, Any] | None:
    for pattern, methods in document().items():
        as_regex = re.sub(r"\{[^}]+\}", "[^/]+", pattern)
        if re.fullmatch(as_regex, path) and method.lower() in methods:
            operation: dict[str, Any] = methods[method.lower()]
            return operation
    return None


def _closed(schema: Any) -> Any:
    """A schema that accepts only the properties that it names."""
    if isinstance(schema, list):
        return [_closed(child) for child in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(child) for name, child in schema.items()}
    if "properties" in schema:
        closed.setdefault("additionalProperties", False)
    return closed


@cache
def document() -> dict[str, Any]:
    """Schemas without references, by path, method, status and media type."""
    kept = json.loads(FILE.read_text("utf-8"))
    paths: dict[str, Any] = _inline(kept["paths"], kept)
    return paths


def reduced(published: dict[str, Any]) -> dict[str, Any]:
    """The part of the document that is kept here."""
    paths: dict[str, Any] = {}
    for path, methods in published["paths"].items():
        if _SERVED.match(path):
            for method in _METHODS & methods.keys():
                paths.setdefault(path, {})[method] = {
                    status: {
                        media_type: _without_prose(content.get("schema", {}))
                        for media_type, content in answer.get("content", {}).items()
                    }
                    for status, answer in methods[method]["responses"].items()
                    if status < "400"
                }
    entries = paths["/v3/glossaries/{glossary_id}/entries"]["get"]["200"]
    # The document has one dictionary there; the service and its clients have a list of them.
    entries["application/json"] = {
        "type": "object",
        "required": ["dictionaries"],
        "properties": {"dictionaries": {"type": "array", "items": entries["application/json"]}},
    }
    schemas: dict[str, Any] = {}
    named = _names(paths)
    while missing := named - schemas.keys():
        for name in missing:
            schemas[name] = _without_prose(published["components"]["schemas"][name])
            named |= _names(schemas[name])
    for schema in schemas.values():
        # The document's examples of dictionaries have it, but no schema.
        if "entries_format" in schema.get("properties", {}):
            schema["properties"]["entry_count"] = {"type": "integer"}
    return {"paths": paths, "components": {"schemas": schemas}}


def _names(part: Any) -> set[str]:
    """The schemas to which a part of the document refers."""
    return set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(part)))


def _inline(part: Any, whole: dict[str, Any]) -> Any:
    """A part of the document without references."""
    if isinstance(part, list):
        return [_inline(child, whole) for child in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        target: Any = whole
        for name in part["$ref"].split("/")[1:]:
            target = target[name]
        return _inline(target, whole)
    return {name: _inline(value, whole) for name, value in part.items()}


def _without_prose(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_prose(child) for child in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _without_prose(value)
        for name, value in part.items()
        if not ((name in _PROSE and not isinstance(value, dict)) or name == "example")
    }


if __name__ == "__main__":
    kept = reduced(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    FILE.write_text(compact_json(kept) + "\n", encoding="utf-8")
