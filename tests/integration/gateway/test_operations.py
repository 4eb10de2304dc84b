"""Probes, metrics, the access log, drain, and idle connections."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from dragoman_gateway.web.middleware.connections import HEAD_BYTES

from tests.gateways import RunningGateway, StartGateway
from tests.servers import WAIT_S, Served, wait_for

SECRET = "xylophone"


def translate(gateway: RunningGateway, text: str | list[str] = "Good morning.") -> int:
    body = {"text": text, "target_language": "de"}
    return gateway.post("/api/v1/translate?q=" + SECRET, body).status


def metric(gateway: RunningGateway, line: str) -> float:
    text = gateway.get("/metrics").body.decode()
    match = re.search(rf"^dragoman_gateway_{re.escape(line)} (\S+)$", text, re.MULTILINE)
    return float(match[1]) if match else 0.0


def answer_to(gateway: RunningGateway, sent: bytes) -> bytes:
    """All that the gateway sends until it closes the connection."""
    answer = b""
    with socket.create_connection(("127.0.0.1", gateway.port), WAIT_S) as connection:
        connection.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                answer += piece
    return answer


def test_probes_and_metrics(gateway: RunningGateway) -> None:
    for path in ("/livez", "/readyz"):
        answer = gateway.get(path)
        assert (answer.status, answer.json) == (200, {"status": "ok"})
    labels = '{endpoint="/api/v1/translate",protocol="own",status="2xx"}'
    before = metric(gateway, f"requests_total{labels}")
    counted = metric(gateway, 'request_seconds_count{protocol="own"}')
    characters = metric(gateway, 'characters_total{protocol="own"}')
    assert translate(gateway) == 200
    assert metric(gateway, f"requests_total{labels}") == before + 1
    assert metric(gateway, 'request_seconds_count{protocol="own"}') == counted + 1
    assert metric(gateway, 'characters_total{protocol="own"}') == characters + 13
    assert metric(gateway, "requests_in_flight") == 1  # this one
    hits = metric(gateway, "cache_hits_total")
    assert translate(gateway) == 200
    assert metric(gateway, "cache_hits_total") == hits + 1
    assert metric(gateway, "cache_size_bytes") > 0
    assert gateway.get("/" + SECRET).status == 404
    assert SECRET not in gateway.get("/metrics").body.decode()


def test_the_access_log_holds_no_text(start_gateway: StartGateway) -> None:
    with start_gateway(access_log=True) as gateway:
        assert translate(gateway, f"My {SECRET} is broken.") == 200
        assert gateway.get(f"/{SECRET}").status == 404
        assert (
            gateway.post(f"/api/v1/translate?{SECRET}", {"text": SECRET, SECRET: 1}).status == 400
        )
        gateway.get("/livez")
        gateway.stop()
        lines = [json.loads(line) for line in gateway.log if line.startswith("{")]
        assert SECRET not in "\n".join(gateway.log)
    assert [line["status"] for line in lines] == [200, 404, 400]
    assert {*lines[0]} == {
        *("time", "request_id", "trace_id", "protocol", "method", "endpoint", "status"),
        *("milliseconds", "characters", "key"),
    }
    assert lines[0]["endpoint"] == "/api/v1/translate"
    assert (lines[0]["characters"], lines[0]["key"]) == (len(f"My {SECRET} is broken."), None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[0]["time"])


def test_requests_finish_before_the_end(start_gateway: StartGateway, shipped: Served) -> None:
    texts = shipped.long_work(least=1, long_s=2.0)
    with start_gateway(timeout_s=WAIT_S) as gateway, ThreadPoolExecutor(1) as pool:
        under_way = pool.submit(translate, gateway, texts)
        wait_for(lambda: metric(gateway, "requests_in_flight") > 1)  # besides this one
        assert not under_way.done()
        assert gateway.stop() == 0
        assert under_way.result(WAIT_S) == 200


def test_it_is_not_ready_while_it_stops(start_gateway: StartGateway) -> None:
    with start_gateway(stop_delay_s=4) as gateway:
        gateway.process.send_signal(signal.SIGTERM)
        wait_for(lambda: gateway.get("/readyz").status == 503)
        answer = gateway.get("/readyz")
        assert answer.json["status"] == "stopping"
        assert answer.headers["retry-after"]
        assert translate(gateway) == 200  # still accepted
        assert gateway.process.wait(WAIT_S) == 0


def test_a_second_signal_ends_it_at_once(start_gateway: StartGateway) -> None:
    with start_gateway(stop_delay_s=10 * WAIT_S) as gateway:
        gateway.process.send_signal(signal.SIGINT)
        wait_for(lambda: gateway.get("/readyz").status == 503)
        assert gateway.stop(signal.SIGINT) == -signal.SIGINT


def test_without_a_server_it_is_alive_but_not_ready(start_gateway: StartGateway) -> None:
    with start_gateway(triton="grpc://localhost:1", triton_http="http://localhost:1") as gateway:
        assert gateway.get("/livez").status == 200
        answer = gateway.get("/readyz")
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        assert translate(gateway) == 503


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /api/v1/translate HTTP/1.1\r\nHost: localhost\r\nX-", b"408"),
        (b"\x16\x03\x01\x02\x00\x01\x00", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000, b"431"),
        (b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{", b"408"),
    ],
)
def test_slow_and_malformed_requests_end(slow: RunningGateway, sent: bytes, status: bytes) -> None:
    begin_s = time.monotonic()
    answer = answer_to(slow, sent)
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert b'{"error":' in answer
    assert time.monotonic() - begin_s < 20


FORM = b"Content-Type: multipart/form-data; boundary=x\r\n"
PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'


SLOW_BODIES = (
    (b"POST /api/v1/translate", b"Content-Length: 99999\r\n", b"", b"{", b"408"),
    (b"POST /v2/translate", b"Transfer-Encoding: chunked\r\n", b"", b"1\r\n{\r\n", b"408"),
    (b"POST /translate", b"Transfer-Encoding: chunked\r\n", b"1;", b"a", b"408"),
    (b"POST /translate", b"Transfer-Encoding: chunked\r\n", b"0\r\n", b"a: b\r\n", b"408"),
    (b"POST /translate_file", FORM + b"Content-Length: 99999\r\n", PART, b"a", b"408"),
    (b"POST /v2/document", FORM + b"Content-Length: 99999\r\n", PART, b"a", b"408"),
    (b"POST /api/v1/documents", FORM + b"Content-Length: 99999\r\n", PART, b"a", b"408"),
    (b"POST /v1/chat/completions", b"Content-Length: 99999\r\n", b"", b"{", b"408"),
    (b"POST /mcp", b"Content-Length: 99999\r\n", b"", b"{", b"408"),
    (b"POST /kiss-translator", b"Content-Length: 99999\r\n", b"", b"{", b"408"),
    (b"GET /livez", b"Content-Length: 99999\r\n", b"", b"{", b"408"),
    (b"POST /nowhere", b"Content-Length: 99999\r\n", b"", b"{", b"404"),  # before its body
)
"""Line, headers and begin of requests, the piece that is repeated, and the status."""


def test_bodies_that_arrive_too_slowly_end(slow: RunningGateway) -> None:
    """A few bytes arrive every 50 ms, which is below the rate of `--upload-timeout-s`.

    Several at once, as each takes seconds; a client may have ten connections.
    """

    def answer(line: bytes, headers: bytes, begin: bytes, piece: bytes, _status: bytes) -> bytes:
        head = line + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + begin
        answer, begin_s = b"", time.monotonic()
        with socket.create_connection(("127.0.0.1", slow.port), 0.05) as connection:
            connection.sendall(head)
            with contextlib.suppress(ConnectionError):
                while time.monotonic() - begin_s < 20:
                    with contextlib.suppress(TimeoutError):
                        received = connection.recv(65536)
                        if not received:
                            break
                        answer += received
                    connection.sendall(piece)
                else:
                    return b"the connection is held"
        return answer

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda request: answer(*request), SLOW_BODIES))
    for request, got in zip(SLOW_BODIES, answers, strict=True):
        assert got.startswith(b"HTTP/1.1 " + request[-1]), (request, got)


@pytest.mark.parametrize(
    ("before", "more_bytes", "statuses"),
    [
        (0, 0, [[b"200"]]),
        (0, 1, [[b"431"]]),
        (1, 0, [[b"200", b"200"]]),
        (1, 1, [[], [b"200"], [b"200", b"431"]]),  # the first one may be in progress
    ],
)
def test_a_request_head_has_a_size_limit(
    slow: RunningGateway, before: int, more_bytes: int, statuses: list[list[bytes]]
) -> None:
    """The limit also holds for a head that arrives together with another request."""
    other = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    begin = other.removesuffix(b"\r\n") + b"Connection: close\r\nX: "
    end = b"\r\n\r\n"
    head = begin + b"a" * (HEAD_BYTES + more_bytes - len(begin + end)) + end
    answer = answer_to(slow, before * other + head)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) in statuses


@pytest.mark.parametrize(
    ("line", "status", "body"),
    [
        (b"BREW /v2/translate?a=b", 405, {"message": "/v2/translate takes GET, POST, not BREW"}),
        (b"BREW /translate", 405, {"error": "/translate takes POST, not BREW"}),
        (b"BREW /v2/nothing", 404, {"message": "there is no /v2/nothing"}),
        (b"BREW /api/v1/translate", 405, {"error": {"code": "wrong_method"}}),
        (b"GET /v2/usage HTTP/x\r\n\r\n", 400, {"message": "this is not a valid HTTP request"}),
        (b"GET /v2/usage HTTP/1.1\r\nX" + 100_000 * b"x", 431, {"message": "the head of the"}),
        (b"POST /v2/translate HTTP/1.1\r\nX", 408, {"message": "the head of the request did"}),
    ],
)
def test_malformed_requests_get_the_error_format_of_their_protocol(
    slow: RunningGateway, line: bytes, status: int, body: dict[str, Any]
) -> None:
    rest = b"" if b"\r\n" in line else b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head, _, content = answer_to(slow, line + rest).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-type: application/json\r\n" in head
    ((name, value),) = body.items()
    error = json.loads(content)[name]
    if isinstance(value, str):
        assert error.startswith(value)
    else:
        assert error["code"] == value["code"]


@pytest.fixture(scope="module")
def slow(start_gateway: StartGateway) -> Iterator[RunningGateway]:
    with start_gateway(upload_timeout_s=1, connections=40) as running:
        yield running


def test_slow_clients_do_not_block_others(slow: RunningGateway) -> None:
    """Like Slowloris: many connections, each of which slowly sends header lines."""
    held = []
    try:
        for _ in range(60):
            connection = socket.create_connection(("127.0.0.1", slow.port), WAIT_S)
            held.append(connection)
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        answer = held[-1].recv(1000)
        assert answer.startswith(b"HTTP/1.1 429"), answer
        assert b"retry-after" in answer
        with socket.create_connection(
            ("127.0.0.1", slow.port), WAIT_S, source_address=("127.0.0.2", 0)
        ) as other:  # another client
            other.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.recv(1000).startswith(b"HTTP/1.1 200")
        begin_s = time.monotonic()
        while time.monotonic() - begin_s < WAIT_S:
            for connection in held:
                try:
                    connection.sendall(b"X-a: b\r\n")
                except OSError:
                    continue
            try:
                if translate(slow) == 200:
                    break
            except OSError:
                pass
            time.sleep(0.5)
        else:
            pytest.fail("connections are held for ever")
    finally:
        for connection in held:
            connection.close()
