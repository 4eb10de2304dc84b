"""The deployment's files, checked with the tools that read them, without containers."""

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
from dragoman_gateway.shared.metrics import Metrics, watch_cache
from dragoman_gateway.texts.cache import CacheCounts
from dragoman_serving.service import metrics

from dragoman.commands.shared.gateway_settings import gateway_settings
from tests.conftest import REPOSITORY
from tests.integration.wheels.conftest import PARTS

DEPLOY = REPOSITORY / "deploy"
COMPOSE = REPOSITORY / "docker-compose.yml"
DOCKERFILES = ("Dockerfile", "Dockerfile.gateway")
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


def test_compose_accepts_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    from check_jsonschema import main

    words = ["--builtin-schema", "vendor.compose-spec", str(COMPOSE)]
    assert main(words, standalone_mode=False) == 0, capsys.readouterr().out


def test_only_proxies_are_published(services: dict[str, Any]) -> None:
    """Each proxy has its own profiles; the one without TLS is published on loopback only."""
    published = {name: service for name, service in services.items() if "ports" in service}
    assert {name: service["profiles"] for name, service in published.items()} == {
        "proxy": ["gpu", "cpu"],
        "proxy-local": ["local"],
    }
    assert published["proxy-local"]["ports"][0].startswith("127.0.0.1:")


def test_open_access_is_only_on_loopback(services: dict[str, Any]) -> None:
    opened = [
        name
        for name, service in services.items()
        if "DRAGOMAN_GATEWAY_ANONYMOUS" in service.get("environment", {})
    ]
    assert opened == ["gateway-local"]
    assert services["gateway-local"]["profiles"] == ["local"]


def test_every_service_is_confined_and_pinned(services: dict[str, Any]) -> None:
    built = [service["image"] for service in services.values() if "build" in service]
    assert len(built) == len(set(built))  # two builds of one image would conflict
    for name, service in services.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        if service["image"] not in built:
            assert re.search(r":v?\d+\.\d+", service["image"]), name


def test_every_service_that_runs_on_has_a_memory_limit(services: dict[str, Any]) -> None:
    running = {name: service for name, service in services.items() if service["restart"] != "no"}
    assert [name for name, service in running.items() if "mem_limit" not in service] == []


def test_mounted_files_exist(services: dict[str, Any]) -> None:
    for service in services.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            if source.startswith("./"):
                assert (REPOSITORY / source).exists(), source


def test_secrets_have_no_defaults(services: dict[str, Any]) -> None:
    """A container without its secret stops and names it; the example lists all of them."""
    text, example = COMPOSE.read_text(), (REPOSITORY / ".env.example").read_text()
    assert "${GRAFANA_PASSWORD:-}" in text
    assert re.search(r"^GRAFANA_PASSWORD=$", example, re.MULTILINE)
    entry = services["grafana"]["entrypoint"][-1].replace("$$", "$").partition("exec ")[0]
    refused = subprocess.run(["sh", "-c", entry], env={}, capture_output=True, text=True)
    assert (refused.returncode, "set GRAFANA_PASSWORD in .env" in refused.stderr) == (2, True)
    given = {"GF_SECURITY_ADMIN_PASSWORD": 20 * "x"}
    assert not subprocess.run(["sh", "-c", entry], env=given).returncode
    assert re.search(r"^DRAGOMAN_TLS=$", example, re.MULTILINE)


def test_variables_of_the_gateway_are_settings(services: dict[str, Any]) -> None:
    known = {setting.variable for setting in gateway_settings()}
    for service in services.values():
        given = {name for name in service.get("environment", {}) if "GATEWAY" in name}
        assert given <= known


def test_every_image_can_be_replaced_and_is_the_same_everywhere() -> None:
    """The command in docs/deployment.md that pins the images reads the example."""
    dockerfiles = {name: (DEPLOY / name).read_text() for name in DOCKERFILES}
    defaults = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", COMPOSE.read_text()))
    example = (REPOSITORY / ".env.example").read_text()
    assert dict(re.findall(r"^# (\w+_IMAGE)=(.+)$", example, re.MULTILINE)) == defaults
    arguments = {
        name: dict(re.findall(r"^ARG (\w+_IMAGE)=(.+)$", text, re.MULTILINE))
        for name, text in dockerfiles.items()
    }
    for name, text in dockerfiles.items():
        stages = set(re.findall(r"^FROM (\S+)", text, re.MULTILINE))
        assert {f"${{{argument}}}" for argument in arguments[name]} == stages
        assert arguments[name].items() <= defaults.items()
    built = {name for of_file in arguments.values() for name in of_file}
    services = yaml.safe_load(COMPOSE.read_text())["services"].values()
    images = {service["image"] for service in services if "dragoman:" not in service["image"]}
    assert images == {f"${{{name}:-{defaults[name]}}}" for name in defaults if name not in built}
    for build in (service["build"] for service in services if "build" in service):
        own_images = arguments[Path(build["dockerfile"]).name]
        given = {name: f"${{{name}:-{image}}}" for name, image in own_images.items()}
        assert given.items() <= build["args"].items()
        assert (REPOSITORY / "locks" / f"{build['args']['LOCK']}.txt").is_file()


@pytest.mark.parametrize("name", DOCKERFILES)
def test_hadolint_accepts_the_dockerfile(name: str) -> None:
    checked = run(Path(sys.executable).with_name("hadolint"), DEPLOY / name)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_image_has_all_sources_of_the_wheels(name: str) -> None:
    lines = re.findall(r"^COPY (?!--from)(.+)$", (DEPLOY / name).read_text(), re.MULTILINE)
    copied = {name for line in lines for name in line.split()[:-1]}
    not_of_gateway = {"model_repository"} if name == "Dockerfile.gateway" else set()
    assert copied == {*PARTS} - {"MANIFEST.in", "Makefile", "load_test"} - not_of_gateway


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    alerts = [rule["expr"] for group in rules for rule in group["rules"]]
    return [*(target["expr"] for panel in panels for target in panel["targets"]), *alerts]


def documented_expressions() -> list[str]:
    """One per line, in the blocks of the page on metrics."""
    text = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```promql\n(.+?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("expression", [*expressions(), *documented_expressions()])
def test_the_dashboard_and_the_docs_query_existing_metrics(expression: str) -> None:
    names = metrics_in(expression.replace("$__rate_interval", "1m"))
    assert names or "up{" in expression


def metrics_in(query: str) -> set[str]:
    """The metrics of a query, each of which some program exports."""
    promql_parser.parse(query)
    ours = {kind.name for kind in (*metrics._COUNTERS, *metrics._GAUGES)}
    series = ("bucket", "sum", "count")
    ours |= {f"{kind.name}_{of}" for kind in metrics._HISTOGRAMS for of in series}
    gateway = Metrics()
    watch_cache(gateway, CacheCounts())
    ours |= set(re.findall(r"^# HELP (\w+)", gateway.text().decode(), re.MULTILINE))
    ours |= {f"dragoman_gateway_request_seconds_{of}" for of in series}
    names = set(re.findall(r"\b(?:nv|dragoman)_\w+", query))
    assert names <= ours | TRITON_METRICS
    return names


def test_every_metric_is_documented() -> None:
    text = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8")
    engine = (*metrics._COUNTERS, *metrics._GAUGES, *metrics._HISTOGRAMS, *metrics._OF_MODELS)
    assert {kind.name for kind in engine} <= set(re.findall(r"dragoman_\w+", text))
    gateway = Metrics()
    watch_cache(gateway, CacheCounts())
    lines = re.findall(r"^# HELP dragoman_gateway_(\w+)", gateway.text().decode(), re.MULTILINE)
    documented = re.findall(r"`(?:dragoman_gateway)?_(\w+)", text)
    cache = {f"cache_{name}" for name in documented}
    assert {metric for metric in lines if not metric.startswith("process_")} <= {
        *documented,
        *cache,
    }


def test_prometheus_scrapes_the_server_and_the_gateway() -> None:
    settings = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    jobs = settings["scrape_configs"]
    targets = [job["static_configs"] for job in jobs]
    assert targets == [[{"targets": ["triton:8002"]}], [{"targets": ["gateway:5000"]}]]
    assert settings["rule_files"] == ["alerts.yml"]
