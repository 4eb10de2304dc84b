"""Request bodies: how much is read, from whom, and how much is held at once."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest
from dragoman_gateway.core.caller import Limits
from dragoman_gateway.core.errors import InvalidInput, Unavailable
from dragoman_gateway.core.keys import add_key
from dragoman_gateway.own.bodies import options_of_form
from dragoman_gateway.web import endpoints, requests
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.requests import FORM, FORM_BYTES, BodiesInFlight, BoundedBody
from hypothesis import given
from hypothesis import strategies as st

from tests.timing import fastest_s
from tests.unit.gateway.asgi import Application

TEXT = {"q": "Hello.", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
ENDPOINTS = ["/translate", "/v2/translate", "/api/v1/translate", "/translate_file", "/v2/document"]
LARGE = b'{"text": "' + 100_000 * b"a"


@pytest.fixture(scope="module")
def locked() -> Iterator[tuple[Application, str]]:
    """An application that requires a key, and a key for it."""
    with Application(address="0.0.0.0") as app:
        _, secret = app._runner.run(app.gateway.store.write(lambda c: add_key(c, "")))
        app._runner.run(asyncio.sleep(0.6))
        yield app, secret


@pytest.mark.parametrize("path", ENDPOINTS)
def test_nothing_is_read_with_a_wrong_key(
    locked: tuple[Application, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(self: BoundedBody) -> Any:
        pytest.fail("the body was read")

    monkeypatch.setattr(BoundedBody, "__call__", read)
    answer = locked[0].call("POST", path, LARGE, JSON | {"authorization": "Bearer drg_wrong"})
    assert answer.status == 403


@pytest.mark.parametrize("path", ["/translate?api_key=wrong", "/v2/translate?auth_key=wrong"])
def test_a_key_in_the_query_is_checked_first(locked: tuple[Application, str], path: str) -> None:
    assert locked[0].call("POST", path, LARGE, JSON).status == 403


@pytest.mark.parametrize(
    ("path", "kind", "status", "field"),
    [
        ("/api/v1/translate", JSON["content-type"], 401, b"Authorization: Bearer KEY"),
        ("/v2/translate", JSON["content-type"], 403, b"Authorization: DeepL-Auth-Key KEY"),
        ("/v2/document", "multipart/form-data; boundary=x", 403, b"DeepL-Auth-Key KEY"),
    ],
)
def test_little_is_read_without_a_key(
    locked: tuple[Application, str], path: str, kind: str, status: int, field: bytes
) -> None:
    answer = locked[0].call("POST", path, LARGE, {"content-type": kind})
    assert answer.status == status
    assert b"a key is required" in answer.body
    assert field in answer.body


def test_a_key_in_the_body_is_accepted_where_clients_send_it(
    locked: tuple[Application, str],
) -> None:
    app, secret = locked
    assert app.post("/translate", TEXT | {"api_key": secret}).status == 200
    assert app.post("/translate", TEXT | {"api_key": "wrong"}).status == 403
    long = TEXT | {"q": 20_000 * "Hello. "}
    assert app.post("/translate", long | {"api_key": secret}).status == 200
    assert app.post("/translate", long | {"api_key": "wrong"}).status == 403
    assert app.post("/translate", long, authorization=f"Bearer {secret}").status == 200


def test_the_memory_for_bodies_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def made(most_bytes: int) -> BodiesInFlight:
        held.append(BodiesInFlight(most_bytes))
        return held[-1]

    monkeypatch.setattr(endpoints, "_HELD_BYTES", 0)
    monkeypatch.setattr(endpoints, "BodiesInFlight", made)
    with Application(body_bytes=100, file_bytes=100) as app:
        for _ in range(3):  # each is released
            assert app.post("/translate", TEXT).status == 200
        (bodies,) = held
        bodies.hold(90)
        answer = app.post("/translate", TEXT)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        bodies.let_go(90)
        assert app.post("/translate", TEXT).status == 200


def test_refused_bodies_do_not_count() -> None:
    bodies = BodiesInFlight(10)
    bodies.hold(8)
    with pytest.raises(Unavailable):
        bodies.hold(3)
    bodies.hold(2)


def form(kind: str, text: bytes) -> tuple[bytes, dict[str, str]]:
    """A form with the fields of `TEXT` and the content type `multipart/form-data`, with more."""
    fields = {name: value.encode() for name, value in TEXT.items()} | {"q": text, "text": text}
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value + b"\r\n"
        for name, value in (fields | {"target_lang": b"de", "source_lang": b"en"}).items()
    ]
    return b"".join([*parts, b"--x--\r\n"]), {
        "content-type": "multipart/form-data; boundary=x" + kind
    }


@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_forms_are_utf_8(path: str) -> None:
    with Application() as app:
        for kind in ("", "; charset=UTF-8", '; charset="utf8"'):
            assert app.call("POST", path, *form(kind, "é".encode())).status == 200
        for kind, text in (
            ("; charset=utf-7", b"+2AA-"),
            ("; charset=latin-1", b"a"),
            ("; charset=", b"\xff"),
        ):
            assert app.call("POST", path, *form(kind, text)).status == 400, (kind, text)


PARTS = [
    b"%",
    b"%41",
    b"%c3%A9",
    b"%C3",
    b"%26",
    b"%3D",
    b"=",
    b"&",
    b"+",
    b"a",
    b"\r\n",
    b"\xc3\xa9",
]


@given(st.lists(st.sampled_from(PARTS)).map(b"".join))
def test_forms_are_decoded_as_the_standard_library_does(body: bytes) -> None:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        with pytest.raises(InvalidInput, match="the form cannot be read"):
            requests._form_pairs(body)
    else:
        assert requests._form_pairs(body) == pairs


@pytest.mark.parametrize("part", [b"%41", b"%", b"%x", b"&", b"a=%&"])
def test_a_form_is_decoded_in_little_time(part: bytes) -> None:
    """At most 40 times that of the same form without escapes."""
    plain, escaped = (one * (FORM_BYTES // len(one)) for one in (b"a", part))

    def decode(body: bytes) -> None:
        with contextlib.suppress(InvalidInput):
            requests._form_pairs(b"q=" + body)

    assert fastest_s(lambda: decode(escaped)) < 40 * fastest_s(lambda: decode(plain))


def test_long_forms_are_decoded_off_the_event_loop_and_bounded(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def decode(body: bytes) -> list[tuple[str, str]]:
        threads.append(threading.current_thread())
        return [("q", "Hi."), ("source", "en"), ("target", "de")]

    monkeypatch.setattr(requests, "_form_pairs", decode)
    for size in (0, FORM_BYTES - 2):
        assert (
            app.call("POST", "/translate", b"q=" + size * b"a", {"content-type": FORM}).status
            == 200
        )
    short, long = threads
    assert short is threading.main_thread() is not long
    for path in ("/translate", "/v2/translate"):
        answer = app.call("POST", path, b"q=" + FORM_BYTES * b"a", {"content-type": FORM})
        assert answer.status == 413
        assert b"send application/json" in answer.body
    assert len(threads) == 2


@pytest.mark.parametrize("key", [False, True])
def test_refused_requests_count_for_limits(key: bool) -> None:
    limits = {"anonymous": True, "anonymous_requests_per_minute": 5}
    with Application(address="0.0.0.0", **limits) as app:
        headers = {"content-type": FORM}
        if key:
            _, secret = app._runner.run(
                app.gateway.store.write(
                    lambda c: add_key(c, "", limits=Limits(requests_per_minute=5))
                )
            )
            app._runner.run(asyncio.sleep(0.6))
            headers["authorization"] = f"Bearer {secret}"
        bodies = [b"q=%FF", b"q=a&source=en", b"", b"q=a&source=en&target=xx", b"q"]
        statuses = [app.call("POST", "/translate", body, headers).status for body in bodies]
        assert statuses == 5 * [400]
        good = b"q=Hi&source=en&target=de"
        for body in (bodies[0], good):
            answer = app.call("POST", "/translate", body, headers)
            assert answer.status == 429


def test_half_a_surrogate_pair_is_refused() -> None:
    half = rb'"a\ud800"'
    with Application() as app:
        for path in ENDPOINTS[:3]:
            for name in (b"text", b"q"):
                body = b'{"%s": %s, "source": "en", "target": "de"}' % (name, half)
                assert app.call("POST", path, body, JSON).status == 400
        glossary = app.post("/api/v1/glossaries", {"name": "a"}).json["id"]
        terms = f"/api/v1/glossaries/{glossary}/dictionaries/en/de"
        assert app.call("PUT", terms, b'{"a": %s}' % half, JSON).status == 400
    for value in ("a\ud800", ["b", "\udc00"]):
        with pytest.raises(InvalidInput, match="surrogate"):
            Fields({"q": value}).texts("q")
    with pytest.raises(InvalidInput, match="surrogate"):
        Fields({"q": "\ud800"}).text("q")
    assert options_of_form({"end_sequences": '["\\ud800"]'}) == {"end_sequences": '["\\ud800"]'}


def test_forms_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    close = requests.GatewayRequest.close

    async def noted(self: requests.GatewayRequest) -> None:
        await close(self)
        closed.append(self._form is not None)

    monkeypatch.setattr(requests.GatewayRequest, "close", noted)
    body = b'--x\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\na\r\n--x--\r\n'
    with Application() as app:
        for path in ENDPOINTS[:2] + ENDPOINTS[3:]:
            kind = {"content-type": "multipart/form-data; boundary=x"}
            assert app.call("POST", path, body, kind).status == 400
    assert closed == [True] * 4
