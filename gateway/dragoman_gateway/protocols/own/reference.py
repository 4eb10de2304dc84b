"""The reference page: the OpenAPI document as a single HTML file, without scripts."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any

_STYLE = (
    resources.files("dragoman_gateway.protocols.own").joinpath("reference.css").read_text("utf-8")
)
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content security policy of the page: only its own style."""
_METHODS = ("get", "post", "put", "patch", "delete")
_ROW = re.compile(r"^\|(.*)\|$")


def reference_page(document: Mapping[str, Any]) -> str:
    """Returns the page for an OpenAPI document."""
    return "".join(_page(document))


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    title, version = document["info"]["title"], document["info"]["version"]
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{_e(title)} API</title><style>{_STYLE}</style></head><body>"
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in _METHODS
    ]
    yield '<nav aria-label="Endpoints"><p><a href="#top">'
    yield f"{_e(title)} API</a></p>"
    for tag in document["tags"]:
        yield f"<h2>{_e(tag['name'])}</h2><ul>"
        for _path, method, operation in operations:
            if tag["name"] in operation["tags"]:
                yield f'<li><a href="#{operation["operationId"]}"><b class="{method}">{method}</b> '
                yield f"{_e(operation['summary'])}</a></li>"
        yield "</ul>"
    yield "<h2>Objects</h2><ul>"
    for name in document["components"]["schemas"]:
        yield f'<li><a href="#{name}">{name}</a></li>'
    yield '</ul></nav><main id="top">'
    yield f"<h1>{_e(title)} API <small>{_e(version)}</small></h1>"
    yield _markdown(document["info"]["description"])
    yield '<p>For programs: <a href="openapi.json">openapi.json</a> (OpenAPI 3.1).</p>'
    for tag in document["tags"]:
        yield f"<h2>{_e(tag['name'])}</h2>"
        for path, method, operation in operations:
            if tag["name"] in operation["tags"]:
                yield from _operation(path, method, operation)
    yield "<h2>Objects</h2>"
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(name, schema)
    yield "</main></body></html>"


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section id="{operation["operationId"]}"><h3>{_e(operation["summary"])}</h3>'
    yield f'<p class="path"><b class="{method}">{method}</b> <code>{_e(path)}</code></p>'
    yield _markdown(operation.get("description", ""))
    yield "<dl>"
    for parameter in operation.get("parameters", ()):
        yield f"<dt><code>{_e(parameter['name'])}</code> <i>{parameter['in']}</i></dt>"
        yield f"<dd>{_inline(parameter['description'])}</dd>"
    if "requestBody" in operation:
        yield "<dt>Body</dt>"
        for media_type, content in operation["requestBody"]["content"].items():
            yield f"<dd><code>{media_type}</code>: {_kind(content['schema'])}</dd>"
    for status, response in operation["responses"].items():
        if "$ref" in response:
            continue
        yield f"<dt>{status}</dt>"
        for media_type, content in response.get("content", {"": None}).items():
            shown = f"<code>{media_type}</code>: {_kind(content['schema'])}" if content else ""
            yield f"<dd>{shown or _e(response['description'])}</dd>"
    yield "</dl><div class='samples'>"
    for index, sample in enumerate(operation["x-codeSamples"]):
        name = f"{operation['operationId']}-{index}"
        checked = " checked" if index == 0 else ""
        yield f'<input type="radio" name="{operation["operationId"]}" id="{name}"{checked}>'
        yield f'<label for="{name}">{_e(sample["lang"])}</label>'
        yield f'<pre tabindex="0"><code>{_e(sample["source"])}</code></pre>'
    yield "</div></section>"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f'<section id="{name}"><h3>{name}</h3>{_markdown(schema.get("description", ""))}<dl>'
    required = schema.get("required", ())
    for field, content in schema.get("properties", {}).items():
        star = " <i>required</i>" if field in required else ""
        yield f"<dt><code>{_e(field)}</code> {_kind(content)}{star}</dt>"
        if "description" in content:
            yield f"<dd>{_inline(content['description'])}</dd>"
    yield "</dl></section>"


def _kind(schema: Mapping[str, Any]) -> str:
    """Returns the type of a value, with its range."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(alternative) for alternative in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{_e(str(choice))}</code>" for choice in schema["enum"])
    kind = _e(str(schema.get("type", "any value")))
    if kind == "array":
        return f"list of {_kind(schema.get('items') or schema.get('prefixItems', [{}])[0])}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_kind(schema['additionalProperties'])}"
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    if least is not None:
        above = "above " if "exclusiveMinimum" in schema else ""
        most = f" to {schema['maximum']:,}" if "maximum" in schema else " or more"
        kind += f", {above}{least:,}{most}"
    if "default" in schema:
        kind += f", default {_e(str(schema['default']).lower())}"
    return kind


def _markdown(text: str) -> str:
    """Converts paragraphs and tables of Markdown to HTML."""
    parts = []
    for block in re.split(r"\n\n+", text.strip()):
        lines = block.splitlines()
        if lines and all(_ROW.match(line) for line in lines):
            head, _, *rows = [line.strip("|").split("|") for line in lines]
            cells = "".join(f"<th>{_inline(cell.strip())}</th>" for cell in head)
            parts.append(f"<div class='wide' tabindex='0'><table><tr>{cells}</tr>")
            for row in rows:
                cells = "".join(f"<td>{_inline(cell.strip())}</td>" for cell in row)
                parts.append(f"<tr>{cells}</tr>")
            parts.append("</table></div>")
        elif block:
            parts.append(f"<p>{_inline(block)}</p>")
    return "".join(parts)


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", _e(text))


def _e(text: str) -> str:
    return html.escape(text)
