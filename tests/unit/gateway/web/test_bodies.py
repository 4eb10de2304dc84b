"""Request bodies: how much is read, from whom, and how much is held at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from dragoman_gateway.access.shares import Bodies, Budget
from dragoman_gateway.core.caller import Caller, Limits
from dragoman_gateway.core.errors import InvalidInput, SlowUpload, TooManyRequests, Unavailable
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.jobs.job_upload import JobUpload
from dragoman_gateway.protocols.own.bodies import options_of_form
from dragoman_gateway.web import requests
from dragoman_gateway.web.body_encodings import UTF_8
from dragoman_gateway.web.body_limits import BoundedBody
from dragoman_gateway.web.fields import Fields
from dragoman_gateway.web.requests import FORM, FORM_BYTES
from hypothesis import given
from hypothesis import strategies as st

from tests.exchanges import multipart
from tests.unit.gateway.asgi import Application

TEXT = {"q": "Hello.", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
ENDPOINTS = ["/translate", "/v2/translate", "/api/v1/translate", "/translate_file", "/v2/document"]
LARGE = b'{"text": "' + 100_000 * b"a"


@pytest.fixture(scope="module")
def locked() -> Iterator[tuple[Application, str]]:
    """An application that requires a key, and a key for it."""
    with Application(address="0.0.0.0") as app:
        secret = app.new_key()
        app.run(asyncio.sleep(0.6))
        yield app, secret


@pytest.mark.parametrize("path", ENDPOINTS)
def test_nothing_is_read_with_a_wrong_key(
    locked: tuple[Application, str], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(_self: BoundedBody) -> Any:
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


class Upload:
    """A body that arrives up to some byte and then stalls."""

    def __init__(
        self, app: Application, path: str, size: int, address: str, headers: dict[str, str]
    ) -> None:
        self.status = 0
        self._end = asyncio.Event()
        kind = {"content-type": "multipart/form-data; boundary=b"} | headers
        scope = app.scope("POST", path, kind | {"content-length": str(size + 1)}, address)
        head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        self._parts = [head, *(size >> 20) * [bytes(1 << 20)]]
        self._work = asyncio.ensure_future(app._application(scope, self._receive, self._send))

    async def arrive(self) -> int:
        """Wait until the body has stalled, or is refused; returns the status or 0."""
        while self._parts and not self._work.done():  # noqa: ASYNC110 - the application has no event
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        return self.status

    async def leave(self) -> None:
        self._end.set()
        await self._work

    async def _receive(self) -> Any:
        if self._parts:
            return {"type": "http.request", "body": self._parts.pop(0), "more_body": True}
        await self._end.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


@pytest.mark.parametrize("path", ["/translate_file", "/translate"])
def test_stalled_bodies_do_not_deny_service_to_others(
    locked: tuple[Application, str], path: str
) -> None:
    """Eight stalled uploads without a key come from one address, and then from many."""
    app, secret = locked
    largest = (31 << 20) if path == "/translate_file" else (7 << 20)
    authorized = {"authorization": f"Bearer {secret}"}
    small = TEXT | {"api_key": secret}

    async def attack(addresses: list[str]) -> list[int]:
        uploads, statuses = [], []
        for address in addresses:
            uploads.append(Upload(app, path, largest, address, {}))
            statuses.append(await uploads[-1].arrive())
        other = Upload(app, path, 1 << 20, "10.9.9.9", {})
        own = [Upload(app, path, largest, "10.8.8.8", authorized) for _ in range(2)]
        assert [await upload.arrive() for upload in own] == [0, 0]
        if len(set(addresses)) == 1:
            assert await other.arrive() == 0
        for upload in (*uploads, other, *own):
            await upload.leave()
        return statuses

    answered = app.run(attack(8 * ["10.1.1.1"]))
    assert answered.count(0) == 1
    assert answered.count(429) == 7
    many = app.run(attack([f"10.1.1.{number}" for number in range(8)]))
    assert many == 4 * [0] + 4 * [503]
    assert app.post("/translate", small).status == 200
    assert app.run(attack(8 * ["10.1.1.1"])) == answered  # all bytes were released


def test_a_key_has_a_share(locked: tuple[Application, str]) -> None:
    app, secret = locked

    async def statuses() -> list[int]:
        headers = {"authorization": f"Bearer {secret}"}
        uploads, codes = [], []
        for number in range(12):
            uploads.append(Upload(app, "/translate", 7 << 20, f"10.0.0.{number}", headers))
            codes.append(await uploads[-1].arrive())
        for upload in uploads:
            await upload.leave()
        return codes

    assert app.run(statuses()) == 9 * [0] + 3 * [429]


async def test_a_key_in_a_body_moves_it_to_the_share_of_the_key() -> None:
    bodies = Bodies(GatewaySettings())
    stranger, key = bodies.account(None, "10.0.0.1"), bodies.account(Caller("a", "a"), "10.0.0.1")

    body = BoundedBody(_parts(5, 7), 1 << 20, 30, bodies, "10.0.0.1")
    await body()
    await body()
    body.move_to_file(4)
    assert (stranger.memory.held, stranger.files.held) == (8, 4)
    body.charge(Caller("a", "a"))
    assert (stranger.memory.held, stranger.files.held) == (0, 0)
    assert (key.memory.held, key.files.held) == (8, 4)
    body.let_go()
    assert (key.memory.held, key.files.held) == (0, 0)


def test_refused_bytes_do_not_count() -> None:
    budget = Budget("bytes", 10, 8)
    budget.hold("a", 7)
    with pytest.raises(TooManyRequests):
        budget.hold("a", 2)
    with pytest.raises(Unavailable):
        budget.hold("b", 4)
    budget.hold("b", 3)
    budget.let_go("a", 7)
    budget.hold("a", 7)
    assert budget.held == 10


async def test_a_body_may_not_pause_for_long() -> None:
    """However much of it has arrived before."""
    body = BoundedBody(_parts(1 << 20), 2 << 20, 0.2, Bodies(GatewaySettings()), "")
    await body()
    async with asyncio.timeout(5):
        with pytest.raises(SlowUpload):
            await body()


def _parts(*sizes: int) -> Callable[[], Awaitable[Any]]:
    """ASGI's `receive` for a body that stalls after these parts."""
    left = list(sizes)

    async def receive() -> Any:
        if not left:
            await asyncio.sleep(30)
        return {"type": "http.request", "body": bytes(left.pop(0)), "more_body": True}

    return receive


def form(kind: str, text: bytes) -> tuple[bytes, dict[str, str]]:
    """A form with the fields of `TEXT` and the content type `multipart/form-data`, with more."""
    fields: dict[str, str | bytes] = {**TEXT, "q": text, "text": text}
    fields |= {"target_lang": "de", "source_lang": "en"}
    body, _ = multipart(*((name, value, None) for name, value in fields.items()))
    return body, {"content-type": "multipart/form-data; boundary=x" + kind}


@pytest.mark.parametrize("path", ["/translate", "/v2/translate"])
def test_forms_are_utf_8(path: str) -> None:
    with Application() as app:
        for kind in ("", "; charset=UTF-8", '; charset="utf8"'):
            assert app.call("POST", path, *form(kind, "é".encode())).status == 200
        for kind, text, status in (
            ("; charset=utf-7", b"+2AA-", 415),
            ("; charset=latin-1", b"a", 415),
            ("; charset=", b"\xff", 415),
        ):
            assert app.call("POST", path, *form(kind, text)).status == status, (kind, text)


PARTS = [
    *(b"%", b"%41", b"%c3%A9", b"%C3", b"%26", b"%3D"),
    *(b"=", b"&", b"+", b"a", b"\r\n", b"\xc3\xa9"),
]


@given(st.lists(st.sampled_from(PARTS)).map(b"".join))
def test_forms_are_decoded_as_the_standard_library_does(body: bytes) -> None:
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        with pytest.raises(InvalidInput, match="the form cannot be read"):
            requests._form_pairs(body, UTF_8)
    else:
        assert requests._form_pairs(body, UTF_8) == pairs


def test_long_forms_are_decoded_off_the_event_loop_and_bounded(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def decode(_body: bytes, _encoding: str) -> list[tuple[str, str]]:
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
    with Application(address="0.0.0.0", anonymous=True, anonymous_requests_per_minute=5) as app:
        headers = {"content-type": FORM}
        if key:
            secret = app.new_key(limits=Limits(requests_per_minute=5))
            app.run(asyncio.sleep(0.6))
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


UPLOAD = {"content-type": "multipart/form-data; boundary=x"}
FILE = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
TO_GERMAN = b'--x\r\nContent-Disposition: form-data; name="target_language"\r\n\r\nde\r\n'


def test_a_refused_upload_leaves_no_file(tmp_path: Path) -> None:
    with Application(folder=tmp_path) as app:
        for path in ENDPOINTS[:2] + ENDPOINTS[3:]:
            assert app.call("POST", path, FILE + b"a\r\n--x--\r\n", UPLOAD).status == 400
        for body in (b"a\r\n--y", b""):  # not complete
            assert app.call("POST", "/v2/document", FILE + body, UPLOAD).status == 400
        assert list((tmp_path / "documents").iterdir()) == []


@pytest.mark.parametrize("left", [True, False])
def test_an_upload_that_ends_early_leaves_no_file(left: bool, tmp_path: Path) -> None:
    """The client leaves, or sends nothing any more."""
    documents = tmp_path / "documents"
    with Application(folder=tmp_path, upload_timeout_s=0.5) as app:
        messages = iter([FILE + 100_000 * b"a", 100_000 * b"a"])
        kept: list[Path] = []

        async def receive() -> Any:
            if (part := next(messages, None)) is not None:
                return {"type": "http.request", "body": part, "more_body": True}
            kept.extend(documents.iterdir())
            if not left:
                await asyncio.sleep(30)
            return {"type": "http.disconnect"}

        async def send(_message: Any) -> None:
            pass

        scope = app.scope("POST", "/api/v1/documents", {**UPLOAD, "content-length": "1000000"})
        app.run(app._application(scope, receive, send))
        assert len(kept) == 1
        assert list(documents.iterdir()) == []


def test_an_upload_is_written_once_and_off_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, loop_thread, threads = 8 << 20, threading.get_ident(), set[int]()
    write = JobUpload.write

    def noted(self: JobUpload, content: bytes) -> int:
        threads.add(threading.get_ident())
        return write(self, content)

    monkeypatch.setattr(JobUpload, "write", noted)
    ended = threading.Event()

    def wait(text: str) -> str:
        ended.wait(30)
        return text

    text = (b"One two three four. " * (size // 20))[:size]
    with Application(wait, folder=tmp_path) as app:
        before = _written_bytes()
        body = TO_GERMAN + FILE + text + b"\r\n--x--\r\n"
        job = app.call("POST", "/api/v1/documents", body, UPLOAD)
        assert job.status == 202
        assert size < _written_bytes() - before < 1.2 * size
        (folder,) = (tmp_path / "documents").iterdir()
        assert folder.name == job.json["id"]
        assert (folder / "source").read_bytes() == text
        ended.set()
    assert threads
    assert loop_thread not in threads


def _written_bytes() -> int:
    """By all threads of this process, to files and sockets."""
    return int(Path("/proc/self/io").read_text().split("wchar: ")[1].split()[0])
