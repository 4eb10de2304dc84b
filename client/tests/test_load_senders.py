"""Requests of the load test over both protocols, against servers without a model."""

import asyncio
import json
import socket
import time

import pytest
from dragoman_client import (
    AccessDenied,
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    TranslationError,
)
from dragoman_client.access import Access
from dragoman_load_test.senders import Answered, open_senders
from dragoman_load_test.target import Target
from faulty_servers import http_server
from stand_ins import ENDLESS, KINDS, LATE, TlsFiles


def send(target: Target, *texts: str) -> Answered:
    """One request's answer."""

    async def run() -> Answered:
        async with open_senders(target, [texts]) as (only,):
            return await only()

    return asyncio.run(run())


def test_an_answer_is_counted(triton_url: str) -> None:
    """Sentences and their tokens."""
    options = {"target_language": "de", "beam_width": 2}
    found = send(Target.of(triton_url, options=options), "abc", "d")
    assert (found.sentences, found.first_s) == (2, None)
    assert found.tokens == 4  # a letter each


def test_a_stream_is_timed_from_its_first_part(triton_url: str) -> None:
    """And counted at its end."""
    before_s = time.perf_counter()
    found = send(Target.of(triton_url, streamed=True), "abc")
    assert (found.sentences, found.tokens) == (1, len("abc"))
    assert found.first_s is not None
    assert before_s < found.first_s < time.perf_counter()


def test_long_events_are_counted() -> None:
    """Longer than what aiohttp takes for a line."""
    event = {"text_output": "a" * 1_000_000, "output_tokens": 1, "finish_reason": "stop"}
    head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    stream = f"{head}data: {json.dumps(event)}\n\n".encode()

    def stream_one(connection: socket.socket, answer: bytes) -> None:
        connection.sendall(stream)

    with http_server(lambda texts: stream_one) as (url, _):
        assert send(Target.of(url, streamed=True), "abc").tokens == 1


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_a_refusal_has_the_clients_kind(
    triton_url: str, text: str, kind: type[Exception], streamed: bool
) -> None:
    """And keeps the server's message."""
    with pytest.raises(TranslationError) as caught:
        send(Target.of(triton_url, streamed=streamed), text)
    assert type(caught.value) is kind
    assert str(caught.value) == f"refused: {text}"


def test_no_answer_in_time_is_an_error(triton_url: str) -> None:
    """Also of a stream that has no end."""
    with pytest.raises(DeadlineExceeded):
        send(Target.of(triton_url, timeout_s=0.2), LATE)
    with pytest.raises((ServerError, DeadlineExceeded)):
        send(Target.of(triton_url, streamed=True, timeout_s=0.5), ENDLESS)


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_nobody_there(scheme: str, free_port: int) -> None:
    """Is told, and not waited for."""
    with pytest.raises(ServerUnavailable):
        send(Target.of(f"{scheme}://127.0.0.1:{free_port}"), "a")


def test_what_speaks_another_protocol(grpc_url: str) -> None:
    """Is no translation."""
    with pytest.raises(TranslationError):
        send(Target.of(grpc_url.replace("grpc", "http"), timeout_s=2), "a")


def test_tls_with_certificates(tls_url: str, client_files: TlsFiles) -> None:
    """As the client has it."""
    access = Access(
        ca_file=client_files.ca,
        certificate_file=client_files.certificate,
        key_file=client_files.key,
    )
    assert send(Target.of(tls_url, access=access), "abc").sentences == 1
    with pytest.raises((ServerUnavailable, AccessDenied)):
        send(Target.of(tls_url, timeout_s=2), "abc")


@pytest.mark.parametrize(
    ("scheme", "streamed", "noticed"),
    [("grpc", False, True), ("grpc", True, False), ("http", False, False), ("http", True, True)],
)
def test_what_the_server_notices(scheme: str, streamed: bool, noticed: bool) -> None:
    """A test that ends early waits for the rest."""
    assert Target.of(f"{scheme}://localhost", streamed=streamed).notices_cancellation is noticed
