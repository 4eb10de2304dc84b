"""Invalid requests over both protocols: one clear error each, and the server keeps serving."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from dragoman_client import InvalidRequest, Translator
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from tests.servers import Served, wait_for

LONG = "tree " * 400


@pytest.fixture(autouse=True)
def goes_on_serving(shipped: Served) -> Iterator[None]:
    """After each test, both protocols still translate, in the same process."""
    yield
    assert shipped.grpc.translate("I'm hungry.").text == "Ich habe Hunger."
    assert shipped.http.translate("I'm hungry.").text == "Ich habe Hunger."


def clients(shipped: Served) -> tuple[Translator, Translator]:
    return shipped.grpc, shipped.http


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x" * 2_000_000, {}, "text 0 has 2000000 characters, more than 100000"),
        (LONG, {"split_sentences": False}, "tokens, more than 254"),
        ("a", {"beam_width": 0}, "beam_width"),
        ("a", {"beam_width": 10_000}, "beam_width is 10000: give 1 to 8"),
        ("a", {"max_tokens": 100_000}, "max_tokens is 100000: give 1 to 320"),
        ("a", {"target_language": "xx"}, "target_language 'xx' is unknown; known: en, de, fr"),
    ],
)
def test_both_protocols_refuse_with_the_same_message(
    shipped: Served, text: str, options: dict[str, Any], message: str
) -> None:
    for client in clients(shipped):
        with pytest.raises((InvalidRequest, ValueError)) as caught:
            client.translate(text, **options)
        assert message in str(caught.value)
    status, answer = shipped.generate({"text_input": text, **options})
    assert status == 400
    assert message in answer["error"]
    assert "\n" not in answer["error"]


def test_missing_texts_are_named(shipped: Served) -> None:
    status, answer = shipped.generate({"text": "a", "target_language": "de"})
    assert (status, answer["error"]) == (400, 'text_input is missing {"kind":"invalid"}')


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        # Triton itself refuses invalid JSON or other types, with 500.
        (b"\xff\xfe\x00\x01" * 100, 500, "failed to parse the request JSON"),
        (b'{"text_input": 5}', 500, "Unable to parse"),
        (b'{"text_input": null}', 500, "Unable to parse"),
        (b'{"text_input": "a", "beam_width": "4"}', 500, "Unable to parse"),
        (b'{"text_input": "\\ud800"}', 500, "failed to parse the request JSON"),
        (b"{}", 400, "text_input"),
        (b'{"text_input": []}', 400, "text_input is empty"),
        (b'{"text_input": "\xff\xfe"}', 400, "text 0 is not valid UTF-8 at byte 0"),
        (b'{"text_input": "a", "beam_width": [1, 2]}', 400, "batch size does not match"),
        (b'{"text_input": "a", "length_penalty": -1}', 400, "length_penalty is -1.0: give 0"),
        (b'{"text_input": "' + b"x" * 20_000_000 + b'"}', 400, "text 0 has 20000000 characters"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_invalid_generate_bodies_get_one_error(
    shipped: Served, body: bytes, status: int, message: str
) -> None:
    code, answer = shipped.generate(body)
    assert code == status
    assert message in answer["error"]


@pytest.mark.parametrize("body", [b"", b"[]", b'"text"', b'{"text_input": {"a": 1}}'])
def test_no_request_at_all_gets_an_error(shipped: Served, body: bytes) -> None:
    status, answer = shipped.generate(body)
    assert status in (400, 500)
    assert answer["error"]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("text_input", np.array([[1, 2]], dtype=np.int32)),
        ("text_input", np.array([b"a"], dtype=np.object_)),
        ("text_input", np.array([[[b"a"]]], dtype=np.object_)),
        ("text_input", np.array([[]], dtype=np.object_)),
        ("text_input", np.array([[b"\xff\xfe"]], dtype=np.object_)),
        ("beam_width", np.array([[4.0]], dtype=np.float32)),
        ("beam_width", np.array([[1, 2]], dtype=np.int32)),
        ("target_language", np.array([[b"\xff"]], dtype=np.object_)),
        ("colour", np.array([[1]], dtype=np.int32)),
    ],
)
def test_wrong_tensors_are_refused(
    shipped: Served, name: str, values: np.ndarray[Any, np.dtype[Any]]
) -> None:
    inputs = {"text_input": np.array([[b"a"]], dtype=np.object_)} | {name: values}
    server = shipped.server
    for triton, url, status in (
        (triton_grpc, server.grpc_url, "StatusCode.INVALID_ARGUMENT"),
        (triton_http, server.http_url, "400"),
    ):
        tensors = []
        for key, array in inputs.items():
            kind = np_to_triton_dtype(array.dtype)
            tensors.append(triton.InferInput(key, list(array.shape), kind))
            tensors[-1].set_data_from_numpy(array)
        with (
            triton.InferenceServerClient(url.partition("://")[2]) as client,
            pytest.raises(InferenceServerException) as caught,
        ):
            client.infer("translate", tensors)
        assert caught.value.status() == status


@pytest.mark.parametrize("chunks", [1000, 1_000_000])
def test_a_chunked_body_of_many_chunks(shipped: Served, chunks: int) -> None:
    with socket.create_connection(("127.0.0.1", shipped.server.ports.http), 60) as connection:
        connection.sendall(
            b"POST /v2/models/translate/generate HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(chunks // 1000):
            connection.sendall(b"1\r\nx\r\n" * 1000)
        connection.sendall(b"0\r\n\r\n")
        answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"error" in answer


HALF = b"POST /v2/models/translate/generate HTTP/1.1\r\nContent-Le"
HALF_BODY = (
    b"POST /v2/models/translate/generate HTTP/1.1\r\nHost: localhost\r\n"
    b'Content-Length: 1000\r\n\r\n{"text_input": "I\'m'
)
MANY_CONNECTIONS = 50


def sockets(served: Served) -> int:
    """Number of sockets that Triton has open."""
    count = 0
    for entry in Path(f"/proc/{served.server.pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            count += str(entry.readlink()).startswith("socket:")
    return count


@pytest.mark.parametrize("sent", [HALF, HALF_BODY], ids=["head", "body"])
def test_an_incomplete_http_request_is_freed_and_does_not_delay_others(
    shipped: Served, sent: bytes
) -> None:
    before = sockets(shipped)
    with contextlib.ExitStack() as opened:
        for _ in range(MANY_CONNECTIONS):
            address = ("127.0.0.1", shipped.server.ports.http)
            opened.enter_context(socket.create_connection(address, 10)).sendall(sent)
        wait_for(lambda: sockets(shipped) >= before + MANY_CONNECTIONS)
        for client in clients(shipped):
            assert client.translate("I'm hungry.").text == "Ich habe Hunger."
        assert sockets(shipped) >= before + MANY_CONNECTIONS  # they were still open
    # The fixture's clients may have opened connections of their own.
    wait_for(lambda: sockets(shipped) < before + MANY_CONNECTIONS // 2)


def test_connections_without_http2_are_closed(shipped: Served) -> None:
    with socket.create_connection(("127.0.0.1", shipped.server.ports.grpc), 10) as connection:
        connection.sendall(HALF)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(4096):
                pass  # until the server closes the connection: a timeout is an error
