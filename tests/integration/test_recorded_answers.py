"""The responses that the client's test servers are compared with are those of the real server.

`DRAGOMAN_RECORD=1 pytest tests/integration/test_recorded_answers.py` writes them again.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from client.tests.recorded_answers import CASES, RECORDING, WITHOUT_ENGINE, Case, answer
from tests.compact_json import compact_json
from tests.servers import Served, serving


def answers(cases: list[Case], served: Served) -> dict[str, Any]:
    urls = {"grpc": served.server.grpc_url, "http": served.server.http_url}
    return {
        case.name: {protocol: answer(case, url) for protocol, url in urls.items()} for case in cases
    }


@pytest.fixture(scope="module")
def found(shipped: Served) -> dict[str, Any]:
    """By the name of each case."""
    current = answers(CASES, shipped)
    with serving() as served:
        assert served.server.engine
        os.kill(served.server.engine.pid, signal.SIGKILL)
        current |= answers(WITHOUT_ENGINE, served)
    if os.environ.get("DRAGOMAN_RECORD"):
        RECORDING.write_text(compact_json(current) + "\n", encoding="utf-8")
    return current


@pytest.mark.parametrize("name", [case.name for case in (*CASES, *WITHOUT_ENGINE)])
def test_the_recording_equals_the_servers_answers(found: dict[str, Any], name: str) -> None:
    recorded = json.loads(RECORDING.read_text(encoding="utf-8"))
    assert found[name] == recorded[name]
