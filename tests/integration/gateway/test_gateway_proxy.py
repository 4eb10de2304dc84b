"""The deployment's proxy, a real NGINX, in front of a real gateway."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import TranslationError, Translator
from websockets.sync.client import connect

from tests.campaigns.http2 import Type, frame
from tests.gateways import RunningGateway, StartGateway
from tests.integration.http2_frames import request_frames
from tests.proxies import RATE, TIMEOUT_S, Proxy, assert_ends, running_site
from tests.waiting import wait_for

TRANSLATE = "/api/v1/translate"
HOST = b"Host: localhost\r\n"
HIDDEN = b"GET /api/v1/languages HTTP/1.1\r\n" + HOST + b"\r\n"
"""A request that the gateway must not see as one of its own."""
JSON = {"Content-Type": "application/json"}
SENTENCE = b'{"text": "Good morning.", "target_language": "de"}'


@pytest.fixture(scope="module")
def behind(
    start_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("state")
    with start_gateway(
        folder=folder,
        access_log=True,
        trusted_proxies=("127.0.0.0/8",),
        anonymous=True,
        anonymous_requests_per_minute=100_000,
        kserve_port=0,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def proxy(behind: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    changes = [
        ("burst=100 nodelay", "burst=50 nodelay"),
        ("client_header_timeout 10s", "client_header_timeout 2s"),
        ("client_body_timeout 15s", "client_body_timeout 2s"),
        ("client_body_timeout 75s", "client_body_timeout 2s"),
        ("keepalive_timeout 30s", "keepalive_timeout 2s"),
    ]
    with running_site(behind, folder, *changes) as site:
        yield site


def test_it_passes_on_websockets(proxy: Proxy) -> None:
    trust = ssl.create_default_context(cafile=str(proxy.certificate))
    with connect(f"wss://localhost:{proxy.port}/api/v1/live", ssl=trust) as live:
        live.send(json.dumps({"source_language": "en", "target_language": "de"}))
        assert "id" in json.loads(live.recv())
        live.send(json.dumps({"text": "Good morning."}))
        assert json.loads(live.recv())["translation"] == "Guten Morgen."


@pytest.mark.parametrize("name", ["metrics", "livez"])
@pytest.mark.parametrize(
    "path",
    ["/{}", "//{}", "/./{}", "/x/../{}", "/x/%2e%2e/{}", "/x/..%2f{}", "/%2f{}", "/{}/", "/{}?a"],
)
def test_endpoints_for_operators_are_not_published(proxy: Proxy, path: str, name: str) -> None:
    for spelling in (name, f"%{ord(name[0]):x}{name[1:]}"):
        assert proxy.ask(path.format(spelling)) == 404


def test_the_body_limit_is_the_size_of_a_document(proxy: Proxy) -> None:
    # As large as a document may be, so the gateway answers.
    status, answer = proxy.answer(TRANSLATE, b'{"text": "' + b"a" * (32 << 20), JSON)
    assert status == 413
    assert b"8,388,608 bytes" in answer
    status, answer = proxy.answer(TRANSLATE, b"a" * (34 << 20))
    assert (status, json.loads(answer)["error"]["code"]) == (413, "too_large")
    assert "33 MiB" in json.loads(answer)["message"]


def test_too_many_requests_are_refused(behind: RunningGateway, tmp_path: Path) -> None:
    changes = [
        (f"rate={RATE}r/s", "rate=1r/m"),
        ("burst=100 nodelay", "burst=9 nodelay"),
    ]
    with running_site(behind, tmp_path, *changes) as proxy:
        answers = [proxy.answer(TRANSLATE, SENTENCE, JSON) for _ in range(20)]
    assert {status for status, _ in answers} == {200, 429}
    refused = next(body for status, body in answers if status == 429)
    assert json.loads(refused)["error"]["code"] == "too_many_requests"


_HEAD = b"POST /api/v1/translate HTTP/1.1\r\nHost: localhost\r\n"
_H2 = request_frames("/inference.GRPCInferenceService/ModelInfer", scheme=b"https")


_HALF_SENT = (
    ("http/1.1", b""),
    ("http/1.1", _HEAD[:30]),
    ("http/1.1", _HEAD + b"X-Half: "),
    ("http/1.1", _HEAD + b"Content-Length: 9\r\n\r\n{"),
    ("http/1.1", b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ("h2", b""),
    ("h2", b"PRI * HTTP/2.0\r\n"),
    ("h2", request_frames("/")[:45]),
    ("h2", _H2),
    ("h2", _H2 + frame(Type.DATA, 0, 1, struct.pack(">BI", 0, 100) + b"half")),
)


def test_idle_and_half_sent_connections_end(proxy: Proxy) -> None:
    """All at once, as each takes seconds."""
    with contextlib.ExitStack() as stack:
        connections = []
        for protocol, sent in _HALF_SENT:
            connections.append(stack.enter_context(proxy.connect(protocol)))
            connections[-1].sendall(sent)
        for connection, case in zip(connections, _HALF_SENT, strict=True):
            try:
                assert_ends(connection)
            except TimeoutError:
                pytest.fail(f"the connection is held: {case}")


def test_a_connection_without_a_handshake_ends(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT_S) as connection:
        connection.sendall(b"\x16\x03\x01")
        assert_ends(connection)


def test_clients_of_triton_pass_through_it(proxy: Proxy) -> None:
    path = "/v2/models/translate/generate"
    body = b'{"text_input": "Good morning.", "target_language": "de"}'
    status, answer = proxy.answer(path, body)
    assert (status, json.loads(answer)["text_output"]) == (200, "Guten Morgen.")
    url = f"grpcs://localhost:{proxy.port}"
    with Translator(url, ca_file=proxy.certificate) as translator:
        options: Any = {"source_language": "en", "target_language": "de"}
        assert translator.translate("Good morning.", **options).text == "Guten Morgen."
        *_, last = translator.translate_stream("Good morning.", **options)
        assert last.text == "Guten Morgen."


def test_calls_over_grpc_count_for_the_address_of_their_client(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    with start_gateway(
        folder=tmp_path / "state",
        trusted_proxies=("127.0.0.0/8",),
        anonymous=True,
        anonymous_requests_per_minute=1,
        kserve_port=0,
    ) as gateway:
        forged = {"x-forwarded-for": "203.0.113.7"}
        with (
            running_site(gateway, tmp_path) as proxy,
            Translator(
                f"grpcs://localhost:{proxy.port}", ca_file=proxy.certificate, headers=forged
            ) as translator,
        ):
            assert translator.translate("Good morning.", target_language="de").text
            with pytest.raises(TranslationError, match="per minute"):
                translator.translate("Good morning.", target_language="de")
            assert _translated(proxy, "127.0.0.5", {})[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /?" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST,
        b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 9000 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + 9 * (b"X: " + b"a" * 4000 + b"\r\n"),
    ],
    ids=["URL", "field", "fields"],
)
def test_a_long_head_is_refused_as_json(proxy: Proxy, head: bytes) -> None:
    status, body = _sent(proxy, head + b"\r\n")
    assert (status, json.loads(body)["error"]["code"]) == (431, "head_too_large")
    assert proxy.ask("/readyz") == 200


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}",
        b"Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n2g\r\n{}\r\n0\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 400\r\n\r\n{}",
        b"Content-Length: +2\r\n\r\n{}",
        b"Content-Length: 0x2\r\n\r\n{}",
        b"Content-Length: 99999999999999999999\r\n\r\n{}",
        b"X: a\r\n Content-Length: 400\r\n\r\n",
        b"X: a\rContent-Length: 400\r\n\r\n",
        b"X: a\0\r\n\r\n",
        b"Host: other\r\n\r\n",
    ],
)
def test_no_request_hides_in_another(proxy: Proxy, behind: RunningGateway, fields: bytes) -> None:
    def count() -> int:
        return sum('"endpoint":"/api/v1/languages"' in line for line in behind.log)

    before = count()
    status, _ = _sent(proxy, b"POST /translate HTTP/1.1\r\n" + HOST + fields + HIDDEN)
    assert 400 <= status < 600
    assert behind.get("/api/v1/languages").status in (200, 403)  # its line is the next
    wait_for(lambda: count() > before)
    assert count() == before + 1


def test_clients_cannot_choose_their_address(start_gateway: StartGateway, tmp_path: Path) -> None:
    """Limits count the address that NGINX sees, whatever a client writes into its headers."""
    with (
        start_gateway(
            folder=tmp_path / "state",
            trusted_proxies=("127.0.0.0/8",),
            anonymous=True,
            anonymous_requests_per_minute=3,
        ) as gateway,
        running_site(gateway, tmp_path) as proxy,
    ):
        names = ("X-Forwarded-For", "Forwarded", "X-Real-IP", "X_Forwarded_For", "X-Request-ID")
        spoofed = [dict.fromkeys(names, f"203.0.113.{number}") for number in range(6)]
        answers = [_translated(proxy, "127.0.0.4", headers) for headers in spoofed]
        assert [status for status, _ in answers] == [200] * 3 + [429] * 3
        assert not {request_id for _, request_id in answers} & {
            headers["X-Request-ID"] for headers in spoofed
        }
        assert _translated(proxy, "127.0.0.5", {})[0] == 200


def test_stalled_uploads_are_limited_before_they_are_complete(
    proxy: Proxy, behind: RunningGateway
) -> None:
    """The proxy does not store them, and the gateway gives each client a share."""
    head = (
        b"POST /translate_file HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
        b"Content-Type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
        b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n' % (32 << 20)
    )
    with contextlib.ExitStack() as held:
        for _ in range(2):
            upload = held.enter_context(proxy.connect())
            with contextlib.suppress(OSError):  # the second one is refused before its end
                upload.sendall(head + bytes(31 << 20))
        assert upload.recv(99).startswith(b"HTTP/1.1 429 ")
        assert _translated(proxy, "127.0.0.5", {})[0] == 200
    assert not [line for line in behind.log if "Traceback" in line]


def test_an_unavailable_gateway_is_reported_as_json(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    with (
        start_gateway(trusted_proxies=("127.0.0.0/8",), anonymous=True) as gateway,
        running_site(gateway, tmp_path) as proxy,
    ):
        assert proxy.ask("/readyz") == 200
        gateway.stop()
        status, answer = proxy.answer(TRANSLATE, SENTENCE, JSON)
        assert (status, json.loads(answer)["error"]["code"]) == (503, "unavailable")


def test_one_client_does_not_deny_service_to_another(proxy: Proxy, behind: RunningGateway) -> None:
    """Stalled heads and uploads, unreadable requests, and forms that take long to read."""
    form = b"q=" + b"%41" * 600_000
    head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
    requests = [
        *20 * [b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Half: "],
        *20 * [head % (b"/translate_file", b"multipart/form-data; boundary=b", 31 << 20) + b"--b"],
        *10 * [b"FOO /" + b"a" * 7000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"],
        *4 * [head % (b"/translate", b"application/x-www-form-urlencoded", len(form)) + form],
    ]
    with contextlib.ExitStack() as held:
        for request in requests:
            connection = held.enter_context(proxy.connect())
            connection.sendall(request)
        for _ in range(10):
            other = http.client.HTTPSConnection(
                "localhost", proxy.port, context=proxy.context(), source_address=("127.0.0.3", 0)
            )
            other.request("POST", TRANSLATE, SENTENCE, JSON)
            answer = other.getresponse()
            assert (answer.status, b"Guten Morgen." in answer.read()) == (200, True)
            other.close()
        assert behind.get("/readyz").status == 200
    assert not [line for line in behind.log if "Traceback" in line]


def _sent(proxy: Proxy, request: bytes) -> tuple[int, bytes]:
    """Status and body of the first answer to a raw request."""
    with proxy.connect() as connection:
        connection.sendall(request)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read()


def _translated(proxy: Proxy, address: str, headers: dict[str, str]) -> tuple[int, str | None]:
    """Status and id of a request from an address."""
    connection = http.client.HTTPSConnection(
        "localhost", proxy.port, context=proxy.context(), source_address=(address, 0)
    )
    with contextlib.closing(connection):
        connection.request("POST", TRANSLATE, SENTENCE, JSON | headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers["X-Request-ID"]
