"""`docker-compose.yml`, run as a whole with podman: all services but Grafana."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from tests.containers.conftest import SENTENCE, Composed, assert_confined, wait_until
from tests.containers.podman import Podman

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

SERVICES = ("fetch-models-cpu", "triton-cpu", "gateway", "proxy", "prometheus")
TRANSLATE = "/api/v1/translate"
TO_TRITON = {"text_input": "Good morning.", "target_language": "de"}


@pytest.fixture(scope="module")
def started(compose: Composed) -> Iterator[Composed]:
    with compose.up(("cpu",), *SERVICES):
        wait_until(lambda: compose.ask(compose.port, "/readyz")[0] == 200)
        yield compose


@pytest.fixture(scope="module")
def key(podman: Podman, started: Composed) -> str:
    added = podman.inside(started.container("gateway"), "dragoman keys add --label tests")
    return added.stdout.strip()


def test_the_gateway_translates_with_a_key_only(started: Composed, key: str) -> None:
    status, answer = started.ask(started.port, TRANSLATE, SENTENCE, key)
    assert (status, answer["translations"][0]["text"]) == (200, "Guten Morgen.")
    status, answer = started.ask(started.port, TRANSLATE, SENTENCE)
    assert (status, answer["error"]["code"]) == (401, "key_missing")
    assert started.ask(started.port, "/metrics")[0] == 404


def test_clients_of_triton_need_a_key_too(started: Composed, key: str) -> None:
    path = "/v2/models/translate/generate"
    status, answer = started.ask(started.port, path, TO_TRITON, key)
    assert (status, answer["text_output"]) == (200, "Guten Morgen.")
    assert started.ask(started.port, path, TO_TRITON, "wrong")[0] == 403


@pytest.mark.parametrize(
    ("service", "user"),
    [("triton-cpu", 10001), ("gateway", 10001), ("proxy", 101), ("prometheus", 65534)],
)
def test_services_are_confined(podman: Podman, started: Composed, service: str, user: int) -> None:
    assert_confined(podman, started.container(service), user)


def test_the_images_report_their_health(podman: Podman, started: Composed) -> None:
    for service in ("triton-cpu", "gateway"):
        podman.run("healthcheck", "run", started.container(service))


def test_metrics_are_scraped(podman: Podman, started: Composed) -> None:
    script = "promtool query instant http://localhost:9090 up"

    def are_up() -> bool:
        output = podman.inside(started.container("prometheus"), script).stdout
        targets = [line for line in output.splitlines() if " => 1 " in line]
        return any("gateway:5000" in t for t in targets) and any(
            "triton:8002" in t for t in targets
        )

    wait_until(are_up)


def test_internal_services_have_no_internet_access(podman: Podman, started: Composed) -> None:
    script = "import socket; socket.create_connection(('1.1.1.1', 80), 3)"
    for service in ("triton-cpu", "gateway"):
        done = podman.inside(started.container(service), f'python3 -c "{script}"')
        assert "Network is unreachable" in done.stderr


def test_a_killed_engine_is_restarted(podman: Podman, started: Composed, key: str) -> None:
    find = "grep -l 'dragoman_serving[.]service' /proc/[0-9]*/cmdline | cut -d/ -f3"
    (process,) = podman.inside(started.container("triton-cpu"), find).stdout.split()
    podman.inside(started.container("triton-cpu"), f"kill -{signal.SIGKILL.value} {process}")
    # The gateway retries, so a client does not see the outage.
    status, answer = started.ask(started.port, TRANSLATE, {**SENTENCE, "text": "Thank you!"}, key)
    assert status == 200, answer
    assert answer["translations"][0]["text"] == "Danke!"
    (newer,) = podman.inside(started.container("triton-cpu"), find).stdout.split()
    assert newer != process


def test_the_gateway_stops_without_loss(podman: Podman, started: Composed, key: str) -> None:
    """A request of several seconds is answered although its gateway is stopped during it."""
    texts = [f"This is sentence number {number}." for number in range(400)]
    body = {"text": texts, "target_language": "de", "beam_width": 8}
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(started.ask(started.port, TRANSLATE, body, key))
    )
    asking.start()
    time.sleep(1)  # of some five that the request takes
    podman.run("stop", "--time", "60", started.container("gateway"))
    asking.join()
    ((status, answer),) = answers
    assert status == 200, answer
    assert len(answer["translations"]) == len(texts)
    form = "{{.State.ExitCode}}"
    stopped = podman.run("inspect", started.container("gateway"), "--format", form).stdout
    assert stopped.strip() == "0"


def test_the_local_profile_needs_no_tls_and_no_key(compose: Composed, started: Composed) -> None:
    """This test is last, because it stops the services of the other profile."""
    started.run("--profile", "cpu", "down", "--volumes")
    services = ("fetch-models-cpu", "triton-cpu", "gateway-local", "proxy-local")
    with compose.up(("local",), *services):
        port = compose.local_port
        wait_until(lambda: compose.ask(port, "/readyz", tls=False)[0] == 200)
        status, answer = compose.ask(port, TRANSLATE, SENTENCE, tls=False)
        assert (status, answer["translations"][0]["text"]) == (200, "Guten Morgen.")
