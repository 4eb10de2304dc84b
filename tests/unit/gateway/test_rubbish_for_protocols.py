"""Arbitrary input for the protocols of other programs: their error formats, never 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from dragoman_gateway.protocols.agents.agent_protocol import AgentProtocol
from dragoman_gateway.protocols.chat.chat_protocol import ChatProtocol
from dragoman_gateway.protocols.deepl.deepl_protocol import DeepLProtocol
from dragoman_gateway.protocols.extensions.extension_protocol import ExtensionProtocol
from dragoman_gateway.protocols.kserve.kserve_protocol import KServeProtocol
from dragoman_gateway.protocols.libretranslate.libretranslate_protocol import LibreTranslateProtocol
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.deepl_openapi import faults
from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.deepl.test_deepl_protocol import is_recorded

_NAMES = (
    *("q", "source", "target", "format", "alternatives", "api_key", "s", "file", "filename"),
    *("text", "source_lang", "target_lang", "split_sentences", "preserve_formatting", "formality"),
    *("glossary_id", "glossary_ids", "model_type", "tag_handling", "show_billed_characters"),
    *("custom_instructions", "style_id", "type", "resource", "auth_key", "output_format"),
    *("name", "entries", "entries_format", "dictionaries", "document_key", "context"),
    *("model", "messages", "stream", "stream_options", "n", "chat_template_kwargs", "tools"),
    *("jsonrpc", "id", "method", "params", "arguments"),
    *("text_list", "texts", "from", "to", "sl", "tl", "dj"),
    *("text_input", "inputs", "outputs", "parameters", "beam_width"),
    *("dictionaries[0].source_lang", "dictionaries[0].entries", "dictionaries[].a"),
)
_RIGHT: dict[str, Any] = {
    "q": "Good morning.",
    "source": "en",
    "target": "de",
    "text": ["Good morning."],
    "source_lang": "EN",
    "target_lang": "DE",
    "model": "en-de",
    "messages": [{"role": "user", "content": "Translate to German: Good morning."}],
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "translate_text", "arguments": {"text": "a", "target_language": "de"}},
    "text_input": "Good morning.",
    "inputs": [{"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["a"]}],
    "text_list": ["Good morning."],
    "texts": ["Good morning."],
    "to": "de",
    "tl": "de",
    "name": "a",
    "entries": "a\tb",
    "entries_format": "tsv",
    "dictionaries": [
        {"source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
    ],
}
_MEDIA_TYPES = st.sampled_from(
    [
        *("", "application/json", "application/json; charset=utf-16", "text/plain", "text/json"),
        *("application/x-www-form-urlencoded", "multipart/form-data", ";", "\xff/\xfe"),
        *("multipart/form-data; boundary=x", "multipart/form-data; boundary=x; charset=hex"),
        *("multipart/form-data; boundary=", "multipart/form-data; boundary=x; charset=utf-7"),
        *("APPLICATION/JSON", "application/x-www-form-urlencoded; charset=latin-1"),
    ]
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["en", "DE", "auto", "", "\0", "😀", "-1", "1e9", "a" * 5000, "xml", "0"])
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
_FIELDS = st.dictionaries(st.sampled_from(_NAMES) | st.text(max_size=5), _VALUES, max_size=4)
_TOKENS = st.text(st.characters(codec="latin-1", exclude_characters="\r\n"), max_size=30)


@pytest.fixture(scope="module")
def app() -> Iterator[Application]:
    """Accepts up to 100,000 bytes."""
    with Application(body_bytes=100_000, file_bytes=50_000) as application:
        yield application


@st.composite
def forms(draw: st.DrawFn) -> bytes:
    """Pairs of names and values, some repeated, some malformed."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(_NAMES), st.text(max_size=9)), max_size=6))
    written = "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)
    return written.encode() + draw(st.sampled_from([b"", b"&q=%ff", b"&%", b"&&&=", b"\xff"]))


@st.composite
def multiparts(draw: st.DrawFn) -> bytes:
    """Parts, some of them files, some malformed."""
    parts = []
    for name in draw(st.lists(st.sampled_from(_NAMES), max_size=4)):
        file = draw(st.sampled_from(["", '; filename="a.txt"', '; filename=""', "; filename"]))
        head = draw(st.sampled_from(["", "Content-Type: \xff\r\n", "rubbish\r\n"]))
        header = f'Content-Disposition: form-data; name="{name}"{file}\r\n{head}\r\n'
        parts.append(b"--x\r\n" + header.encode("latin-1") + draw(st.binary(max_size=20)) + b"\r\n")
    return b"".join(parts) + draw(st.sampled_from([b"--x--\r\n", b"", b"--x"]))


def json_bodies() -> st.SearchStrategy[bytes]:
    """Objects that are nearly valid, and values that are not objects, in several encodings."""
    objects = _FIELDS.map(lambda fields: _RIGHT | fields) | _FIELDS
    encoding = st.sampled_from(["utf-8", "utf-16", "utf-32", "latin-1"])
    return st.builds(
        lambda value, codec: json.dumps(value, ensure_ascii=codec == "latin-1").encode(
            codec, "replace"
        ),
        objects | _VALUES,
        encoding,
    )


_BODIES = json_bodies() | forms() | multiparts() | st.binary(max_size=40) | st.just(b"[" * 5_000)


def endpoints() -> list[tuple[str, str]]:
    """Methods and paths of the protocols."""
    pairs = []
    with Application() as app:
        for protocol in (
            *(LibreTranslateProtocol, DeepLProtocol, ChatProtocol, ExtensionProtocol),
            *(AgentProtocol, KServeProtocol),
        ):
            pairs += [
                (endpoint.method, endpoint.path) for endpoint in protocol(app.gateway).endpoints
            ]
    return pairs


def _is_kserve(path: str) -> bool:
    return path == "/v2" or path.startswith(("/v2/models", "/v2/health"))


def check(path: str, answer: Answer) -> None:
    """A response has a status that fits the request, and its protocol's format."""
    assert answer.status < 500 or answer.status == 503, answer.body
    if answer.status >= 400:
        name = "message" if path.startswith(("/v2", "/v3")) and not _is_kserve(path) else "error"
        body = answer.json
        if path.startswith(("/immersive", "/kiss", "/translate_a", "/v1/translateHtml")):
            body = body["error"]
            assert (body.keys(), body["code"]) == ({"code", "message", "status"}, answer.status)
            body = {"message": body["message"]}
            name = "message"
        elif path == "/mcp":
            assert body.keys() == {"jsonrpc", "id", "error"}
            body = {"message": body["error"]["message"]}
            name = "message"
        elif path.startswith("/v1/"):
            body = body["error"]
            assert body.keys() == {"message", "type", "param", "code"}
            body = {"message": body["message"]}
            name = "message"
        if "q" not in body and "code" in body:
            name = "message"  # DeepLX
            body.pop("code")
        assert list(body) == [name]
        assert isinstance(body[name], str)
        assert len(answer.body) < 2000


@pytest.mark.parametrize(("method", "path"), endpoints())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    _BODIES, _MEDIA_TYPES, st.none() | _TOKENS, st.sampled_from(["", "?a", "?q=%ff&q=", "?type=x"])
)
def test_arbitrary_input(
    app: Application,
    method: str,
    path: str,
    body: bytes,
    media_type: str,
    token: str | None,
    query: str,
) -> None:
    headers: dict[str, str] = {"content-type": media_type} if media_type else {}
    if token is not None:
        headers["authorization"] = token
    path = path.replace("{model}", "translate").replace("{version}", "1")
    for name in ("glossary_id", "document_id", "name"):
        path = path.replace(f"{{{name}}}", "00000000-0000-0000-0000-000000000000")
    answer = app.call(method, path + query, body, headers)
    check(path, answer)
    is_described = answer.status >= 400 or is_recorded(method, path)
    if path.startswith(("/v2", "/v3")) and not _is_kserve(path) and is_described:
        assert faults(method, path, answer.status, answer.media_type, answer.body) == []


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/translate", "q"),
        ("/v2/translate", "text"),
        ("/v1/chat/completions", "messages"),
        ("/mcp", "params"),
        ("/v2/models/translate/infer", "inputs"),
        ("/v2/models/translate/generate", "text_input"),
    ],
)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_FIELDS)
def test_a_request_with_some_invalid_fields(
    app: Application, path: str, sent: str, fields: dict[str, Any]
) -> None:
    given_fields = {name: value for name, value in _RIGHT.items() if name not in ("q", "text")}
    body = given_fields | {sent: _RIGHT[sent]} | fields
    check(path, app.post(path, body))


def test_a_too_large_body_is_refused_in_each_format(app: Application) -> None:
    body = {"q": "a" * 200_000, "text": "a" * 200_000}
    assert app.post("/translate", body).status == 413
    assert app.post("/v2/translate", body).json["message"].startswith("the body has more than")
