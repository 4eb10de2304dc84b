"""The README's examples, run against the shipped model as they stand there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.integration.conftest import Served

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str, word: str) -> list[str]:
    """Code blocks of a language that hold a word."""
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    found = [code for kind, code in BLOCK.findall(text) if kind == language and word in code]
    assert found, f"the README has no {language} block with {word!r}"
    return found


def here(code: str, served: Served) -> str:
    """An example with this server's ports in the place of the usual ones."""
    ports = served.server.ports
    return code.replace("localhost:8000", f"localhost:{ports.http}").replace(
        "localhost:8001", f"localhost:{ports.grpc}"
    )


def run(command: list[str], **environment: str) -> str:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, **environment},
    ).stdout


def test_python(shipped: Served) -> None:
    (code,) = blocks("python", "Translator")
    printed = run([sys.executable, "-c", here(code, shipped)])
    assert len(printed.splitlines()) == 3
    assert printed.splitlines()[1].endswith("stop")


def test_curl(shipped: Served) -> None:
    for code in blocks("sh", "curl"):
        answer = json.loads(run(["bash", "-c", here(code, shipped)]))
        assert answer["text_output"]
        assert answer["finish_reason"]


def test_translate_command(shipped: Served, tmp_path: Path) -> None:
    (code,) = blocks("sh", "dragoman translate")
    (tmp_path / "german.txt").write_text("Ich habe Hunger.\n\nGute Nacht.\n", encoding="utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    script = f"cd {tmp_path}\n{code}"
    printed = run(["bash", "-ec", script], PATH=path, DRAGOMAN_URL=shipped.server.grpc_url)
    assert len(printed.splitlines()) == 2
    lines = (tmp_path / "english.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    assert lines[0] == "I'm hungry."
    assert lines[1] == ""


@pytest.mark.parametrize("target", ["serve", "test", "demo", "help"])
def test_make_knows_the_targets(target: str) -> None:
    assert f"make {target}" in (REPOSITORY / "README.md").read_text(encoding="utf-8")
    printed = run(["make", "-C", str(REPOSITORY), "help"])
    assert re.search(rf"^{target}\s+\S", printed, re.MULTILINE)
