"""The deployment's files, by the tools that read them, as far as these run without containers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from dragoman_serving.service import metrics

from tests.conftest import REPOSITORY
from tests.integration.wheels.conftest import PARTS

DEPLOY = REPOSITORY / "deploy"
COMPOSE = REPOSITORY / "docker-compose.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "dragoman.json"
TRITON_METRICS = {
    "nv_inference_request_success",
    "nv_inference_request_failure",
    "nv_inference_request_duration_us",
    "nv_cpu_utilization",
    "nv_gpu_utilization",
    "nv_gpu_memory_used_bytes",
    "nv_gpu_memory_total_bytes",
}
"""Source: Triton's user guide, metrics."""


def run(*command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return services


def test_compose_takes_the_file() -> None:
    checked = run(
        sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE
    )
    assert checked.returncode == 0, checked.stdout


def test_only_the_proxy_is_published(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]


def test_every_service_is_confined_and_pinned(services: dict[str, Any]) -> None:
    built = [service["image"] for service in services.values() if "build" in service]
    assert len(built) == len(set(built))  # two builds of one image would be in each other's way
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        if service["image"] not in built:
            assert re.search(r":v?\d+\.\d+", service["image"]), name


def test_what_is_mounted_is_there(services: dict[str, Any]) -> None:
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (REPOSITORY / source).exists(), source


def test_secrets_have_no_defaults(services: dict[str, Any]) -> None:
    """Without them compose refuses to start; the example names them all."""
    text, example = COMPOSE.read_text(), (REPOSITORY / ".env.example").read_text()
    for name in ("DRAGOMAN_TOKEN", "DRAGOMAN_TLS", "GRAFANA_PASSWORD"):
        assert re.search(rf"\$\{{{name}:\?", text)
        assert re.search(rf"^{name}=$", example, re.MULTILINE)


def test_every_image_can_be_another_and_is_the_same_everywhere() -> None:
    """The command in docs/deployment.md that pins them reads the example."""
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    defaults = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", COMPOSE.read_text()))
    example = (REPOSITORY / ".env.example").read_text()
    assert dict(re.findall(r"^# (\w+_IMAGE)=(.+)$", example, re.MULTILINE)) == defaults
    built = dict(re.findall(r"^ARG (\w+_IMAGE)=(.+)$", dockerfile, re.MULTILINE))
    assert {f"${{{name}}}" for name in built} == set(re.findall(r"^FROM (\S+)", dockerfile, re.M))
    assert built.items() <= defaults.items()
    services = yaml.safe_load(COMPOSE.read_text())["services"].values()
    images = {service["image"] for service in services if "dragoman:" not in service["image"]}
    assert images == {f"${{{name}:-{defaults[name]}}}" for name in defaults if name not in built}
    for build in (service["build"] for service in services if "build" in service):
        assert {name: f"${{{name}:-{built[name]}}}" for name in built}.items() <= build[
            "args"
        ].items()
        assert (REPOSITORY / "locks" / f"{build['args']['LOCK']}.txt").is_file()


def test_hadolint_takes_the_dockerfile() -> None:
    checked = run(Path(sys.executable).with_name("hadolint"), DEPLOY / "Dockerfile")
    assert checked.returncode == 0, checked.stdout


def test_the_image_is_built_from_all_that_wheels_are_made_of() -> None:
    lines = re.findall(r"^COPY (?!--from)(.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    copied = {name for line in lines for name in line.split()[:-1]}
    assert copied == {*PARTS} - {"MANIFEST.in", "Makefile"}


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def documented_expressions() -> list[str]:
    """One a line, in the blocks of the section on metrics."""
    text = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```promql\n(.+?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("expression", [*expressions(), *documented_expressions()])
def test_the_dashboard_and_the_docs_ask_for_metrics_that_there_are(expression: str) -> None:
    query = expression.replace("$__rate_interval", "1m")
    promql_parser.parse(query)
    ours = {kind.name for kind in (*metrics._COUNTERS, *metrics._GAUGES)}
    series = ("bucket", "sum", "count")
    ours |= {f"{kind.name}_{of}" for kind in metrics._HISTOGRAMS for of in series}
    asked = set(re.findall(r"\b(?:nv|dragoman)_\w+", query))
    assert asked
    assert asked <= ours | TRITON_METRICS


def test_prometheus_scrapes_the_server() -> None:
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = settings["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["triton:8002"]}]
