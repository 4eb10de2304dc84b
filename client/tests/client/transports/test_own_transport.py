"""Detection of the kind of an HTTP server, and the answers of a gateway."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from dragoman_client import (
    AccessDenied,
    AsyncTranslator,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    Translation,
    Translator,
)
from dragoman_client.testing import FakeServer
from dragoman_client.transports import own_wire


@contextmanager
def answering(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server that sends these answers in order, and repeats the last one.

    Yields:
        The URL, and the paths of the requests.
    """
    left, paths = list(answers), list[str]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            paths.append(self.path)
            status, headers, body = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/base", paths
    finally:
        server.shutdown()
        server.server_close()


def refusal(code: str, **more: Any) -> bytes:
    """The body of an error of a gateway."""
    return json.dumps({"error": {"code": code, "message": "m", **more}, "request_id": "1"}).encode()


INFO = b'{"product": "dragoman"}'
FOUND = json.dumps(
    {"translations": [{"text": "x", "finish_reason": "stop", "output_tokens": 1, "warnings": []}]}
).encode()


def test_the_kind_of_a_server_is_requested_once() -> None:
    """All requests are sent below the path of the URL."""
    with (
        answering((200, {}, INFO), (200, {}, FOUND)) as (url, paths),
        Translator(url) as translator,
    ):
        for _ in range(3):
            assert translator.translate("a").text == "x"
    assert paths == ["/base/api/v1/info", *["/base/api/v1/translate"] * 3]


async def test_concurrent_tasks_request_the_kind_once() -> None:
    with answering((200, {}, INFO), (200, {}, FOUND)) as (url, paths):
        async with AsyncTranslator(url) as translator:
            await asyncio.gather(*(translator.translate("a") for _ in range(20)))
    assert paths.count("/base/api/v1/info") == 1


@pytest.mark.parametrize(
    "answer",
    [
        (404, {}, b'{"error": "Not Found"}'),
        (400, {}, b""),
        (401, {}, b"<html>"),
        (200, {}, b"<html>"),
        (200, {}, b"[]"),
        (404, {}, b'{"error": {"code": "x"}}'),
    ],
)
def test_other_servers_are_treated_as_triton(answer: tuple[int, dict[str, str], bytes]) -> None:
    with answering(answer) as (url, paths), Translator(url, retries=0) as translator:
        translator.health()
    assert paths == ["/base/api/v1/info", "/base/v2/models/translate/ready"]


def test_the_kind_is_requested_again_after_an_error_of_a_proxy() -> None:
    with (
        answering((502, {}, b"<html>"), (200, {}, INFO), (200, {}, FOUND)) as (url, paths),
        Translator(url, retries=0) as translator,
    ):
        with pytest.raises(ServerUnavailable):
            translator.translate("a")
        assert translator.translate("a").text == "x"
    assert paths == [*["/base/api/v1/info"] * 2, "/base/api/v1/translate"]


def test_a_gateway_is_recognized_while_its_server_is_down() -> None:
    with (
        answering((503, {}, refusal("unavailable"))) as (url, paths),
        Translator(url, retries=0) as translator,
    ):
        assert translator.health().reason == "m"
    assert paths[-1] == "/base/api/v1/health"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_input", InvalidRequest),
        (400, "unsupported", InvalidRequest),
        (401, "key_missing", AccessDenied),
        (403, "key_refused", AccessDenied),
        (403, "forbidden", AccessDenied),
        (404, "not_found", InvalidRequest),
        (405, "wrong_method", InvalidRequest),
        (408, "slow_upload", DeadlineExceeded),
        (431, "head_too_large", InvalidRequest),
        (413, "too_large", InvalidRequest),
        (415, "wrong_media_type", InvalidRequest),
        (429, "too_many_requests", ServerUnavailable),
        (429, "quota_used_up", ServerUnavailable),
        (500, "internal", ServerError),
        (503, "unavailable", ServerUnavailable),
        (504, "deadline_exceeded", DeadlineExceeded),
        (418, "of a later version", ServerError),
    ],
)
def test_codes_raise_the_errors_of_the_client(
    status: int, code: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        own_wire.check_status(status, None, refusal(code))
    assert type(caught.value) is kind
    assert str(caught.value) == "m"


@pytest.mark.parametrize(
    ("body", "header", "seconds"),
    [
        (refusal("too_many_requests", retry_after_s=2.5), "9", 2.5),
        (refusal("unavailable"), "9", 9.0),
        (refusal("unavailable"), None, None),
        (refusal("unavailable"), "Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
def test_errors_have_the_time_of_a_retry(
    body: bytes, header: str | None, seconds: float | None
) -> None:
    with pytest.raises(ServerUnavailable) as caught:
        own_wire.check_status(503, header, body)
    assert caught.value.retry_after_s == seconds


@pytest.mark.parametrize("body", [b"", b"[]", b"<html>", b'{"error": []}', b'{"error": {}}'])
def test_other_refusals_are_mapped_by_their_status(body: bytes) -> None:
    with pytest.raises(AccessDenied):
        own_wire.check_status(403, None, body)


@pytest.mark.parametrize(
    ("method", "body"),
    [
        *(("translate", body) for body in (b"", b"[]", b"{}", b"[" * 99_999)),
        *(("translate", b'{"translations": [%b]}' % part) for part in (b"1", b"{}")),
        *(("translate_stream", body) for body in (b"", b": keep-alive\n\n", b"data: {}\n\n")),
        ("translate_stream", b"data: [\n\n"),
        ("translate_stream", b'event: error\ndata: {"error": 1}\n\n'),
    ],
)
def test_invalid_answers_are_errors(method: str, body: bytes) -> None:
    with (
        answering((200, {}, INFO), (200, {}, body)) as (url, _),
        Translator(url, retries=0) as translator,
        pytest.raises(ServerError),
    ):
        list(getattr(translator, method)("a"))


def test_a_stream_with_carriage_returns_and_comments() -> None:
    event = json.dumps({"text": "x", "finish_reason": "stop", "output_tokens": 1, "delta": "x"})
    stream = f": keep-alive\r\n\r\ndata: {event}\r\n\r\n".encode()
    with answering((200, {}, INFO), (200, {}, stream)) as (url, _), Translator(url) as translator:
        assert [part.text for part in translator.translate_stream("a")] == ["x"]


def test_a_key_is_sent_like_a_token() -> None:
    with FakeServer() as server:
        with Translator(server.gateway_url, api_key="drg_1") as translator:
            assert translator.translate("a").text == "<A>"
        assert server.requests[-1].headers["authorization"] == "Bearer drg_1"
    with pytest.raises(ValueError, match="token and api_key: give one"):
        Translator("http://localhost:5000", token="a", api_key="b")


def test_the_fake_gateway_answers_like_the_fake_triton() -> None:
    options: list[dict[str, Any]] = [
        {},
        {"num_return_sequences": 2, "return_scores": True},
        {"return_confidence": True, "return_token_scores": True, "return_bundle": True},
        {"return_alignments": "hard", "glossary": {"a": "b"}, "suppress": ["c", "d"]},
        {"source_language": "auto"},
    ]
    with (
        FakeServer() as server,
        Translator(server.gateway_url) as gateway,
        Translator(server.grpc_url) as triton,
    ):
        for more in options:
            texts = ["Good morning.", ""]
            assert gateway.translate(texts, **more) == triton.translate(texts, **more)
            inputs = [sent.inputs for sent in server.requests if sent.model == "translate"]
            assert inputs[-2].keys() == inputs[-1].keys()
        assert gateway.score("a", "b").score == triton.score("a", "b").score
        assert gateway.info() == triton.info()


def test_every_transport_returns_the_pivot_language() -> None:
    def through_english(text: str) -> Translation:
        return Translation(text.upper(), 1, "stop", via="en" if "b" in text else None)

    with FakeServer(through_english) as server:
        for url in (server.gateway_url, server.grpc_url, server.http_url):
            with Translator(url) as translator:
                answers = translator.translate(["a", "b"])
                assert [(answer.text, answer.via) for answer in answers] == [
                    ("A", None),
                    ("B", "en"),
                ]
                *_, last = translator.translate_stream("b")
                assert last.via == "en"
