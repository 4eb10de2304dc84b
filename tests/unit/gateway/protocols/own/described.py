"""Checks responses against the OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator


def check_described(
    document: Mapping[str, Any],
    method: str,
    path: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
) -> None:
    """Check that the document describes a response.

    Args:
        document: of OpenAPI 3.1.
        method: of the request.
        path: of the request, with its query.
        status: of the response.
        headers: by names in lower case.
        body: complete.
    """
    operation = find_operation(document, method, path)
    responses = operation["responses"]
    response = responses.get(str(status)) or responses[f"{status // 100}XX"]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    contents = response.get("content")
    if contents is None:
        assert not body
        return
    media_type = headers["content-type"].partition(";")[0]
    assert media_type in contents, (method, path, status, media_type)
    if media_type == "application/json":
        check_schema(document, contents[media_type]["schema"], json.loads(body))


def check_schema(document: Mapping[str, Any], schema: Mapping[str, Any], value: Any) -> None:
    """Check that a value matches a schema of the document."""
    root = {**schema, "components": document["components"]}
    errors = [error.message for error in Draft202012Validator(root).iter_errors(value)]
    assert not errors, (errors, value)


def find_operation(document: Mapping[str, Any], method: str, path: str) -> Mapping[str, Any]:
    """The operation of a request."""
    path = path.partition("?")[0]
    for template, methods in document["paths"].items():
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", template)
        if re.fullmatch(pattern, path) and method.lower() in methods:
            operation: Mapping[str, Any] = methods[method.lower()]
            return operation
    raise AssertionError(f"{method} {path} is not described")
