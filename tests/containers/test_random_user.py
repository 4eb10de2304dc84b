"""The images as a user without a name and a home, with a root file system that cannot be written.

OpenShift and hardened clusters start containers so.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.containers.conftest import wait_until
from tests.containers.podman import ENGINE_IMAGE, GATEWAY_IMAGE, Podman

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

NO_TEMPORARY = "--read-only-tmpfs=false"
"""Then nothing can be written, not even /tmp."""
ALIVE = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:5000/livez')"


@contextmanager
def started(
    podman: Podman, image: str, *words: str, options: tuple[str, ...] = ()
) -> Iterator[str]:
    """A container of a random user; yields its id."""
    user = random.randrange(20_000, 60_000)
    confined = ("--read-only", "--cap-drop", "all", "--user", f"{user}:{user}")
    container = podman.run("run", "--detach", *confined, *options, image, *words).stdout.strip()
    try:
        yield container
    finally:
        podman.run("rm", "--force", "--time", "30", container)


@pytest.mark.parametrize(
    "options", [(), (NO_TEMPORARY, "--tmpfs", "/scratch:mode=1777", "--env", "TMPDIR=/scratch")]
)
def test_triton_translates(podman: Podman, options: tuple[str, ...]) -> None:
    def translated(container: str) -> str:
        words = "dragoman translate --url http://localhost:8000 --to de 'Good morning.'"
        return podman.inside(container, words).stdout.strip()

    with started(podman, ENGINE_IMAGE, options=options) as container:
        wait_until(lambda: translated(container) == "Guten Morgen.")


@pytest.mark.parametrize(
    "words", [("--folder", "/tmp/state"), ("--env", "DRAGOMAN_GATEWAY_FOLDER=/tmp/state")]
)
def test_the_gateway_starts_with_a_folder_for_its_state(
    podman: Podman, words: tuple[str, str]
) -> None:
    options = words if words[0] == "--env" else ()
    arguments = () if options else ("gateway", "--address", "0.0.0.0", *words)
    with started(podman, GATEWAY_IMAGE, *arguments, options=options) as container:
        script = f'python3 -c "{ALIVE}"'
        wait_until(lambda: podman.inside(container, script).returncode == 0)


@pytest.mark.parametrize(
    ("image", "options", "named"),
    [
        (ENGINE_IMAGE, (NO_TEMPORARY,), "TMPDIR"),
        (GATEWAY_IMAGE, (), "--gateway-folder"),
        (GATEWAY_IMAGE, ("--env", "DRAGOMAN_GATEWAY_FOLDER="), "--gateway-folder"),
    ],
)
def test_one_line_says_what_is_missing(
    podman: Podman, image: str, options: tuple[str, ...], named: str
) -> None:
    with started(podman, image, options=options) as container:
        podman.run("wait", container)
        logged = podman.run("logs", container)
        log = logged.stdout + logged.stderr
        assert named in log.splitlines()[-1]
        assert "Traceback" not in log
        form = "{{.State.ExitCode}}"
        assert podman.run("inspect", container, "--format", form).stdout.strip() == "2"
