"""A gateway's readiness while the server behind it starts and stops."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from dragoman_serving.launch.ports import free_ports

from tests.gateways import StartGateway
from tests.integration.gateway.test_operations import translate
from tests.servers import WAIT_S, running, starting, wait_for
from tests.waiting import hang

PORTS = (("grpc", "triton"), ("http", "triton_http"))


def test_it_is_ready_again_when_triton_is_back(tmp_path: Path, start_gateway: StartGateway) -> None:
    with running(tmp_path, "--no-gateway") as server:
        urls = {"triton": server.grpc, "triton_http": server.http}
        ports = [f"--{name}-port={urls[key].rpartition(':')[2]}" for name, key in PORTS]
        with start_gateway(**urls) as gateway:
            assert (gateway.get("/readyz").status, translate(gateway)) == (200, 200)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(WAIT_S)
            assert (gateway.get("/readyz").status, translate(gateway)) == (503, 503)
            with running(tmp_path, "--no-gateway", *ports):
                wait_for(lambda: gateway.get("/readyz").status == 200)
                assert translate(gateway) == 200


def test_it_becomes_ready_when_the_models_have_loaded(
    tmp_path: Path, start_gateway: StartGateway
) -> None:
    """The gateway starts before its server; the engine is paused while it loads its model."""
    ports = dict(zip(("grpc", "http", "metrics"), free_ports(3), strict=True))
    urls = {"triton": f"grpc://127.0.0.1:{ports['grpc']}"}
    urls["triton_http"] = f"http://127.0.0.1:{ports['http']}"
    words = [f"--{name}-port={port}" for name, port in ports.items()]
    with start_gateway(**urls) as gateway, starting(tmp_path, *words, "--no-gateway") as server:
        assert gateway.get("/readyz").status == 503
        server.wait_for(lambda: {"engine", "triton"} <= server.pids().keys())
        engine = server.pids()["engine"]
        hang(engine)
        try:
            for _ in range(10):
                answer = gateway.get("/readyz")
                assert (answer.status, "retry-after" in answer.headers) == (503, True)
                assert (gateway.get("/livez").status, translate(gateway)) == (200, 503)
            assert not server.is_ready
        finally:
            os.kill(engine, signal.SIGCONT)
        server.wait_for(lambda: gateway.get("/readyz").status == 200)
        assert translate(gateway) == 200
