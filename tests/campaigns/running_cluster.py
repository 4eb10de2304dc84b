"""Servers and gateways like the pods of the Helm chart, on one machine.

Each server and each gateway has its own loopback address, with the same ports, like pods. A DNS
server replaces the cluster's: a pod that is about to end is removed from DNS first. Each gateway
has the chart's Envoy in front of the servers, like its sidecar. A program that calls the servers
directly has another one, and the gateways are behind a third kind, like that of a route: the same
configuration, for the gateways' name and readiness probe.
"""

from __future__ import annotations

import contextlib
import itertools
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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from dragoman_serving.launch.ports import Ports
from dragoman_serving.launch.processes import alive, children

from tests.campaigns.sentence import good_answer
from tests.campaigns.server import steady_ports
from tests.conftest import REPOSITORY
from tests.gateways import RunningGateway, run_gateway
from tests.kubernetes_tools import only, rendered

SERVERS, GATEWAYS = "dragoman-triton", "dragoman-gateway"
"""Names of the Services, without their namespace."""
LEAVE_S = 4.0
"""Time from the removal from DNS to SIGTERM: twice the interval of Envoy's DNS queries."""
_OPEN: dict[str, Any] = {
    "cache_bytes": 0,  # so that every request reaches a server
    "trusted_proxies": ("127.0.0.0/8",),
    "anonymous": True,
    "anonymous_requests_per_minute": 1_000_000,
    "anonymous_characters_per_minute": 100_000_000,
    "anonymous_concurrent_requests": 1000,
}
"""Settings of the gateways, which have no keys."""
_START_S = 120.0
_LOOK_S = 0.05
_ENVOY = Path(sys.executable).with_name("envoy")
_CARES = "type.googleapis.com/envoy.extensions.network.dns_resolver.cares.v3.CaresDnsResolverConfig"


class Server:
    """One `dragoman serve`, as in its own pod."""

    def __init__(self, address: str, ports: Ports) -> None:
        """Start it; `wait_until_ready` waits."""
        self.address, self._ports = address, ports
        self._log = tempfile.NamedTemporaryFile(suffix=".log")  # noqa: SIM115
        words = ["--no-gateway", "--address", address, "--grpc-connection-age", "5"]
        words += ["--workers", "1"]
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
    """A DNS server that knows the addresses of each Service.

    Source: RFC 1035, section 4.
    """

    def __init__(self) -> None:
        """Listen on a free port."""
        self.addresses: dict[str, tuple[str, ...]] = {}
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
        name = query[13 : 13 + query[12]].decode()  # up to the first dot
        addresses = self.addresses.get(name, ()) if kind == 1 else ()
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, len(addresses), 0, 0)
        # Each answer refers to the question by a pointer; an IPv4 address (IN), TTL 0 s.
        records = (
            struct.pack(">HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton(address)
            for address in addresses
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

    def requests(self) -> Counter[str]:
        """Number of requests that each server got, by its address, over all protocols."""
        counts: Counter[str] = Counter()
        for address, host in (pair for hosts in self._hosts() for pair in hosts.items()):
            stats = {stat["name"]: int(stat.get("value", 0)) for stat in host["stats"]}
            counts[address] += stats["rq_total"]
        return counts

    def retried(self) -> int:
        """Number of requests that it has sent again."""
        pattern = r"^cluster\.triton_\w+\.upstream_rq_retry$"
        stats = self._admin(f"/stats?format=json&filter={pattern}")["stats"]
        return sum(stat["value"] for stat in stats)

    def sends_to(self, address: str) -> bool:
        """Whether a server gets requests over every protocol."""
        return all(
            address in hosts
            and not hosts[address]["health_status"].get("failed_active_health_check")
            for hosts in self._hosts()
        )

    def _hosts(self) -> Iterator[dict[str, Any]]:
        """State of the servers by address, for each protocol."""
        for cluster in self._admin("/clusters?format=json")["cluster_statuses"]:
            if cluster["name"] != "admin":
                hosts = cluster.get("host_statuses", ())
                yield {host["address"]["socket_address"]["address"]: host for host in hosts}

    def _admin(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=10) as got:
            return json.load(got)


@dataclass(frozen=True)
class GatewayPod:
    """A gateway with its own Envoy; `stop` ends both, the gateway first."""

    balancer: Balancer
    gateway: RunningGateway
    stop: Callable[[], None]


@dataclass
class Cluster:
    """The running cluster; servers and gateways are by address."""

    ports: Ports
    gateway_port: int
    names: Names
    direct: Balancer
    """In front of the servers, for programs that call them directly."""
    front: Balancer
    """In front of the gateways."""
    servers: dict[str, Server] = field(default_factory=dict)
    gateways: dict[str, GatewayPod] = field(default_factory=dict)
    _unused: Iterator[str] = field(
        default_factory=lambda: (f"127.0.1.{number}" for number in itertools.count(1))
    )
    """As in Kubernetes, each pod has a new address."""
    _retried: int = 0
    """Retries of Envoys that have ended."""

    @property
    def balancers(self) -> list[Balancer]:
        """All Envoys in front of servers."""
        return [self.direct, *(gateway.balancer for gateway in self.gateways.values())]

    def requests(self) -> tuple[Counter[str], Counter[str]]:
        """Number of requests that each server and each gateway got, by address."""
        servers = sum((balancer.requests() for balancer in self.balancers), Counter[str]())
        return servers, self.front.requests()

    def retried(self) -> int:
        """Number of requests that Envoys have sent again."""
        return self._retried + self.front.retried() + sum(b.retried() for b in self.balancers)

    def start_servers(self, count: int) -> None:
        """Start servers, wait until they are ready, and add them to DNS, as Kubernetes does."""
        new = [Server(next(self._unused), self.ports) for _ in range(count)]
        self.servers |= {server.address: server for server in new}
        for server in new:
            server.wait_until_ready()
        self._add(SERVERS, [server.address for server in new], self.balancers)

    def start_gateways(self, count: int) -> None:
        """Start gateways, wait until they are ready, and add them to DNS."""
        for _ in range(count):
            address, stack = next(self._unused), contextlib.ExitStack()
            with stack:
                balancer = stack.enter_context(running_balancer(self.names.port, self.ports))
                settings = {"address": address, "port": self.gateway_port, **_OPEN}
                gateway = stack.enter_context(
                    run_gateway(balancer.grpc_url, balancer.http_url, **settings)
                )
                self.gateways[address] = GatewayPod(balancer, gateway, stack.pop_all().close)
            self._add(GATEWAYS, [address], [self.front])

    def leave(self, *addresses: str) -> None:
        """Remove servers or gateways from DNS, and wait until balancers know; they keep running."""
        self._forget(addresses)
        time.sleep(LEAVE_S)

    def stop(self, address: str) -> None:
        """End a server or gateway with SIGTERM, and wait for its end."""
        if address in self.gateways:
            self._retried += self.gateways[address].balancer.retried()
            self.gateways.pop(address).stop()
        else:
            server = self.servers.pop(address)
            server.signal(signal.SIGTERM)
            server.wait()
            server.end()

    def replace(self, address: str) -> None:
        """Remove what has remained of a server or gateway, and start another one."""
        self._forget((address,))
        if address in self.gateways:
            self.stop(address)
            self.start_gateways(1)
        else:
            self.servers.pop(address).end()
            self.start_servers(1)

    def end(self) -> None:
        """End everything."""
        for address in list(self.gateways):
            self.stop(address)
        for server in self.servers.values():
            server.end()

    def _add(self, name: str, addresses: Iterable[str], balancers: Iterable[Balancer]) -> None:
        known = self.names.addresses.get(name, ())
        self.names.addresses[name] = (*known, *addresses)
        pairs = list(itertools.product(balancers, addresses))
        _wait_for(lambda: all(balancer.sends_to(address) for balancer, address in pairs))

    def _forget(self, addresses: Iterable[str]) -> None:
        for name, known in self.names.addresses.items():
            self.names.addresses[name] = tuple(
                address for address in known if address not in addresses
            )


@contextlib.contextmanager
def running(servers: int, gateways: int) -> Iterator[Cluster]:
    """Start the cluster, and wait until every server and gateway gets requests."""
    ports, (gateway_port,) = Ports(*steady_ports(3)), steady_ports(1)
    with (
        Names() as names,
        running_balancer(names.port, ports) as direct,
        running_balancer(names.port, ports, gateway_port) as front,
    ):
        cluster = Cluster(ports, gateway_port, names, direct, front)
        try:
            cluster.start_servers(servers)
            cluster.start_gateways(gateways)
            yield cluster
        finally:
            cluster.end()


@contextlib.contextmanager
def running_balancer(
    dns_port: int, ports: Ports, gateway_port: int | None = None
) -> Iterator[Balancer]:
    """The chart's Envoy, with other ports and another DNS server.

    Args:
        dns_port: of the DNS server.
        ports: of the servers.
        gateway_port: of the gateways, if it is in front of these.
    """
    grpc_port, http_port, metrics_port, admin_port = steady_ports(4)
    text = only(rendered(), "ConfigMap", "dragoman-balancer")["data"]["envoy.yaml"]
    own = {"grpc": grpc_port, "http": http_port, "metrics": metrics_port}
    configuration = with_ports(yaml.safe_load(text), own, admin_port, dns_port, ports)
    if gateway_port is not None:
        of_gateways(configuration, gateway_port)
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
        (endpoint,) = group["lb_endpoints"]
        address = endpoint["endpoint"]["address"]["socket_address"]
        if "cluster_type" not in cluster:  # the admin interface
            address["port_value"] = admin_port
            continue
        protocol = cluster["name"].removeprefix("triton_")
        address["port_value"] = getattr(ports, protocol)
        endpoint["endpoint"]["health_check_config"]["port_value"] = ports.http
        cluster["cluster_type"]["typed_config"]["typed_dns_resolver_config"] = {
            "name": "envoy.network.dns_resolver.cares",
            "typed_config": {"@type": _CARES, "resolvers": [resolver]},
        }
    return configuration


def of_gateways(configuration: dict[str, Any], port: int) -> None:
    """Change a configuration for servers into one for gateways, which have only HTTP."""
    resources = configuration["static_resources"]
    resources["listeners"] = [
        listener for listener in resources["listeners"] if listener["name"] != "grpc"
    ]
    resources["clusters"] = [
        cluster for cluster in resources["clusters"] if cluster["name"] != "triton_grpc"
    ]
    (cluster,) = (cluster for cluster in resources["clusters"] if cluster["name"] == "triton_http")
    cluster["health_checks"][0]["http_health_check"] = {"path": "/readyz", "host": "localhost"}
    (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
    endpoint["endpoint"]["health_check_config"]["port_value"] = port
    address = endpoint["endpoint"]["address"]["socket_address"]
    address.update(address=address["address"].replace(SERVERS, GATEWAYS), port_value=port)


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
