"""The Model Context Protocol with a stand-in that answers `<TEXT>`: messages, errors, origins."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from dragoman_gateway.core.caller import Limits
from jsonschema import Draft202012Validator

from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application

STATELESS = "2026-07-28"
DIRECTION = {"source_language": "en", "target_language": "de"}


def send(app: Application, method: str, params: Any = None, **headers: str) -> Answer:
    """Send a request."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method}
    return app.post("/mcp", message | ({} if params is None else {"params": params}), **headers)


def call(app: Application, tool: str, given: Any) -> Any:
    """The result of a tool."""
    answer = send(app, "tools/call", {"name": tool, "arguments": given})
    assert (answer.status, answer.json["id"]) == (200, 7)
    return answer.json["result"]


def code(answer: Answer) -> int:
    """The code of an error."""
    body = answer.json
    assert body.keys() == {"jsonrpc", "id", "error"}
    assert "\n" not in body["error"]["message"]
    number: int = body["error"]["code"]
    return number


@pytest.mark.parametrize(
    ("requested", "negotiated"),
    [("2025-06-18", "2025-06-18"), ("2024-11-05", "2025-11-25"), (None, "2025-11-25"), (3, None)],
)
def test_the_handshake(app: Application, requested: Any, negotiated: str | None) -> None:
    answer = send(app, "initialize", {"protocolVersion": requested, "capabilities": {}})
    assert answer.json["result"]["protocolVersion"] == negotiated or "2025-11-25"
    assert len(answer.headers["mcp-session-id"]) == 32
    assert send(app, "ping").json["result"]["resultType"] == "complete"


def test_notifications_and_answers_are_accepted(app: Application) -> None:
    for message in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
    ):
        answer = app.post("/mcp", message)
        assert (answer.status, answer.body) == (202, b"")


def test_the_tools_describe_their_arguments(app: Application) -> None:
    for tool in send(app, "tools/list").json["result"]["tools"]:
        Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["inputSchema"]["type"] == "object"
        for argument in tool["inputSchema"]["properties"].values():
            assert argument["description"]


def test_texts_are_translated_in_order(app: Application) -> None:
    result = call(app, "translate_text", {"text": ["a", "b"], **DIRECTION})
    assert [block["text"] for block in result["content"]] == ["<A>", "<B>"]
    assert result["structuredContent"]["translations"] == [{"text": "<A>"}, {"text": "<B>"}]


def test_a_document_that_is_not_text_is_read_in_base64(app: Application) -> None:
    page = "<meta charset=latin1><p>Über</p>".encode("latin-1")
    given = {"file_name": "a.html", "content_base64": base64.b64encode(page).decode(), **DIRECTION}
    result = call(app, "translate_document", given)
    (link,) = result["content"]
    uri = result["structuredContent"]["uri"]
    assert (link["type"], link["uri"], link["mimeType"]) == ("resource_link", uri, "text/html")
    (read,) = send(app, "resources/read", {"uri": uri}).json["result"]["contents"]
    assert "Ü".encode("latin-1") in base64.b64decode(read["blob"])
    assert uri in [
        resource["uri"] for resource in send(app, "resources/list").json["result"]["resources"]
    ]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("translate_text", {}),
        ("translate_text", []),
        ("translate_text", {"text": "a", "target_language": "xx"}),
        ("translate_text", {"text": "a", **DIRECTION, "format": "pdf"}),
        ("translate_text", {"text": "<a>", **DIRECTION, "format": "xml"}),
        ("translate_text", {"text": "a", **DIRECTION, "glossary": {"a": ""}}),
        ("translate_text", {"text": "a", **DIRECTION, "glossary_ids": ["x"]}),
        ("translate_document", {"file_name": "a.txt", **DIRECTION}),
        ("translate_document", {"file_name": "a.txt", "content_base64": "!", **DIRECTION}),
        ("translate_document", {"file_name": "a.exe", "content": "a", **DIRECTION}),
        ("list_languages", {"a": 1}),
    ],
)
def test_a_call_that_fails_says_why_to_the_model(app: Application, tool: str, given: Any) -> None:
    result = call(app, tool, given)
    assert result["isError"] is True
    (reason,) = result["content"]
    assert reason["text"]
    assert "\n" not in reason["text"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 500, -32600),
        (b"[]", -32600),
        (b"3", -32600),
        (b'{"method":"ping","id":1}', -32600),
        (b'{"jsonrpc":"2.0","method":"ping","id":{}}', -32600),
        (b'{"jsonrpc":"2.0","method":"ping","id":true}', -32600),
    ],
)
def test_what_is_not_a_message_is_refused(app: Application, body: bytes, expected: int) -> None:
    answer = app.call("POST", "/mcp", body, {"content-type": "application/json"})
    assert (answer.status, code(answer), answer.json["id"]) == (400, expected, None)


@pytest.mark.parametrize(
    ("method", "params", "expected", "status"),
    [
        ("prompts/list", None, -32601, 404),
        ("", None, -32601, 404),
        ("tools/call", {"name": "rm"}, -32602, 400),
        ("tools/call", {}, -32602, 400),
        ("tools/call", [], -32602, 400),
        ("resources/read", {"uri": "dragoman://documents/x"}, -32002, 200),
        ("resources/read", {"uri": "file:///etc/passwd"}, -32002, 200),
        ("resources/read", {"uri": 3}, -32602, 400),
    ],
)
def test_wrong_requests(
    app: Application, method: str, params: Any, expected: int, status: int
) -> None:
    answer = send(app, method, params)
    assert (answer.status, code(answer)) == (200, expected)
    fields = params if isinstance(params, dict) else {}
    name = str(fields.get("name") or fields.get("uri"))
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": method, "mcp-name": name}
    answer = send(app, method, params, **headers)
    assert code(answer) in (expected, -32020)
    assert answer.status == (400 if code(answer) == -32020 else status)


def test_the_headers_must_match_the_message(app: Application) -> None:
    headers = {"mcp-protocol-version": STATELESS, "mcp-method": "tools/list"}
    assert send(app, "tools/list", None, **headers).status == 200
    assert code(send(app, "server/discover", None, **headers)) == -32020
    params = {"name": "list_languages", "arguments": {}}
    headers["mcp-method"] = "tools/call"
    named = "=?base64?" + base64.b64encode(b"list_languages").decode() + "?="
    for name, is_right in (
        ("list_languages", True),
        (named, True),
        ("x", False),
        ("=?base64?!?=", 0),
    ):
        answer = send(app, "tools/call", params, **headers, **{"mcp-name": name})
        assert (answer.status == 200) == bool(is_right)
    answer = send(app, "ping", None, **{"mcp-protocol-version": "1999-01-01"})
    assert (answer.status, code(answer)) == (400, -32022)
    assert STATELESS in answer.json["error"]["data"]["supported"]


def test_wrong_calls_count_for_the_limits_of_their_caller() -> None:
    with Application(address="192.0.2.1") as app:
        secret = app.new_key(limits=Limits(requests_per_minute=3))
        bearer = {"authorization": f"Bearer {secret}"}
        wrong = {"name": "translate_text", "arguments": {"text": 3}}
        for params in (wrong, {"name": "none"}, wrong):
            answer = send(app, "tools/call", params, **bearer)
            assert answer.status == 200
        assert answer.json["result"]["isError"]
        answer = send(app, "tools/call", wrong, **bearer)
        assert "requests" in answer.json["result"]["content"][0]["text"]
        assert int(answer.headers["ratelimit"].partition("r=")[2].partition(";")[0]) == 0


def test_other_methods_of_http_are_refused(app: Application) -> None:
    for method in ("GET", "DELETE"):
        answer = app.send(method, "/mcp")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
        assert code(answer) == -32000


def test_origins_are_checked_even_with_a_key() -> None:
    page = {"sec-fetch-site": "cross-site"}
    with Application(anonymous=True, allowed_origins=("https://ours.example",)) as app:
        for origin, status in (
            ("https://evil.example", 403),
            ("null", 403),
            ("http://localhost:5000", 200),
            ("https://ours.example", 200),
            ("chrome-extension://abc", 200),
        ):
            assert send(app, "ping", None, origin=origin, **page).status == status
    with Application(address="192.0.2.1") as app:
        bearer = {"authorization": f"Bearer {app.new_key()}"}
        assert send(app, "ping", None, **bearer).status == 200
        answer = send(app, "ping", None, origin="https://evil.example", **bearer)
        assert (answer.status, answer.json["error"]["data"]) == (403, {"code": "forbidden"})
        refused = send(app, "ping")
        assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
