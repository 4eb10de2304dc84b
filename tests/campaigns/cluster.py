"""Two servers under one DNS name, the chart's Envoy in front of them, and a gateway in front of
that.

Each server has its own loopback address, with the same ports, like pods. A DNS server replaces the
cluster's: a pod that is about to end is removed from DNS first.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from dragoman_serving.launch.ports import Ports
from dragoman_serving.launch.processes import alive, children

from tests.campaigns.sentence import good_answer
from tests.campaigns.server import steady_ports
from tests.conftest import REPOSITORY
from tests.integration.gateway.conftest import run_gateway
from tests.kubernetes_tools import only, rendered

ADDRESSES = ("127.0.0.2", "127.0.0.3")
_START_S = 120.0
_LOOK_S = 0.05
_ENVOY = Path(sys.executable).with_name("envoy")
_CARES = "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"


class Member:
    """One `dragoman serve`, as in its own pod."""

    def __init__(self, address: str, ports: Ports) -> None:
        """Start it; `wait_until_ready` waits."""
        self.address, self._ports = address, ports
        self._log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115
        words = ["--no-gateway", "--address", address, "--grpc-connection-age", "5"]
        for name in ("http", "grpc", "metrics"):
            words += [f"--{name}-port", str(getattr(ports, name))]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dragoman", "serve", *words],
            cwd=REPOSITORY,
            stdout=self._log,
            stderr=self._log,
        )

    def wait_until_ready(self) -> None:
        """Wait until it translates."""
        deadline_s = time.monotonic() + _START_S
        while not good_answer(self._ports.http, host=self.address):
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise TimeoutError(f"no server: {Path(self._log.name).read_text()[-2000:]}")
            time.sleep(_LOOK_S)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal as Kubernetes does: SIGTERM to the launcher, others to all processes."""
        if self._process.poll() is not None:
            return
        pids = [self._process.pid, *children(self._process.pid)]
        for pid in pids[:1] if number == signal.SIGTERM else pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGKILL:
            _wait_for(lambda: not any(map(alive, pids[1:])))

    def wait(self) -> None:
        """Wait until it has ended."""
        self._process.wait(_START_S)

    def end(self) -> None:
        """Kill it, whatever it is doing."""
        self.signal(signal.SIGKILL)
        self.wait()
        self._log.close()


class Names(contextlib.AbstractContextManager["Names"]):
    """A DNS server that gives the same addresses to every name.

    Source: RFC 1035, section 4.
    """

    def __init__(self) -> None:
        """Listen on a free port."""
        self.addresses: tuple[str, ...] = ()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._answer, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):  # it is not connected; this only wakes the thread
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                query, peer = self._socket.recvfrom(512)
                if not query:
                    return
                self._socket.sendto(self._response(query), peer)

    def _response(self, query: bytes) -> bytes:
        question_end = query.index(b"\0", 12) + 5
        (kind,) = struct.unpack_from(">H", query, question_end - 4)
        found = self.addresses if kind == 1 else ()
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
        # Each answer refers to the question by a pointer; an IPv4 address (IN), TTL 0 s.
        records = (
            struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(one) for one in found
        )
        return head + query[12:question_end] + b"".join(records)


@dataclass(frozen=True)
class Balancer:
    """A running Envoy, with the ports of its listeners."""

    grpc_port: int
    http_port: int
    admin_port: int

    @property
    def grpc_url(self) -> str:
        """Port for clients over gRPC."""
        return f"grpc://127.0.0.1:{self.grpc_port}"

    @property
    def http_url(self) -> str:
        """Port for clients over HTTP."""
        return f"http://127.0.0.1:{self.http_port}"

    def requests(self) -> dict[str, int]:
        """Number of requests that each server got, by its address, over all protocols."""
        found = dict.fromkeys(ADDRESSES, 0)
        for address, host in self._hosts():
            if address in found:
                stats = {one["name"]: int(one.get("value", 0)) for one in host["stats"]}
                found[address] += stats["rq_total"]
        return found

    def counter(self, name: str) -> int:
        """A counter of its clusters, summed, such as `upstream_rq_retry`."""
        pattern = rf"^cluster\.triton_\w+\.{name}$"
        stats = self._admin(f"/stats?format=json&filter={pattern}")["stats"]
        return sum(one["value"] for one in stats)

    def healthy(self) -> set[str]:
        """Addresses of the servers that get requests over every protocol."""
        sick: set[str] = set()
        seen: dict[str, int] = {}
        for address, host in self._hosts():
            seen[address] = seen.get(address, 0) + 1
            if host["health_status"].get("failed_active_health_check"):
                sick.add(address)
        return {one for one in ADDRESSES if seen.get(one) == 2} - sick

    def _hosts(self) -> Iterator[tuple[str, Any]]:
        """Address and state of each server, once for each protocol."""
        for cluster in self._admin("/clusters?format=json")["cluster_statuses"]:
            for host in cluster.get("host_statuses", ()):
                yield host["address"]["socket_address"]["address"], host

    def _admin(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=10) as got:
            return json.load(got)


@dataclass
class Cluster:
    """The running cluster; `members` are by address."""

    ports: Ports
    names: Names
    balancer: Balancer
    gateway: str
    members: dict[str, Member] = field(default_factory=dict)

    def start(self, address: str) -> None:
        """Start a server, wait until it is ready, and add it to DNS, as Kubernetes does."""
        self.members[address] = Member(address, self.ports)
        self.members[address].wait_until_ready()
        self.names.addresses = (*self.names.addresses, address)
        _wait_for(lambda: address in self.balancer.healthy())

    def leave(self, address: str) -> None:
        """Remove a server from DNS; it keeps running."""
        self.names.addresses = tuple(one for one in self.names.addresses if one != address)

    def restart(self, address: str) -> None:
        """Stop the remaining processes of a server, and start it again."""
        self.leave(address)
        self.members.pop(address).end()
        self.start(address)


@contextlib.contextmanager
def running() -> Iterator[Cluster]:
    """Start the cluster, and wait until both servers get requests."""
    ports = Ports(*steady_ports(3))
    with (
        Names() as names,
        running_balancer(names.port, ports) as balancer,
        # Without a cache, so that every request reaches a server.
        run_gateway(balancer.grpc_url, balancer.http_url, cache_bytes=0) as gateway,
    ):
        cluster = Cluster(ports, names, balancer, gateway.url)
        try:
            for address in ADDRESSES:
                cluster.start(address)
            yield cluster
        finally:
            for member in cluster.members.values():
                member.end()


@contextlib.contextmanager
def running_balancer(dns_port: int, ports: Ports) -> Iterator[Balancer]:
    """The chart's Envoy, with other ports and another DNS server."""
    grpc_port, http_port, metrics_port, admin_port = steady_ports(4)
    text = only(rendered(), "ConfigMap", "dragoman-balancer")["data"]["envoy.yaml"]
    own = {"grpc": grpc_port, "http": http_port, "metrics": metrics_port}
    configuration = with_ports(yaml.safe_load(text), own, admin_port, dns_port, ports)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "envoy.yaml"
        path.write_text(yaml.safe_dump(configuration))
        words = ["--config-path", str(path), "--log-level", "warn", "--concurrency", "1"]
        words += ["--use-dynamic-base-id"]
        log = Path(folder) / "log"
        with log.open("wb") as file:
            process = subprocess.Popen([str(_ENVOY), *words], stdout=file, stderr=file)
        balancer = Balancer(grpc_port, http_port, admin_port)
        try:
            _wait_for(lambda: _answers(admin_port) or process.poll() is not None)
            if process.poll() is not None:
                raise OSError(f"no Envoy: {log.read_text()[-2000:]}")
            yield balancer
        finally:
            process.terminate()
            process.wait(_START_S)


def with_ports(
    configuration: dict[str, Any],
    own: dict[str, int],
    admin_port: int,
    dns_port: int,
    ports: Ports,
) -> dict[str, Any]:
    """The configuration of the chart, for this machine.

    Args:
        configuration: of Envoy.
        own: the port of each listener, by its name.
        admin_port: of the admin interface.
        dns_port: of the DNS server.
        ports: of the servers.
    """
    resolver = {"socket_address": {"address": "127.0.0.1", "port_value": dns_port}}
    configuration["admin"]["address"]["socket_address"]["port_value"] = admin_port
    for listener in configuration["static_resources"]["listeners"]:
        listener["address"]["socket_address"]["port_value"] = own[listener["name"]]
    for cluster in configuration["static_resources"]["clusters"]:
        (group,) = cluster["load_assignment"]["endpoints"]
        (one,) = group["lb_endpoints"]
        address = one["endpoint"]["address"]["socket_address"]
        if cluster["type"] == "STATIC":
            address["port_value"] = admin_port
            continue
        protocol = cluster["name"].removeprefix("triton_")
        address["port_value"] = getattr(ports, protocol)
        one["endpoint"]["health_check_config"]["port_value"] = ports.http
        cluster["typed_dns_resolver_config"] = {
            "name": "envoy.network.dns_resolver.cares",
            "typed_config": {"@type": _CARES, "resolvers": [resolver]},
        }
    return configuration


def _answers(admin_port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/ready", timeout=1):
            return True
    except OSError:
        return False


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + _START_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError("the cluster does not get ready")
        time.sleep(_LOOK_S)
