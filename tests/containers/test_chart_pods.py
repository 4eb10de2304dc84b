"""The chart's pods, run with `podman kube play`, which has no Services."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.containers.conftest import SENTENCE, assert_confined, wait_until
from tests.containers.podman import ENGINE_IMAGE, ENVOY, GATEWAY_IMAGE, Podman
from tests.kubernetes_tools import only, rendered

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

NETWORK = "dragoman-pods"
IMAGES = (("triton", ENGINE_IMAGE), ("gateway", GATEWAY_IMAGE), ("balancer", ENVOY))


def test_a_gateway_pod_translates_through_its_balancer(podman: Podman, tmp_path: Path) -> None:
    values = ["gateway.anonymous=true", "triton.replicas=1", "gateway.replicas=1"]
    values += [f"scaling.{name}.by=none" for name in ("triton", "gateway")]
    for name, image in IMAGES:
        repository, tag = image.split(":")
        values += [f"{name}.image.repository={repository}", f"{name}.image.tag={tag}"]
    objects = rendered(*(word for value in values for word in ("--set", value)))
    podman.run("network", "create", NETWORK)
    triton = tmp_path / "triton.yaml"
    triton.write_text(yaml.safe_dump(only(objects, "Deployment", "dragoman-triton")))
    podman.run("kube", "play", "--network", NETWORK, triton)
    deployment = only(objects, "Deployment", "dragoman-gateway")
    _adapt(deployment["spec"]["template"]["spec"], podman.address("dragoman-triton-pod-0", NETWORK))
    gateway = tmp_path / "gateway.yaml"
    balancer = only(objects, "ConfigMap", "dragoman-balancer")
    gateway.write_text(yaml.safe_dump_all([balancer, deployment]))
    podman.run("kube", "play", "--network", NETWORK, gateway)
    address = podman.address("dragoman-gateway-pod-0", NETWORK)
    wait_until(lambda: _ask(address, "GET", "/readyz")[0] == 200)
    status, answer = _ask(address, "POST", "/api/v1/translate", SENTENCE)
    assert (status, answer["translations"][0]["text"]) == (200, "Guten Morgen.")
    for container in ("triton-pod-0-triton", "gateway-pod-0-gateway", "gateway-pod-0-balancer"):
        assert_confined(podman, f"dragoman-{container}", 10001)
    podman.run("kube", "down", gateway)
    podman.run("kube", "down", triton)


def _adapt(pod: dict[str, Any], triton: str) -> None:
    # Podman waits for the end of every init container, also of one that restarts always.
    pod["containers"] = pod.pop("initContainers") + pod["containers"]
    pod["hostAliases"] = [{"ip": triton, "hostnames": ["dragoman-triton.mt"]}]


def _ask(address: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    sent = None if body is None else json.dumps(body)
    with closing(http.client.HTTPConnection(address, 5000, timeout=30)) as connection:
        connection.request(method, path, sent, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
