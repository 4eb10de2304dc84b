"""The Helm chart, checked with Helm, Kubernetes' schemas, those of CRDs, and Envoy."""

from __future__ import annotations

import functools
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

import dragoman
from dragoman.commands.shared.gateway_settings import gateway_settings
from dragoman.commands.shared.serve_settings import SETTINGS
from tests import debian
from tests.conftest import REPOSITORY
from tests.kubernetes_tools import CHART, only, rendered, run
from tests.npm_packages import FOLDER, NODE, skip_without
from tests.unit.deploy.test_deploy import metrics_in
from tests.web_server import Handler, serving

BUNDLE = "models.serve={/bundles/en-de}"
SHA256 = "a" * 64
CASES: dict[str, tuple[str, ...]] = {
    "defaults": (),
    "fixed": ("scaling.triton.by=none", "scaling.gateway.by=none", "networkPolicy.enabled=false"),
    "rows": ("scaling.triton.by=rows",),
    "volume": (
        *("gateway.volume.enabled=true", "gateway.volume.storageClass=fast"),
        *("gateway.replicas=1", "scaling.gateway.by=none"),
    ),
    "keys": (
        *("gateway.keysSecret=keys", "gateway.limitsSecret=redis", "test.keySecret=key"),
        "imagePullSecrets[0].name=registry",
    ),
    "everybody": (
        *("gateway.anonymous=true", "gateway.riva=true", "gateway.kserve=true"),
        *("route.enabled=true", "route.gateways[0].name=public"),
        "route.hostnames={mt.example.com}",
        "gateway.settings.access_log=true",
    ),
    "monitoring": (
        *("monitoring.enabled=true", "monitoring.dashboard=true"),
        "monitoring.labels.release=prometheus",
        "networkPolicy.metricsClients[0].podSelector.matchLabels.app=prometheus",
    ),
    "tracing": (
        *("tracing.otlp=http://collector:4318", "tracing.rate=1"),
        "tracing.collectors[0].podSelector.matchLabels.app=collector",
    ),
    "hub": ("models.from=hub", "models.serve={owner/model@v1}", "models.hubTokenSecret=hub"),
    "download": (
        *("models.from=download", BUNDLE, "models.downloads[0].name=en-de"),
        *("models.downloads[0].url=https://example.com/a", f"models.downloads[0].sha256={SHA256}"),
    ),
    "volume image": (
        *("models.from=volumeImage", BUNDLE, "models.volumeImage.reference=example.com/en-de:1"),
    ),
    "claim": ("models.from=claim", BUNDLE, "models.claim=bundles"),
    "gpu": (
        *("triton.gpus=1", "triton.image.tag=gpu", "triton.nodeSelector.accelerator=nvidia"),
        *("triton.tolerations[0].key=nvidia.com/gpu", f"triton.image.digest=sha256:{SHA256}"),
    ),
}
"""Sets of non-default values, by name."""
OTHERS = "keda.sh", "gateway.networking.k8s.io", "monitoring.coreos.com"
"""Groups of resources that are not part of Kubernetes."""
IMAGE_VOLUMES_SINCE = (1, 33)


def values(words: tuple[str, ...]) -> list[str]:
    return [argument for word in words for argument in ("--set", word)]


@functools.cache
def objects(name: str) -> list[dict[str, Any]]:
    return rendered(*values(CASES[name]))


def is_other(resource: dict[str, Any]) -> bool:
    return str(resource["apiVersion"]).startswith(OTHERS)


def pod_of(resource: dict[str, Any]) -> dict[str, Any]:
    """The specification of a Deployment's pods."""
    pod: dict[str, Any] = resource["spec"]["template"]["spec"]
    return pod


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def environment(container: dict[str, Any]) -> dict[str, Any]:
    return {variable["name"]: variable.get("value") for variable in container.get("env", ())}


@pytest.mark.parametrize("name", CASES)
def test_helm_accepts_the_chart(name: str) -> None:
    linted = run("helm", "lint", "--strict", CHART, *values(CASES[name]))
    assert linted.returncode == 0, linted.stdout


@functools.cache
def different() -> dict[str, dict[str, Any]]:
    """The objects of all cases, each once; the key starts with the name of a case."""
    distinct = {
        json.dumps(resource): (name, resource)
        for name in reversed(CASES)
        for resource in objects(name)
    }
    return {f"{name} {text}": resource for text, (name, resource) in distinct.items()}


@pytest.mark.parametrize(
    "minor",
    [
        # The first, the first with image volumes, and the last.
        pytest.param(minor, marks=[] if minor in (30, 33, 37) else [pytest.mark.thorough])
        for minor in range(30, 38)
    ],
)
def test_kubernetes_accepts_every_object(minor: int) -> None:
    for key, resource in different().items():
        has_image_volume = key.startswith("volume image") and resource["kind"] == "Deployment"
        if not is_other(resource) and (not has_image_volume or (1, minor) >= IMAGE_VOLUMES_SINCE):
            kubernetes_validate.validate(resource, f"1.{minor}", strict=True)


def custom_faults(resources: list[dict[str, Any]]) -> list[str]:
    """The errors that the schemas of further resources report."""
    if not (FOLDER / "node_modules" / "@kubernetes-models").exists():
        skip_without("schemas of Kubernetes resources")
    script = REPOSITORY / "tests" / "data" / "kubernetes" / "check_custom_resources.mjs"
    checked = subprocess.run(
        [NODE, script, FOLDER / "node_modules"],
        input=json.dumps(resources),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    faults: list[str] = json.loads(checked.stdout)
    return faults


def test_operators_accept_their_objects() -> None:
    resources = [resource for resource in different().values() if is_other(resource)]
    assert {resource["kind"] for resource in resources} == {
        *("ScaledObject", "HTTPRoute"),
        *("ServiceMonitor", "PodMonitor", "PrometheusRule"),
    }
    assert custom_faults(resources) == []


def test_a_damaged_object_of_an_operator_is_refused() -> None:
    (scaled,) = (resource for resource in objects("rows") if resource["kind"] == "ScaledObject")
    (fault,) = custom_faults([{**scaled, "spec": {"scaleTargetRef": {"name": "x"}}}])
    assert "triggers" in fault


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("triton.replica=3", "at '/triton': additional properties 'replica' not allowed"),
        ("triton.memory=4G", "at '/triton/memory': '4G' does not match pattern"),
        ("triton.processors=1.5", "at '/triton/processors'"),
        ("models.from=s3", "at '/models/from': value must be one of 'image', 'hub'"),
        ("models.downloads[0].name=x", "missing properties 'url', 'sha256'"),
        ("gateway.trustedProxies={10.0.0.1}", "at '/gateway/trustedProxies/0'"),
        ("drainSeconds=0", "at '/drainSeconds': minimum: got 0, want 1"),
        ("gateway.volume.enabled=true", "set gateway.replicas to 1 and scaling.gateway.by to none"),
        ("models.from=hub", "models.serve: name the bundles to serve, such as /bundles/en-de"),
        ("models.from=claim", "models.claim: name a PersistentVolumeClaim"),
        ("networkPolicy.tritonClients[0].podSelector.app=x", "additional properties 'app'"),
        ("route.enabled=true", "route.gateways: name a Gateway, such as"),
    ],
)
def test_a_wrong_value_is_refused_in_a_line(word: str, message: str) -> None:
    made = run("helm", "template", "dragoman", CHART, "--set", word)
    (line,) = (line for line in made.stderr.splitlines() if message in line)
    assert made.returncode == 1
    assert len(line) < 250


def test_every_value_has_a_schema_and_a_row_in_the_docs() -> None:
    """A row names a value, or everything below it."""
    text = (REPOSITORY / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`([a-z]\w*(?:\.\w+)*)`", text))
    schema = json.loads((CHART / "values.schema.json").read_text())
    given = yaml.safe_load((CHART / "values.yaml").read_text())

    def look(value: Any, rule: dict[str, Any], path: tuple[str, ...]) -> None:
        if "$ref" in rule:
            rule = schema["$defs"][rule["$ref"].rpartition("/")[2]]
        names = rule.get("properties", {})
        if names:
            assert value.keys() - {"global"} == names.keys() - {"global"}, path
            for name in value:
                look(value[name], names[name], (*path, name))
        else:
            assert {".".join(path[:end]) for end in range(1, len(path) + 1)} & documented, path

    look(given, schema, ())


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == dragoman.__version__


def test_every_variable_is_a_setting() -> None:
    known = {setting.variable for setting in (*SETTINGS, *gateway_settings())}
    for name in CASES:
        for resource in objects(name):
            if resource["kind"] == "Deployment":
                for container in containers(pod_of(resource)):
                    given = {v for v in environment(container) if v.startswith("DRAGOMAN_")}
                    assert given <= known, name


def test_settings_are_written_as_the_commands_read_them() -> None:
    words = ("max_waiting=40000000", "precision=fp32", "allow_priority=true", "load={encoder,x}")
    made = rendered(*values(tuple(f"triton.settings.{word}" for word in words)))
    (triton,) = pod_of(only(made, "Deployment", "dragoman-triton"))["containers"]
    variables = environment(triton)
    assert variables["DRAGOMAN_MAX_WAITING"] == "40000000"
    assert variables["DRAGOMAN_PRECISION"] == "fp32"
    assert variables["DRAGOMAN_ALLOW_PRIORITY"] == "true"
    assert variables["DRAGOMAN_LOAD"] == "encoder x"


@pytest.mark.parametrize("name", CASES)
def test_every_pod_is_confined(name: str) -> None:
    pods = [pod_of(resource) for resource in objects(name) if resource["kind"] == "Deployment"]
    pods += [resource["spec"] for resource in objects(name) if resource["kind"] == "Pod"]
    assert len(pods) == 3
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in containers(pod):
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] is True
            assert rights["allowPrivilegeEscalation"] is False
            assert rights["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]


def test_a_pod_has_time_to_drain() -> None:
    """The sleep, then Triton's 30 s or the gateway's 35 s, then the end."""
    for resource in objects("defaults"):
        if resource["kind"] == "Deployment":
            pod = pod_of(resource)
            sleep_s = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert pod["terminationGracePeriodSeconds"] >= sleep_s + 35 + 10


def test_only_the_gateway_reaches_triton() -> None:
    policy = only(objects("defaults"), "NetworkPolicy", "dragoman-triton")["spec"]
    triton = only(objects("defaults"), "Deployment", "dragoman-triton")["spec"]["template"]
    gateway = only(objects("defaults"), "Deployment", "dragoman-gateway")["spec"]["template"]
    assert policy["podSelector"]["matchLabels"].items() <= triton["metadata"]["labels"].items()
    calls, metrics = policy["ingress"]
    (peer,) = calls["from"]
    assert peer["podSelector"]["matchLabels"].items() <= gateway["metadata"]["labels"].items()
    assert [port["port"] for port in calls["ports"]] == ["http", "grpc"]
    assert [port["port"] for port in metrics["ports"]] == ["metrics"]
    assert policy["egress"] == []


def test_gateways_decide_what_is_traced_and_triton_reaches_the_collector() -> None:
    made = objects("tracing")
    triton, gateway = (
        environment(pod_of(only(made, "Deployment", f"dragoman-{part}"))["containers"][0])
        for part in ("triton", "gateway")
    )
    collector = "http://collector:4318"
    assert (triton["DRAGOMAN_OTLP"], triton["DRAGOMAN_TRACE_RATE"]) == (collector, "0")
    assert gateway["DRAGOMAN_GATEWAY_OTLP"] == collector
    assert gateway["DRAGOMAN_GATEWAY_TRACE_RATE"] == "1"
    _, spans = only(made, "NetworkPolicy", "dragoman-triton")["spec"]["egress"]
    assert spans["to"] == [{"podSelector": {"matchLabels": {"app": "collector"}}}]


def test_envoy_accepts_its_configuration(tmp_path: Path) -> None:
    text = only(objects("defaults"), "ConfigMap", "dragoman-balancer")["data"]["envoy.yaml"]
    (tmp_path / "envoy.yaml").write_text(text)
    envoy = Path(sys.executable).with_name("envoy")
    checked = subprocess.run(
        [envoy, "--mode", "validate", "--config-path", tmp_path / "envoy.yaml"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert checked.returncode == 0, checked.stderr


def test_kustomize_accepts_the_example() -> None:
    folder = REPOSITORY / "deploy" / "kustomize"
    flags = ("--enable-helm", "--load-restrictor=LoadRestrictionsNone")
    made = run("kubectl", "kustomize", *flags, folder)
    assert made.returncode == 0, made.stderr
    resources = list(yaml.safe_load_all(made.stdout))
    assert {resource["metadata"]["namespace"] for resource in resources} == {"translation"}
    assert pod_of(only(resources, "Deployment", "dragoman-triton"))["priorityClassName"]
    for resource in resources:
        kubernetes_validate.validate(resource, "1.37", strict=True)


def scaling_query() -> str:
    """KEDA's query to Prometheus."""
    (scaled,) = (resource for resource in objects("rows") if resource["kind"] == "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    return str(trigger["metadata"]["query"])


def test_keda_queries_existing_metrics() -> None:
    assert metrics_in(scaling_query()) == {"dragoman_rows", "dragoman_rows_limit"}


@pytest.mark.thorough
def test_prometheus_computes_the_alerts_and_the_query(tmp_path: Path) -> None:
    """Two pods of 32 rows with 20 and 12 in use are as full as one."""
    promtool = debian.unpack(tmp_path / "system", "prometheus") / "usr" / "bin" / "promtool"
    labels = 'namespace="mt",service="dragoman-triton"'
    series = {
        f'dragoman_rows{{{labels},pod="a"}}': "20x10",
        f'dragoman_rows{{{labels},pod="b"}}': "12x10",
        f'dragoman_rows_limit{{{labels},pod="a"}}': "32x10",
        f'dragoman_rows_limit{{{labels},pod="b"}}': "32x10",
        "dragoman_sentences_total": "0+1000x10",
        "dragoman_sentences_rejected_total": "0+20x10",
    }
    overloaded = {"exp_labels": {}, "exp_annotations": alert("EngineOverloaded")["annotations"]}
    written = {
        "rule_files": [str(REPOSITORY / "deploy" / "prometheus" / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": k, "values": v} for k, v in series.items()],
                "promql_expr_test": [
                    {"expr": scaling_query(), "eval_time": "5m", "exp_samples": [{"value": 1}]}
                ],
                "alert_rule_test": [
                    {
                        "eval_time": "9m",
                        "alertname": "EngineOverloaded",
                        "exp_alerts": [overloaded],
                    },
                    {"eval_time": "9m", "alertname": "EngineAway", "exp_alerts": []},
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(written))
    checked = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yml"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr + checked.stdout


def alert(name: str) -> dict[str, Any]:
    groups = only(objects("monitoring"), "PrometheusRule", "dragoman")["spec"]["groups"]
    (rule,) = (rule for group in groups for rule in group["rules"] if rule["alert"] == name)
    return dict(rule)


@pytest.fixture
def archive() -> Iterator[tuple[str, str]]:
    """An archive on a server: its URL and SHA-256."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as members:
        member = tarfile.TarInfo("manifest.json")
        member.size = 2
        members.addfile(member, io.BytesIO(b"{}"))

    class Archive(Handler):
        def respond(self) -> None:
            self.answer(200, {}, data.getvalue())

    with serving(Archive) as port:
        url = f"http://127.0.0.1:{port}/a.tar.gz"
        yield url, hashlib.sha256(data.getvalue()).hexdigest()


def fetch(folder: Path, url: str, sha256: str) -> subprocess.CompletedProcess[str]:
    """Run the script as the initContainer does."""
    config = only(objects("download"), "ConfigMap", "dragoman-triton")
    script = folder / "fetch.py"
    script.write_text(config["data"]["fetch_bundles.py"])
    downloads = json.dumps([{"name": "en-de", "url": url, "sha256": sha256}])
    return subprocess.run(
        [sys.executable, script, folder / "bundles"],
        env={"DOWNLOADS": downloads},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_bundle_is_downloaded_and_checked(tmp_path: Path, archive: tuple[str, str]) -> None:
    for _ in range(2):  # a pod whose initContainer runs again
        fetched = fetch(tmp_path, *archive)
        assert fetched.returncode == 0, fetched.stderr
        assert (tmp_path / "bundles" / "en-de" / "manifest.json").read_text() == "{}"


def test_another_archive_is_refused(tmp_path: Path, archive: tuple[str, str]) -> None:
    fetched = fetch(tmp_path, archive[0], SHA256)
    assert fetched.returncode == 1
    message = f"models.downloads en-de: {archive[0]}: its SHA-256 is "
    assert re.fullmatch(rf"{message}.*\n", fetched.stderr)
    assert not (tmp_path / "bundles").exists()
