"""Requests of the load test over both protocols, against servers without a model."""

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
from dragoman_client.core.access import Access
from dragoman_load_test.requests.target import Target
from faulty_servers import http_server
from load_requests import send
from stand_ins import ENDLESS, KINDS, LATE, TlsFiles


def test_an_answer_is_counted(triton_url: str) -> None:
    """Sentences and tokens are counted."""
    options = {"target_language": "de", "beam_width": 2}
    answer = send(Target.of(triton_url, options=options), "abc", "d")
    assert (answer.sentences, answer.first_s) == (2, None)
    assert answer.tokens == 4  # one for each letter


def test_the_first_part_of_a_stream_is_timed(triton_url: str) -> None:
    """Sentences and tokens of a stream are counted at its end."""
    before_s = time.perf_counter()
    answer = send(Target.of(triton_url, streamed=True), "abc")
    assert (answer.sentences, answer.tokens) == (1, len("abc"))
    assert answer.first_s is not None
    assert before_s < answer.first_s < time.perf_counter()


def test_long_events_are_counted() -> None:
    """The event exceeds aiohttp's limit for a line."""
    event = {"text_output": "a" * 1_000_000, "output_tokens": 1, "finish_reason": "stop"}
    head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    stream = f"{head}data: {json.dumps(event)}\n\n".encode()

    def stream_one(connection: socket.socket, _answer: bytes) -> None:
        connection.sendall(stream)

    with http_server(lambda _texts: stream_one) as (url, _):
        assert send(Target.of(url, streamed=True), "abc").tokens == 1


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_a_refusal_raises_the_clients_error(
    triton_url: str, text: str, kind: type[Exception], streamed: bool
) -> None:
    """The message is the server's own."""
    with pytest.raises(TranslationError) as caught:
        send(Target.of(triton_url, streamed=streamed), text)
    assert type(caught.value) is kind
    assert str(caught.value) == f"refused: {text}"


def test_a_late_answer_is_an_error(triton_url: str) -> None:
    """A stream without an end is also an error."""
    with pytest.raises(DeadlineExceeded):
        send(Target.of(triton_url, timeout_s=0.2), LATE)
    with pytest.raises((ServerError, DeadlineExceeded)):
        send(Target.of(triton_url, streamed=True, timeout_s=0.5), ENDLESS)


@pytest.mark.parametrize("scheme", ["grpc", "http"])
def test_an_unreachable_server_is_reported(scheme: str, free_port: int) -> None:
    with pytest.raises(ServerUnavailable):
        send(Target.of(f"{scheme}://127.0.0.1:{free_port}"), "a")


def test_a_server_with_another_protocol_is_an_error(grpc_url: str) -> None:
    with pytest.raises(TranslationError):
        send(Target.of(grpc_url.replace("grpc", "http"), timeout_s=2), "a")


def test_tls_with_certificates(tls_url: str, client_files: TlsFiles) -> None:
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
def test_which_servers_notice_a_cancellation(scheme: str, streamed: bool, noticed: bool) -> None:
    """A load test that ends early waits for requests that their server would continue."""
    assert Target.of(f"{scheme}://localhost", streamed=streamed).notices_cancellation is noticed
