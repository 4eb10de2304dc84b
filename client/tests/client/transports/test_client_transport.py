"""The transports for gRPC and HTTP over real sockets."""

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from dragoman_client import (
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    Translator,
)
from dragoman_client.core.access import Access
from dragoman_client.core.address import read_url
from dragoman_client.testing.answers import Answers
from dragoman_client.testing.server import GrpcService, HttpServer, add_service
from either_translator import EitherTranslator
from server_fixtures import Either
from stand_ins import KINDS, LATE, TIMEOUT_S, translated

GUARD_S = 60.0
"""Time after which a test fails; no statement about how long something may take."""

EMPTY_SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
"""The first frame that an HTTP/2 server sends."""


@pytest.mark.parametrize(
    "url",
    [
        "//localhost:8001",
        "localhost:port",
        "user@localhost:8001",
        "localhost:8001/path",
        "",
        "ftp://localhost:8000",
        "grpc://",
        "http:///v2",
        "grpc://localhost:8001/path",
        "http://user:word@localhost:8000",
        "http://localhost:8000?model=translate",
        "http://localhost:port",
        "http://localhost:65536",
        "http://[::1",
    ],
)
def test_an_invalid_url_is_refused(url: str) -> None:
    """The message contains the invalid URL."""
    with pytest.raises(ValueError, match="URL ") as caught:
        Translator(url)
    assert url in str(caught.value)


@pytest.mark.parametrize(
    ("url", "full"),
    [
        ("localhost:8001", "grpc://localhost:8001"),
        ("localhost", "grpc://localhost:8001"),
        ("localhost:8000", "http://localhost:8000"),
        ("127.0.0.1:9000/path", "http://127.0.0.1:9000/path"),
        ("[::1]:8001", "grpc://[::1]:8001"),
    ],
)
def test_a_url_may_lack_its_scheme(url: str, full: str) -> None:
    """Triton's default ports determine a missing scheme."""
    assert read_url(url, Access()) == read_url(full, Access())


@pytest.mark.parametrize("scheme", ["grpc", "http", "grpcs", "https"])
def test_a_host_may_be_an_ipv6_address(scheme: str) -> None:
    """The port is the default of the scheme, or part of the URL."""
    usual = {"grpc": 8001, "http": 8000, "grpcs": 443, "https": 443}[scheme]
    for url, authority in (
        (f"{scheme}://[::1]", f"[::1]:{usual}"),
        (f"{scheme}://[::1]:9000/", "[::1]:9000"),
    ):
        assert read_url(url, Access()).authority == authority


async def translate_over(client: EitherTranslator) -> list[str]:
    """Translations of a text, by a request and by a stream."""
    async with client:
        return [(await client.translate("a")).text, (await client.parts("a"))[-1].text]


class Ipv6Server(HttpServer):
    """An HTTP server that listens on an IPv6 address."""

    address_family = socket.AF_INET6


async def test_http_connects_to_an_ipv6_address(either: Either) -> None:
    """The header `Host` contains the brackets and the port."""
    answers = Answers(translated)
    server = Ipv6Server(("::1", 0), answers)
    server.start()
    authority = f"[::1]:{server.server_address[1]}"
    assert await translate_over(either(f"http://{authority}")) == [translated("a")] * 2
    server.stop()
    assert [request.headers["host"] for request in answers.requests] == [authority] * 2


async def test_grpc_connects_to_an_ipv6_address(either: Either) -> None:
    """The server listens only on ::1."""
    server = grpc.server(ThreadPoolExecutor(4))
    add_service(server, GrpcService(Answers(translated)))
    url = f"grpc://[::1]:{server.add_insecure_port('[::1]:0')}"
    server.start()
    assert await translate_over(either(url)) == [translated("a")] * 2
    server.stop(grace=None).wait()


async def test_grpc_sends_an_authority_with_brackets(either: Either) -> None:
    """The pseudo-header is read from the connection, since gRPC servers do not expose it."""
    sent = bytearray()

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(10)
            connection.sendall(EMPTY_SETTINGS)
            while b"ModelInfer" not in sent and (chunk := connection.recv(65536)):
                sent.extend(chunk)

    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        serving = threading.Thread(target=serve, args=(listener,))
        serving.start()
        authority = f"[::1]:{listener.getsockname()[1]}"
        with pytest.raises(ServerUnavailable):
            await translate_over(either(f"grpc://{authority}", timeout_s=10, retries=0))
        serving.join()
    # A literal in HPACK: the length, then the value.
    assert b":authority" + bytes([len(authority)]) + authority.encode() in sent


async def test_texts_are_translated_with_all_options(either: Either, url: str) -> None:
    """The texts contain line feeds, null bytes and up to 100,000 characters."""
    texts = ["Grüße", "c\n", "a\0b", "x" * 100_000]
    options = {"source_language": "en", "target_language": "de", "max_tokens": 8, "beam_width": 4}
    async with either(url) as client:
        assert await client.is_ready()
        assert (await client.translate("Grüße")).text == translated("Grüße")
        assert await client.translate([]) == []
        translations = await client.translate(
            texts, **options, length_penalty=0.6, split_sentences=True
        )
    assert [translation.text for translation in translations] == [translated(t) for t in texts]
    assert [t.output_tokens for t in translations] == [len(text) for text in texts]


@pytest.mark.parametrize(("text", "kind"), KINDS)
async def test_a_refusal_keeps_class_and_message(
    either: Either, url: str, text: str, kind: type[Exception]
) -> None:
    """Requests and streams raise the same error, and the client stays usable."""
    async with either(url, retries=0) as client:
        for ask in (client.translate, client.parts):
            with pytest.raises(kind) as caught:
                await ask(text)
            assert (type(caught.value), str(caught.value)) == (kind, f"refused: {text}")
        assert (await client.translate("a")).text == translated("a")
        assert (await client.parts("a"))[-1].text == translated("a")


async def test_a_late_answer_is_not_used_for_the_next_request(either: Either, url: str) -> None:
    """An answer that arrives after the timeout is discarded."""
    answer = None
    async with either(url, timeout_s=TIMEOUT_S) as client:
        with pytest.raises(DeadlineExceeded):
            await client.translate(LATE)
        while answer is None:
            with contextlib.suppress(DeadlineExceeded):  # on a busy machine, of this one too
                answer = await client.translate("a")
    assert answer.text == translated("a")


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_a_server_that_never_answers_causes_a_timeout(scheme: str, silent_address: str) -> None:
    """The error is raised neither before the timeout nor much later."""
    with Translator(f"{scheme}://{silent_address}", timeout_s=TIMEOUT_S) as translator:
        begin_s = time.monotonic()
        with pytest.raises(DeadlineExceeded):
            translator.translate("a")
        assert TIMEOUT_S <= time.monotonic() - begin_s < GUARD_S


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_a_refused_connection_is_unavailable(scheme: str, free_port: int) -> None:
    """The error is raised immediately, and `is_ready` returns False."""
    begin_s = time.monotonic()
    with Translator(f"{scheme}://127.0.0.1:{free_port}", timeout_s=2 * GUARD_S) as translator:
        with pytest.raises(ServerUnavailable, match="refused"):
            translator.translate("a")
        assert not translator.is_ready()
    assert time.monotonic() - begin_s < GUARD_S


def test_grpc_reconnects_quickly() -> None:
    """The client tries about three times a second; gRPC's default would take 43 s for these."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        url = f"grpc://127.0.0.1:{listener.getsockname()[1]}"
        attempts = 0
        begin_s = time.monotonic()
        with Translator(url, timeout_s=TIMEOUT_S) as translator, ThreadPoolExecutor(1) as asker:
            while attempts < 8 and time.monotonic() - begin_s < 20:
                ready = asker.submit(translator.is_ready)
                with contextlib.suppress(TimeoutError):
                    listener.accept()[0].close()
                    attempts += 1
                assert not ready.result()
    assert attempts == 8


def test_http_reports_a_server_of_another_kind(http_url: str) -> None:
    """The answers are an error page of a proxy, and a page of another web server."""
    with Translator(http_url) as translator:
        with pytest.raises(ServerUnavailable, match="Bad Gateway"):
            translator.translate("!proxy")
        with pytest.raises(ServerError, match="not an answer of Triton"):
            translator.translate("!nonsense")


async def test_a_wrong_port_is_reported_with_the_right_url(
    either: Either, grpc_url: str, http_url: str
) -> None:
    """HTTP is sent to the port of gRPC, gRPC to the port of HTTP; a URL may lack its scheme."""
    host = grpc_url.removeprefix("grpc://")
    for url, kind, right in (
        (f"http://{host}", ServerError, f"{host} speaks gRPC, not HTTP: write {grpc_url}"),
        (host, ServerError, f"{host} speaks gRPC, not HTTP: write {grpc_url}"),
        (http_url.replace("http", "grpc"), ServerUnavailable, f"write {http_url}"),
    ):
        async with either(url, timeout_s=GUARD_S, retries=0) as client:
            with pytest.raises(kind) as caught:
                await client.translate("a")
        assert right in str(caught.value)
    async with either(http_url.removeprefix("http://")) as client:
        assert (await client.translate("a")).text == translated("a")


def test_http_reuses_its_connection(http_url: str, http_connections: set[Any]) -> None:
    """A refused request does not close the connection."""
    with Translator(http_url) as translator:
        for text in ("a", "!invalid", "b"):
            with contextlib.suppress(InvalidRequest):
                translator.translate(text)
    assert len(http_connections) == 1


def test_http_replaces_a_dropped_connection(http_url: str, http_connections: set[Any]) -> None:
    """The request after a drop opens a new connection, and the caller gets no error."""
    with Translator(http_url) as translator:
        translator.translate("!hangup")
        time.sleep(0.05)
        assert translator.translate("b").text == translated("b")
    assert len(http_connections) == 2


def test_http_retries_a_dropped_connection_once() -> None:
    """A server that drops every connection causes an error, not endless retries."""
    accepted: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                accepted.append(listener.accept()[0])
            except OSError:
                return
            with accepted[-1] as connection:
                for _ in range(2 * (len(accepted) == 1)):  # its kind, and whether it is ready
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                connection.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Translator(url, timeout_s=2.0, retries=0) as translator:
            assert translator.is_ready()
            with pytest.raises(ServerUnavailable):
                translator.translate("a")
        # A shutdown, unlike a close, wakes the thread that waits for a connection.
        listener.shutdown(socket.SHUT_RDWR)
        server.join(timeout=2)
    assert len(accepted) == 2


def test_many_short_threads_share_a_translator(url: str) -> None:
    """Each thread gets its own answer, and no file stays open after a thread has ended."""
    wrong: list[str] = []

    def work(translator: Translator, text: str) -> None:
        if translator.translate(text).text != translated(text):
            wrong.append(text)

    with Translator(url) as translator:
        translator.translate("warm up")
        files = len(list(Path("/proc/self/fd").iterdir()))
        for wave in range(10):
            threads = [
                threading.Thread(target=work, args=(translator, f"{wave}.{n}")) for n in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        # At most one connection for each concurrent request, counted at both ends.
        assert len(list(Path("/proc/self/fd").iterdir())) <= files + 2 * 4
    assert not wrong
