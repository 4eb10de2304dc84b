"""The protocol as an OpenAPI document."""

from __future__ import annotations

from typing import Any

from dragoman_client import __version__

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"oneOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_FILE: dict[str, Any] = {"type": "string", "format": "binary"}
_DETECTION: dict[str, Any] = {
    "type": "object",
    "required": ["confidence", "language"],
    "properties": {
        "confidence": {"type": "number", "minimum": 0, "maximum": 100},
        "language": _TEXT,
    },
}
_LANGUAGE: dict[str, Any] = {
    "type": "object",
    "required": ["code", "name"],
    "properties": {"code": _TEXT, "name": _TEXT, "targets": {"type": "array", "items": _TEXT}},
}
_ERROR: dict[str, Any] = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": _TEXT},
}
_STATUSES = {
    "400": "Invalid request",
    "403": "Invalid API key, or quota used up",
    "429": "Too many requests",
    "500": "Internal error",
    "503": "No server can answer now",
}
_FORM = "application/x-www-form-urlencoded"


def specification(title: str, url: str) -> dict[str, Any]:
    """The document.

    Args:
        title: of the API; some clients take an instance only with the title "LibreTranslate".
        url: of the gateway.
    """
    key = {"api_key": {**_TEXT, "description": "A key, where one is required"}}
    direction = {
        "source": {**_TEXT, "description": "Code of the texts' language, or auto"},
        "target": {**_TEXT, "description": "Code of the language to translate into"},
    }
    translate = {
        "q": _TEXTS,
        **direction,
        "format": {**_TEXT, "enum": ["text"], "default": "text"},
        "alternatives": {"type": "integer", "minimum": 0, "default": 0},
        **key,
    }
    translated = {
        "type": "object",
        "required": ["translatedText"],
        "properties": {
            "translatedText": _TEXTS,
            "detectedLanguage": {"oneOf": [_DETECTION, {"type": "array", "items": _DETECTION}]},
            "alternatives": {"type": "array"},
        },
    }
    suggestion = {"q": _TEXT, "s": _TEXT, **direction}
    file_url = {"type": "object", "properties": {"translatedFileUrl": _TEXT}}
    status = {"type": "object", "properties": {"status": _TEXT}}
    success = {"type": "object", "properties": {"success": {"type": "boolean"}}}
    download = _get("Download a translated file", _FILE, "application/octet-stream")
    download["parameters"] = [{"name": "name", "in": "path", "required": True, "schema": _TEXT}]
    return {
        "openapi": "3.0.3",
        "info": {
            "title": title,
            "description": "Translation by Dragoman, compatible with LibreTranslate's API.",
            "version": __version__,
        },
        "servers": [{"url": url}],
        "paths": {
            "/translate": _post("Translate text", translate, ["q", "source", "target"], translated),
            "/detect": _post(
                "Detect the language of a text",
                {"q": _TEXT, **key},
                ["q"],
                {"type": "array", "items": _DETECTION},
            ),
            "/languages": {"get": _get("List languages", {"type": "array", "items": _LANGUAGE})},
            "/translate_file": _post(
                "Translate a file",
                {"file": _FILE, **direction, **key},
                ["file", "source", "target"],
                file_url,
                ("multipart/form-data",),
            ),
            "/download_file/{name}": {"get": download},
            "/frontend/settings": {"get": _get("Settings for pages", {"type": "object"})},
            "/suggest": _post(
                "Suggest a translation", suggestion, ["q", "s", "source", "target"], success
            ),
            "/health": {"get": _get("Whether the server can translate", status)},
            "/spec": {"get": _get("This document", {"type": "object"})},
        },
    }


def _answers(schema: dict[str, Any], media_type: str = "application/json") -> dict[str, Any]:
    found: dict[str, Any] = {
        "200": {"description": "Success", "content": {media_type: {"schema": schema}}}
    }
    for status, description in _STATUSES.items():
        content = {"application/json": {"schema": _ERROR}}
        found[status] = {"description": description, "content": content}
    return found


def _get(
    summary: str, schema: dict[str, Any], media_type: str = "application/json"
) -> dict[str, Any]:
    return {"summary": summary, "responses": _answers(schema, media_type)}


def _post(
    summary: str,
    properties: dict[str, Any],
    required: list[str],
    answer: dict[str, Any],
    media_types: tuple[str, ...] = ("application/json", _FORM),
) -> dict[str, Any]:
    schema = {"type": "object", "required": required, "properties": properties}
    body = {"content": {media_type: {"schema": schema} for media_type in media_types}}
    return {
        "post": {
            "summary": summary,
            "requestBody": body | {"required": True},
            "responses": _answers(answer),
        }
    }
