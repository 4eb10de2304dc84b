"""Code samples of requests in curl, Python and JavaScript."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from dragoman_gateway.protocols.own.operation import EVENTS, FILE, PREFIX, Operation
from dragoman_gateway.web.requests import JSON, MULTIPART

_KEY = "DRAGOMAN_API_KEY"


def samples(operation: Operation, base: str, with_key: bool) -> Mapping[str, str]:
    """Returns working code samples by programming language.

    Args:
        operation: the operation to call.
        base: URL of the gateway, without a trailing slash.
        with_key: whether to send a key, from the environment.
    """
    key = with_key and operation.needs_key
    url = base + PREFIX + _path(operation)
    return {
        "curl": _curl(operation, url, key),
        "Python": _python(operation, url, key),
        "JavaScript": _javascript(operation, url, key),
    }


def _path(operation: Operation) -> str:
    path, query = operation.path, {}
    for parameter in operation.parameters:
        if parameter.in_query:
            query[parameter.name] = parameter.example
        else:
            path = path.replace(f"{{{parameter.name}}}", quote(parameter.example))
    return path + (f"?{urlencode(query)}" if query else "")


def _is_form(operation: Operation) -> bool:
    return operation.accepts == (MULTIPART,)


def _curl(operation: Operation, url: str, key: bool) -> str:
    words = ["curl", "-s"]
    if operation.media_types == (EVENTS,):
        words.append("-N")
    if operation.method not in ("GET", "POST"):
        words += ["-X", operation.method]
    lines = [shlex.join([*words, url])]
    if key:
        lines.append(f'-H "Authorization: Bearer ${_KEY}"')
    if _is_form(operation):
        lines.append(f"-F file=@{operation.file[0]}")
        lines += [f"-F {shlex.quote(f'{k}={v}')}" for k, v in operation.example.items()]
    elif operation.example is not None:
        lines.append(f"-H 'Content-Type: {JSON}'")
        lines.append(f"-d {shlex.quote(_json(operation.example))}")
    if operation.media_types == (FILE,):
        lines.append("-o brief.txt")
    return " \\\n  ".join(lines)


def _python(operation: Operation, url: str, key: bool) -> str:
    arguments = [json.dumps(url)]
    before = ["import os", ""] if key else []
    before.append("import requests")
    if key:
        arguments.append(f'headers={{"Authorization": f"Bearer {{os.environ[\'{_KEY}\']}}"}}')
    if _is_form(operation):
        arguments.append(f'files={{"file": open("{operation.file[0]}", "rb")}}')
        arguments.append(f"data={_json(operation.example)}")
    elif operation.example is not None:
        arguments.append(f"json={_json(operation.example)}")
    if operation.media_types == (EVENTS,):
        arguments.append("stream=True")
    inner = "".join(f"    {argument},\n" for argument in arguments)
    call = f"answer = requests.{operation.method.lower()}(\n{inner})"
    return "\n".join([*before, "", call, "answer.raise_for_status()", *_python_use(operation)])


def _python_use(operation: Operation) -> list[str]:
    if operation.status == 204:
        return []
    if operation.media_types == (EVENTS,):
        return [
            "for line in answer.iter_lines():",
            '    if line.startswith(b"data:"):',
            "        print(line.decode())",
        ]
    if operation.media_types == (FILE,):
        return ['open("brief.txt", "wb").write(answer.content)']
    return ["print(answer.json())" if JSON in operation.media_types else "print(answer.text)"]


def _javascript(operation: Operation, url: str, key: bool) -> str:
    before, headers, options = [], [], []
    if operation.method != "GET":
        options.append(f"method: {json.dumps(operation.method)}")
    if key:
        headers.append(f"Authorization: `Bearer ${{process.env.{_KEY}}}`")
    if _is_form(operation):
        before.append("const form = new FormData();")
        name, content = map(json.dumps, operation.file)
        before.append(f'form.append("file", new Blob([{content}]), {name});')
        before += [
            f"form.append({json.dumps(field)}, {json.dumps(value)});"
            for field, value in operation.example.items()
        ]
        options.append("body: form")
    elif operation.example is not None:
        headers.append(f'"Content-Type": {json.dumps(JSON)}')
        options.append(f"body: JSON.stringify({_json(operation.example)})")
    if headers:
        options.insert(1, f"headers: {{ {', '.join(headers)} }}")
    inner = "".join(f"  {option},\n" for option in options)
    arguments = f"{json.dumps(url)}, {{\n{inner}}}" if options else json.dumps(url)
    call = f"const answer = await fetch({arguments});"
    check = "if (!answer.ok) throw new Error(await answer.text());"
    return "\n".join([*before, call, check, *_javascript_use(operation)])


def _javascript_use(operation: Operation) -> list[str]:
    if operation.status == 204:
        return []
    if operation.media_types == (EVENTS,):
        return [
            "for await (const part of answer.body.pipeThrough(new TextDecoderStream())) {",
            "  console.log(part);",
            "}",
        ]
    if JSON in operation.media_types:
        return ["console.log(await answer.json());"]
    return ["console.log(await answer.text());"]


def _json(value: Any) -> str:
    """Returns a value as JSON; for examples without `true` and `null` also valid Python."""
    return json.dumps(value, ensure_ascii=False)
