"""Damaged requests to the gateway, for all its protocols, as steps for a raw socket.

First a valid request is built in one of four forms: JSON, a form, a multipart form or a query. Then
some of its values, names, bytes or headers are damaged.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from urllib.parse import quote_plus, urlencode

from dragoman_options.table import OPTIONS

from tests.campaigns.http_damage import End, Kind, Step, mutated, request

_ID = "00000000-0000-4000-8000-000000000000"
_KEY = "drg_abcdefgh_0123456789abcdef"
_TEXT = "Good morning."


@dataclass(frozen=True)
class Call:
    """A valid call of a protocol.

    Attributes:
        method: of HTTP.
        path: of the call.
        fields: its body, or its query if it has none.
    """

    method: str
    path: str
    fields: Mapping[str, Any]


_OWN = "/api/v1"
_ENTRIES = {"cat": "Katze"}
_DICTIONARY = {"source_lang": "en", "target_lang": "de", "entries": "a\tb", "entries_format": "tsv"}
_MESSAGES = [{"role": "user", "content": _TEXT}]
_PROMPT = [{"role": "user", "content": f"Translate this from English to German: {_TEXT}"}]
_RPC = {"jsonrpc": "2.0", "id": 1}
_TOOL = {"name": "translate_text", "arguments": {"text": _TEXT, "target_language": "de"}}
_FILE = {"file_name": "a.txt", "content": _TEXT, "target_language": "de"}
_DOCUMENT = {"name": "translate_document", "arguments": _FILE}
_TENSOR = {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": [_TEXT]}
_MODELS = "/v2/models"
CALLS = (
    *[Call("POST", f"{_OWN}/translate", {"text": _TEXT, "target_language": "de"})] * 6,
    Call("POST", f"{_OWN}/translate", {"text": [_TEXT, "Hi."], "target_language": "fr"}),
    *[Call("POST", f"{_OWN}/translate/stream", {"text": _TEXT, "target_language": "de"})] * 3,
    Call("POST", f"{_OWN}/detect", {"text": _TEXT}),
    Call("GET", f"{_OWN}/languages", {}),
    Call("GET", f"{_OWN}/info", {}),
    Call("GET", f"{_OWN}/usage", {}),
    Call("GET", f"{_OWN}/openapi.json", {}),
    Call("POST", f"{_OWN}/alternatives", {"text": _TEXT, "target_language": "de", "prefix": "Gu"}),
    Call("POST", f"{_OWN}/score", {"text": _TEXT, "target": "Hallo.", "target_language": "de"}),
    Call("POST", f"{_OWN}/alignments", {"text": _TEXT, "target": "Hi.", "target_language": "de"}),
    Call("POST", f"{_OWN}/attention", {"text": _TEXT, "target_language": "de"}),
    Call(
        "POST",
        f"{_OWN}/glossaries",
        {
            "name": "a",
            "dictionaries": [
                {"source_language": "en", "target_language": "de", "entries": _ENTRIES}
            ],
        },
    ),
    Call("GET", f"{_OWN}/glossaries", {}),
    Call("PATCH", f"{_OWN}/glossaries/{_ID}", {"name": "b"}),
    Call("PUT", f"{_OWN}/glossaries/{_ID}/dictionaries/en/de", _ENTRIES),
    Call("DELETE", f"{_OWN}/glossaries/{_ID}", {}),
    Call("POST", f"{_OWN}/documents", {"file": b"Good morning.\n", "target_language": "de"}),
    *[Call("POST", f"{_OWN}/live", {"source_language": "en", "target_language": "de"})] * 2,
    Call("POST", f"{_OWN}/live/{'0' * 32}", {"text": _TEXT, "sequence": 1}),
    Call("POST", f"{_OWN}/memories", {"name": "a", "target_language": "de"}),
    Call("GET", f"{_OWN}/documents", {}),
    Call("GET", f"{_OWN}/documents/{_ID}", {"wait_s": "0"}),
    Call("GET", f"{_OWN}/documents/{_ID}/result", {}),
    *[Call("POST", "/translate", {"q": _TEXT, "source": "en", "target": "de"})] * 6,
    Call("POST", "/translate", {"q": ["a", "b"], "source": "auto", "target": "de"}),
    Call("POST", "/translate", {"q": _TEXT, "source": "en", "target": "de", "alternatives": 3}),
    Call("POST", "/detect", {"q": _TEXT}),
    Call("GET", "/languages", {}),
    Call("GET", "/frontend/settings", {}),
    Call("POST", "/suggest", {"q": _TEXT, "s": "Hallo.", "source": "en", "target": "de"}),
    Call("POST", "/translate_file", {"file": b"Hi.\n", "source": "en", "target": "de"}),
    Call("GET", f"/download_file/{_ID}.a.txt", {}),
    Call("GET", "/health", {}),
    Call("GET", "/spec", {}),
    *[Call("POST", "/v2/translate", {"text": [_TEXT], "target_lang": "DE"})] * 6,
    Call("POST", "/v2/translate", {"text": _TEXT, "source_lang": "EN", "target_lang": "FR"}),
    *[Call("POST", "/v1/chat/completions", {"model": "en-de", "messages": _MESSAGES})] * 4,
    Call("POST", "/v1/chat/completions", {"model": "de", "messages": _MESSAGES, "stream": True}),
    Call("POST", "/v1/chat/completions", {"model": "dragoman", "messages": _PROMPT}),
    Call("GET", "/v1/models", {}),
    Call("GET", "/v1/models/en-de", {}),
    *[Call("POST", "/immersive-translate", {"text_list": [_TEXT], "target_lang": "de"})] * 2,
    *[Call("POST", "/kiss-translator", {"texts": [_TEXT], "from": "en", "to": "de"})] * 2,
    Call("GET", "/translate_a/single", {"client": "gtx", "sl": "en", "tl": "de", "q": _TEXT}),
    *[Call("POST", "/translate_a/t", {"sl": "auto", "tl": "de", "format": "html", "q": _TEXT})] * 2,
    *[Call("POST", "/mcp", {**_RPC, "method": "tools/call", "params": _TOOL})] * 4,
    Call("POST", "/mcp", {**_RPC, "method": "tools/call", "params": _DOCUMENT}),
    Call("POST", "/mcp", {**_RPC, "method": "resources/read", "params": {"uri": "a"}}),
    Call("POST", "/mcp", {**_RPC, "method": "initialize", "params": {}}),
    *[Call("POST", f"{_MODELS}/translate/infer", {"inputs": [_TENSOR]})] * 3,
    Call("POST", f"{_MODELS}/translate/generate", {"text_input": _TEXT}),
    Call("POST", f"{_MODELS}/score/generate", {"text_input": _TEXT, "target_input": "Hi."}),
    Call("POST", f"{_MODELS}/translate_stream/generate_stream", {"text_input": _TEXT}),
    Call("GET", f"{_MODELS}/translate", {}),
    Call("GET", "/v2/usage", {}),
    Call("GET", "/v2/languages", {"type": "target"}),
    Call("GET", "/v3/languages", {"resource": "translate_text"}),
    Call("GET", "/v2/glossary-language-pairs", {}),
    Call("POST", "/v2/glossaries", {"name": "a", **_DICTIONARY}),
    Call("GET", f"/v2/glossaries/{_ID}/entries", {}),
    Call("POST", "/v3/glossaries", {"name": "a", "dictionaries": [_DICTIONARY]}),
    Call("PUT", f"/v3/glossaries/{_ID}/dictionaries", _DICTIONARY),
    Call("PATCH", f"/v3/glossaries/{_ID}", {"name": "c"}),
    Call("POST", "/v2/document", {"file": b"Hi.\n", "target_lang": "DE"}),
    Call("POST", f"/v2/document/{'A' * 32}", {"document_key": "B" * 64}),
    Call("POST", f"/v2/document/{'A' * 32}/result", {"document_key": "B" * 64}),
    Call("GET", "/", {}),
    Call("GET", "/livez", {}),
    Call("GET", "/metrics", {}),
)
_LATER = (
    *(*OPTIONS, "glossary_ids", "store", "api_key", "auth_key", "format", "alternatives"),
    *("tag_handling", "formality", "split_sentences", "model_type", "context", "ignore_tags"),
    *("custom_instructions", "glossary_id", "show_billed_characters", "wait_s", "filename"),
    *("text_list", "texts", "from", "to", "sl", "tl", "dj", "q"),
    *("text_input", "inputs", "outputs", "parameters", "timeout"),
    *("jsonrpc", "id", "method", "params", "arguments", "name"),
    *("messages", "stream", "stream_options", "chat_template_kwargs", "n", "tools"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 3, 10**30, -0.0, 1e308, 1.5, "", " ", "a", "de", "DE", "xx"),
    *("auto", "\x00", "\ud800", "a\ud83d", "%s%n", "../../etc/passwd", "é" * 300, "a " * 3000),
    *([], {}, [[]], [None], [1], ["a", 1], {"a": 1}, [{}], ["a"] * 200, {"text": "a"}, "1" * 400),
    *(_ID, _KEY, "en-US", "pt-BR", "true", "1", "nan", "Infinity", "9223372036854775808", b"a\x00"),
)
_TYPES = (
    *("application/json", "application/json; charset=utf-16", "application/x-www-form-urlencoded"),
    *("multipart/form-data", "multipart/form-data; boundary=", "text/csv", "text/plain", "", "x/y"),
    *("multipart/form-data; boundary=" + "b" * 300, "application/json, text/plain", "\xff"),
    "text/tab-separated-values",
)
_HEADERS = (
    *("Authorization: Bearer " + _KEY, "Authorization: DeepL-Auth-Key x:fx", "Authorization: x"),
    *("Authorization: Bearer ", "Authorization: Basic ÿ", "Host: evil.example", "Host: "),
    *("X-Forwarded-For: 1.2.3.4, \x01", "X-Forwarded-Proto: javascript", "Origin: null"),
    *("X-Forwarded-Prefix: //evil", "Accept: text/tab-separated-values", "Accept-Language: ,;q=x"),
    *("Content-Encoding: gzip", "Range: bytes=0-1,5-", "Expect: 100-continue", "Cookie: a=b"),
    *("Connection: upgrade\r\nUpgrade: websocket", "X-Request-ID: \x00", "If-None-Match: *"),
    *("Access-Control-Request-Method: POST", "TE: trailers", "X-Request-ID: " + "a" * 5000),
)
_PATHS = (
    *("//", "/..", "/%2e%2e/%2e%2e/etc/passwd", "/%00", "/api/v1", "/api/v1/", "/v2", "/v3/"),
    *("/api/v1/glossaries/%ff", "/download_file/..%2f..%2fx", "/static/../secrets", "*", "/%zz"),
    *("/v2/document/%00/result", "/api/v1/documents/" + "a" * 5000, "http://a/translate", "/é"),
)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "X")


def _encoded(call: Call, chance: Random, fields: Mapping[str, Any]) -> tuple[str, bytes, str]:
    """Path, body and content type, in one of the forms in which clients send fields."""
    has_file = any(isinstance(value, bytes) for value in fields.values())
    if call.method in ("GET", "DELETE"):
        query = "?" + urlencode(_flat(fields), quote_via=_quoted) if fields else ""
        return call.path + query, b"", ""
    form = chance.choice(("json",) * 5 + ("form", "form", "multipart", "query"))
    if has_file:
        form = chance.choice(("multipart",) * 9 + ("form",))
    if form == "multipart":
        return call.path, _multipart(fields), "multipart/form-data; boundary=xyz"
    if form == "json":
        return call.path, json.dumps(fields, default=repr).encode(), "application/json"
    written = urlencode(_flat(fields), quote_via=_quoted)
    if form == "query":
        return f"{call.path}?{written}", b"", ""
    return call.path, written.encode(), "application/x-www-form-urlencoded"


def _quoted(text: Any, *_: Any) -> str:
    return quote_plus(text, errors="surrogatepass") if isinstance(text, str) else quote_plus(text)


def _flat(fields: Mapping[str, Any]) -> list[tuple[str, str | bytes]]:
    parts: list[tuple[str, str | bytes]] = []
    for name, value in fields.items():
        for content in value if isinstance(value, list) else [value]:
            parts.append(
                (name, content if isinstance(content, str | bytes) else json.dumps(content))
            )
    return parts


def _multipart(fields: Mapping[str, Any]) -> bytes:
    parts = []
    for name, value in _flat(fields):
        head = f'--xyz\r\nContent-Disposition: form-data; name="{name}"'
        if isinstance(value, bytes):
            head += '; filename="a.txt"\r\nContent-Type: text/plain'
        body = value if isinstance(value, bytes) else value.encode(errors="surrogatepass")
        parts.append(head.encode(errors="surrogatepass") + b"\r\n\r\n" + body + b"\r\n")
    return b"".join(parts) + b"--xyz--\r\n"


def _sent(
    call: Call, path: str, body: bytes, media_type: str, headers: Sequence[str] = ()
) -> list[Step]:
    lines = [header.encode("latin-1", errors="replace") for header in headers]
    if media_type:
        lines.append(b"Content-Type: " + media_type.encode("latin-1"))
    raw = path.encode("latin-1", errors="replace").replace(b" ", b"%20")
    written = request("PATH", body, lines, method=call.method.encode())
    # The gateway's allowed host, unless a header is to name another.
    host = b"" if any(header.startswith("Host") for header in headers) else b"Host: localhost\r\n"
    return [written.replace(b"PATH", raw, 1).replace(b"Host: x\r\n", host, 1)]


def _right(chance: Random) -> list[Step]:
    call = chance.choice(CALLS)
    return _sent(call, *_encoded(call, chance, call.fields))


def _values(chance: Random) -> list[Step]:
    call = chance.choice(CALLS)
    fields: dict[str, Any] = dict(call.fields)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        how = chance.randrange(4)
        if how == 0 and fields:
            fields.pop(chance.choice([*fields]))
        elif how == 1 and fields:
            fields[chance.choice([*fields])] = chance.choice(_VALUES)
        else:
            fields[chance.choice(_LATER)] = chance.choice(_VALUES)
    return _sent(call, *_encoded(call, chance, fields))


def _whole_bodies(chance: Random) -> list[Step]:
    call = chance.choice([candidate for candidate in CALLS if candidate.method != "GET"])
    depth = chance.choice((100, 10_000, 500_000))
    body = chance.choice(
        (
            *(b"", b"null", b"[]", b'"a"', b"1", b"{", b"\xff\xfe", b"{}" * 1000, b"\x00"),
            *(b"[" * depth, b'{"a":' * depth, b"[" * depth + b"]" * depth),
            *(b"a=b&" * 20_000, b"&" * 1000, b"text=%ff", b"q=a;b", b"%", b"=" * 100),
            *(b"--xyz\r\n\r\n", b"--xyz--", b"--xyz\r\nContent-Disposition: form-data\r\n\r\na"),
            b"--xyz\r\n" + b"X: y\r\n" * 1000 + b"\r\n\r\n--xyz--",
            b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="\xff"\r\n\r\n\xff',
            gzip.compress(b'{"text": "a"}', mtime=0),
        )
    )
    kinds = (*_TYPES, *("multipart/form-data; boundary=xyz",) * 4)
    return _sent(call, call.path, body, chance.choice(kinds))


def _mutated(chance: Random) -> list[Step]:
    call = chance.choice(CALLS)
    path, body, media_type = _encoded(call, chance, call.fields)
    return _sent(call, path, mutated(chance, body), media_type)


def _media_types(chance: Random) -> list[Step]:
    call = chance.choice(CALLS)
    path, body, _ = _encoded(call, chance, call.fields)
    return _sent(call, path, body, chance.choice(_TYPES))


def _headers(chance: Random) -> list[Step]:
    call = chance.choice(CALLS)
    return _sent(call, *_encoded(call, chance, call.fields), [chance.choice(_HEADERS)])


def _paths(chance: Random) -> list[Step]:
    call = chance.choice(CALLS)
    path, body, media_type = _encoded(call, chance, call.fields)
    if chance.random() < 0.5:
        path = chance.choice(_PATHS)
    else:
        at = chance.randrange(len(path))
        odd = chance.choice(("%00", "%ff", "/", "..", "?", "#", "é", ""))
        path = path[:at] + odd + path[at + 1 :]
    return _sent(Call(chance.choice(_METHODS), call.path, {}), path or "/", body, media_type)


def _mutated_bytes(chance: Random) -> list[Step]:
    (whole,) = _right(chance)
    assert isinstance(whole, bytes)
    return [mutated(chance, whole), End.HALF_CLOSE]


def _chunks(chance: Random) -> list[Step]:
    call = Call("POST", "/translate", {"q": _TEXT, "source": "en", "target": "de"})
    body, sent = json.dumps(call.fields).encode(), b""
    while body:
        size = chance.randrange(1, 30)
        sent += b"%x\r\n%s\r\n" % (len(body[:size]), body[:size])
        body = body[size:]
    sent += chance.choice((b"0\r\n\r\n",) * 2 + (b"0\r\nX: y\r\n\r\n", b"-1\r\n", b"g\r\n", b""))
    headers = [b"Transfer-Encoding: chunked", b"Content-Type: application/json"]
    whole = request("/translate", sent, headers, length=False)
    return [whole.replace(b"Host: x", b"Host: localhost", 1), End.HALF_CLOSE]


def _lengths(chance: Random) -> list[Step]:
    length = chance.choice((0, 1, 10**6, -1, 2**31, 2**63, 2**64, "x", "5,5", "0x10", "+5", ""))
    headers = [b"Content-Type: application/json"]
    whole = request("/v2/translate", b'{"text":["a"],"target_lang":"DE"}', headers, length=length)
    return [whole.replace(b"Host: x", b"Host: localhost", 1), End.HALF_CLOSE]


def _cut(chance: Random) -> list[Step]:
    (whole,) = _right(chance)
    assert isinstance(whole, bytes)
    at = chance.randrange(1, len(whole) + 1)
    return [whole[:at], chance.choice((End.CLOSE, End.RESET, End.HALF_CLOSE))]


def _pipelined(chance: Random) -> list[Step]:
    pipeline = b""
    for _ in range(chance.randrange(2, 8)):
        (whole,) = _values(chance)
        assert isinstance(whole, bytes)
        pipeline += whole
    return [pipeline, End.HALF_CLOSE]


def _large_heads(chance: Random) -> list[Step]:
    call = Call("GET", "/languages", {})
    if chance.random() < 0.3:
        return _sent(call, "/" + "a" * chance.choice((9000, 100_000)), b"", "")
    headers = [f"X-{number}: y" for number in range(chance.choice((100, 5000)))]
    return _sent(call, call.path, b"", "", headers)


def _random_bytes(chance: Random) -> list[Step]:
    return [chance.randbytes(chance.randrange(1, 2000)), End.HALF_CLOSE]


KINDS = (
    Kind("right", 6, _right, True),
    Kind("values", 40, _values, True),
    Kind("whole bodies", 10, _whole_bodies, True),
    Kind("mutated bodies", 14, _mutated, True),
    Kind("content types", 6, _media_types, True),
    Kind("headers", 6, _headers, False),
    Kind("paths and methods", 8, _paths, False),
    Kind("mutated bytes", 5, _mutated_bytes, False),
    Kind("chunks", 3, _chunks, False),
    Kind("lengths", 2, _lengths, False),
    Kind("cut", 4, _cut, False),
    Kind("pipelined", 2, _pipelined, False),
    Kind("large heads", 1, _large_heads, False),
    Kind("random bytes", 3, _random_bytes, False),
)
