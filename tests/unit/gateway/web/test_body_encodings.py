"""Bodies with a byte order mark, a charset, or a content encoding."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import json
import zlib
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from dragoman_client.testing import translated
from dragoman_gateway.core.errors import InvalidInput, TooLarge, WrongMediaType
from dragoman_gateway.web.body_encodings import decompressed, in_utf_8
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.gateway.asgi import Application

TEXT = "The café is open for 3 €."
JSON, FORM = "application/json", "application/x-www-form-urlencoded"
DOORS = {
    "/api/v1/translate": {"text": TEXT, "target_language": "de"},
    "/translate": {"q": TEXT, "source": "en", "target": "de"},
    "/v2/translate": {"text": [TEXT], "target_lang": "DE"},
    "/api/v1/detect": {"text": TEXT},
}
"""An object for each protocol."""


def post(app: Application, path: str, body: bytes, kind: str = JSON, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return app.call("POST", path, body, {"content-type": kind, **names})


def written(path: str, encoding: str = "utf-8") -> bytes:
    return json.dumps(DOORS[path], ensure_ascii=False).encode(encoding)


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize(
    ("mark", "encoding", "charset"),
    [
        (codecs.BOM_UTF8, "utf-8", ""),
        (codecs.BOM_UTF8, "utf-8", "; charset=utf-8"),
        (b"", "utf-8", "; charset=UTF-8"),
        (b"", "utf-8", '; charset="utf8"'),
        (codecs.BOM_UTF16_LE, "utf-16-le", ""),
        (codecs.BOM_UTF16_BE, "utf-16-be", "; charset=utf-16"),
        (codecs.BOM_UTF16_LE, "utf-16-le", "; charset=utf-8"),
        (b"", "utf-16-le", ""),
        (b"", "utf-16-be", "; charset=utf-16be"),
        (codecs.BOM_UTF32_LE, "utf-32-le", ""),
        (b"", "cp1252", "; charset=windows-1252"),
        (b"", "iso8859-15", "; charset=ISO-8859-15"),
    ],
)
def test_json_in_any_charset_is_read(
    app: Application, path: str, mark: bytes, encoding: str, charset: str
) -> None:
    answer = post(app, path, mark + written(path, encoding), JSON + charset)
    assert answer.status == 200
    assert "detect" in path or translated(TEXT) in json.dumps(answer.json, ensure_ascii=False)


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize("name", ["gzip", "x-gzip", "GZIP"])
def test_a_compressed_body_is_read(app: Application, path: str, name: str) -> None:
    body = gzip.compress(codecs.BOM_UTF8 + written(path))
    assert post(app, path, body, content_encoding=name).status == 200
    assert post(app, path, written(path), content_encoding="identity").status == 200


@pytest.mark.parametrize("path", DOORS)
@pytest.mark.parametrize(
    ("name", "kind", "status", "message"),
    [
        ("br", JSON, 415, "content encoding 'br' is not supported"),
        ("zstd", JSON, 415, "content encoding 'zstd' is not supported"),
        ("gzip, gzip", JSON, 415, "content encoding 'gzip, gzip' is not supported"),
        ("gzip", JSON, 400, "the body is not valid gzip"),
        ("", f"{JSON}; charset=utf-7", 415, "charset 'utf-7' is not supported"),
        ("", f"{JSON}; charset=punycode", 415, "charset 'punycode' is not supported"),
        ("", f"{JSON}; charset=hex", 415, "charset 'hex' is not supported"),
        ("", f"{JSON}; charset=nothing", 415, "charset 'nothing' is not supported"),
        ("", f"{JSON}; charset=utf-16", 400, "the body is not valid"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(
    app: Application, path: str, name: str, kind: str, status: int, message: str
) -> None:
    answer = post(app, path, written(path) + b" ", kind, content_encoding=name)
    assert message in answer.body.decode()
    assert answer.status == status


@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-15", "windows-1252", "", "gb18030"])
def test_a_form_in_another_charset_is_read(app: Application, path: str, charset: str) -> None:
    text = "The café is open."
    name, more = {
        "/translate": ("q", "source=en&target=de"),
        "/v2/translate": ("text", "target_lang=DE"),
    }[path]
    written = text.encode(charset or "utf-8")
    value = quote_from_bytes(written)
    kind = f"{FORM}; charset={charset}" if charset else FORM
    answer = post(app, path, f"{name}={value}&{more}".encode(), kind)
    assert answer.status == 200
    assert translated(text) in answer.body.decode()
    raw = b"%s=%s&%s" % (name.encode(), written, more.encode())
    assert post(app, path, gzip.compress(raw), kind, content_encoding="gzip").body == answer.body
    assert post(app, path, raw, f"{FORM}; charset=utf-16").status == 415


def test_a_compressed_upload_is_refused(app: Application) -> None:
    for path in ("/translate_file", "/v2/document", "/api/v1/documents"):
        answer = post(app, path, b"x", "multipart/form-data; boundary=x", content_encoding="gzip")
        assert answer.status == 415
        assert b"content encoding" in answer.body


def test_a_bomb_is_refused_before_it_takes_memory() -> None:
    most = 100_000
    held = 0

    def hold(size: int) -> None:
        nonlocal held
        held += size
        if held > most:
            raise TooLarge("")

    with pytest.raises(TooLarge):
        decompressed(gzip.compress(bytes(50_000_000)), "gzip", hold)
    assert held < 2 * most
    with Application(body_bytes=most) as app:
        body = gzip.compress(b'{"text": "' + bytes(50 * most))
        assert post(app, "/api/v1/translate", body, content_encoding="gzip").status == 413
        answer = post(app, "/translate", written("/translate"))
        assert answer.status == 200


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_damaged_gzip_is_never_a_fault(content: bytes, more: bytes) -> None:
    whole = gzip.compress(content)
    assert decompressed(whole, "gzip", lambda _: None) == content
    for damaged in (whole[:-1], whole[:10], whole + more, content, zlib.compress(content)):
        if damaged == whole:
            continue
        with pytest.raises(InvalidInput):
            decompressed(damaged, "gzip", lambda _: None)


@given(
    st.binary(max_size=40),
    st.sampled_from([None, "", "utf-8", "utf-16", "latin-1", "hex", "\0", "é"]),
)
def test_any_bytes_are_read_or_refused(content: bytes, charset: str | None) -> None:
    with contextlib.suppress(InvalidInput, WrongMediaType):
        assert isinstance(in_utf_8(content, charset), bytes)
