"""The README's first example, run unchanged against the gateway."""

from __future__ import annotations

import json

from tests.gateways import RunningGateway
from tests.integration.test_readme import blocks, run


def test_the_first_request(gateway: RunningGateway) -> None:
    (code,) = blocks("sh", "localhost:5000")
    answer = json.loads(
        run(["bash", "-c", code.replace("localhost:5000", f"localhost:{gateway.port}")])
    )
    assert "café" in answer["translations"][0]["text"]
