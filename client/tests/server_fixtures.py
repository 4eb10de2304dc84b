"""Fixtures of the tests of the client and of the load test: fake servers, and a clock."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
import trustme
from dragoman_client import AsyncTranslator, Translator
from dragoman_client.testing.gateway_handler import GatewayHandler
from dragoman_client.testing.server import GrpcService, HttpServer, add_service
from either_translator import EitherTranslator
from faulty_servers import SlowGrpc, grpc_service
from stand_ins import TlsFiles, WrongAnswers, WrongHandler
from virtual_time import VirtualTime


@pytest.fixture(scope="session")
def grpc_url() -> Iterator[str]:
    """The URL of a gRPC server that translates."""
    with grpc_service(GrpcService(WrongAnswers())) as url:
        yield url


@pytest.fixture(scope="session")
def http_url() -> Iterator[str]:
    """The URL of an HTTP server that translates."""
    server = HttpServer(("127.0.0.1", 0), WrongAnswers(), WrongHandler)
    server.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.stop()


@pytest.fixture(scope="session")
def gateway_url() -> Iterator[str]:
    """The URL of a gateway that translates."""
    server = HttpServer(("127.0.0.1", 0), WrongAnswers(), GatewayHandler)
    server.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.stop()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The certificate authority of the TLS servers below, and of their clients."""
    return trustme.CA()


@pytest.fixture(scope="session")
def client_files(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """The certificate files of a client that the servers trust."""
    folder = tmp_path_factory.mktemp("tls")
    files = TlsFiles(folder / "ca.pem", folder / "certificate.pem", folder / "key.pem")
    own = authority.issue_cert("client@example.com")
    authority.cert_pem.write_to_path(str(files.ca))
    own.cert_chain_pems[0].write_to_path(str(files.certificate))
    own.private_key_pem.write_to_path(str(files.key))
    return files


@pytest.fixture(scope="session")
def grpcs_url(authority: trustme.CA) -> Iterator[str]:
    """The URL of a gRPC server with TLS, which requires client certificates."""
    own = authority.issue_cert("localhost")
    credentials = grpc.ssl_server_credentials(
        [(own.private_key_pem.bytes(), own.cert_chain_pems[0].bytes())],
        authority.cert_pem.bytes(),
        require_client_auth=True,
    )
    server = grpc.server(ThreadPoolExecutor(4))
    add_service(server, GrpcService(WrongAnswers()))
    port = server.add_secure_port("localhost:0", credentials)
    server.start()
    yield f"grpcs://localhost:{port}"
    server.stop(grace=None)


@pytest.fixture(scope="session")
def https_url(authority: trustme.CA) -> Iterator[str]:
    """The URL of an HTTP server with TLS, which requires client certificates."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    server = HttpServer(("localhost", 0), WrongAnswers(), WrongHandler)
    server.socket = context.wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )
    server.start()
    yield f"https://localhost:{server.server_address[1]}"
    server.stop()


@pytest.fixture(params=["grpcs", "https"])
def tls_url(request: pytest.FixtureRequest) -> str:
    """The URL of each server with TLS in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["grpc", "http", "gateway"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of each server in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture(params=["grpc", "http"])
def triton_url(request: pytest.FixtureRequest) -> str:
    """The URL of each server with Triton's protocols in turn."""
    return str(request.getfixturevalue(f"{request.param}_url"))


Either = Callable[..., EitherTranslator]


@pytest.fixture(params=[Translator, AsyncTranslator])
def either(request: pytest.FixtureRequest) -> Either:
    """Makes a client: a blocking one, then an asynchronous one."""
    return lambda *where, **how: EitherTranslator(request.param(*where, **how))


@pytest.fixture
def http_connections() -> set[Any]:
    """Client addresses of the translation requests to the HTTP server since the test began."""
    WrongHandler.connections.clear()
    return WrongHandler.connections


@pytest.fixture
def slow() -> Iterator[tuple[str, SlowGrpc]]:
    """The URL of a slow server for one test, and its service."""
    service = SlowGrpc()
    with grpc_service(service) as url:
        yield url, service
        service.go_on.set()


@pytest.fixture
def silent_address() -> Iterator[str]:
    """The address of a socket that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def free_port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    """A new clock; `time.sleep` moves it too."""
    clock = VirtualTime()
    monkeypatch.setattr(time, "perf_counter", lambda: clock.now_s)
    monkeypatch.setattr(time, "sleep", clock.move)
    monkeypatch.setattr(asyncio, "run", clock.run)
    return clock
