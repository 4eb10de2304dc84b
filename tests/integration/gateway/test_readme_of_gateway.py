"""The README's first example, run against the gateway as it stands there."""

from __future__ import annotations

import json

from tests.integration.gateway.conftest import RunningGateway
from tests.integration.test_readme import blocks, run


def test_the_first_request(gateway: RunningGateway) -> None:
    (code,) = blocks("sh", "localhost:5000")
    answer = json.loads(
        run(["bash", "-c", code.replace("localhost:5000", f"localhost:{gateway.port}")])
    )
    assert answer["translations"][0]["text"].startswith("Je ")
