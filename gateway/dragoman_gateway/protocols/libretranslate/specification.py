"""The OpenAPI document of LibreTranslate's protocol."""

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
_KEY: dict[str, Any] = {"api_key": {**_TEXT, "description": "A key, if one is required"}}
_DIRECTION: dict[str, Any] = {
    "source": {**_TEXT, "description": "Code of the texts' language, or auto"},
    "target": {**_TEXT, "description": "Code of the language to translate into"},
}
_GLOSSARIES: dict[str, Any] = {
    "glossary_ids": {
        "type": "array",
        "items": _TEXT,
        "description": "Ids of stored glossaries; earlier ones take precedence; in a form, "
        "separated by commas",
    }
}
_TRANSLATE: dict[str, Any] = {
    "q": _TEXTS,
    **_DIRECTION,
    "format": {**_TEXT, "enum": ["text", "html"], "default": "text"},
    "alternatives": {"type": "integer", "minimum": 0, "default": 0},
    **_GLOSSARIES,
    **_KEY,
}
_TRANSLATED: dict[str, Any] = {
    "type": "object",
    "required": ["translatedText"],
    "properties": {
        "translatedText": _TEXTS,
        "detectedLanguage": {"oneOf": [_DETECTION, {"type": "array", "items": _DETECTION}]},
        "alternatives": {"type": "array"},
    },
}
_SUGGESTION: dict[str, Any] = {"q": _TEXT, "s": _TEXT, **_DIRECTION}
_FILE_URL: dict[str, Any] = {"type": "object", "properties": {"translatedFileUrl": _TEXT}}
_STATUS: dict[str, Any] = {"type": "object", "properties": {"status": _TEXT}}
_SUCCESS: dict[str, Any] = {"type": "object", "properties": {"success": {"type": "boolean"}}}
_STATUSES = {
    "400": "Invalid request",
    "403": "Invalid API key, or quota used up",
    "404": "No such glossary or file",
    "429": "Too many requests",
    "500": "Internal error",
    "503": "No server can answer now",
}
_FORM = "application/x-www-form-urlencoded"


def specification(title: str, url: str) -> dict[str, Any]:
    """Returns the document.

    Args:
        title: title of the API; some clients only accept the title "LibreTranslate".
        url: URL of the gateway.
    """
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
            "/translate": _post(
                "Translate text", _TRANSLATE, ["q", "source", "target"], _TRANSLATED
            ),
            "/detect": _post(
                "Detect the language of a text",
                {"q": _TEXT, **_KEY},
                ["q"],
                {"type": "array", "items": _DETECTION},
            ),
            "/languages": {"get": _get("List languages", {"type": "array", "items": _LANGUAGE})},
            "/translate_file": _post(
                "Translate a file",
                {"file": _FILE, **_DIRECTION, **_GLOSSARIES, **_KEY},
                ["file", "source", "target"],
                _FILE_URL,
                ("multipart/form-data",),
            ),
            "/download_file/{name}": {"get": download},
            "/frontend/settings": {"get": _get("Settings for pages", {"type": "object"})},
            "/suggest": _post(
                "Suggest a translation", _SUGGESTION, ["q", "s", "source", "target"], _SUCCESS
            ),
            "/health": {"get": _get("Whether the server can translate", _STATUS)},
            "/spec": {"get": _get("This document", {"type": "object"})},
        },
    }


def _answers(schema: dict[str, Any], media_type: str = "application/json") -> dict[str, Any]:
    answers: dict[str, Any] = {
        "200": {"description": "Success", "content": {media_type: {"schema": schema}}}
    }
    for status, description in _STATUSES.items():
        content = {"application/json": {"schema": _ERROR}}
        answers[status] = {"description": description, "content": content}
    return answers


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
