"""The first examples of the README and of the pages about protocols, run unchanged."""

from __future__ import annotations

import sys

import pytest

from tests.gateways import RunningGateway
from tests.integration.test_readme import blocks, run


@pytest.mark.parametrize(
    ("page", "language"),
    [
        ("README.md", "sh"),
        ("docs/chat.md", "sh"),
        ("docs/chat.md", "python"),
        ("docs/extensions.md", "sh"),
        ("docs/kserve.md", "sh"),
        ("docs/kserve.md", "python"),
        ("docs/mcp.md", "python"),
    ],
)
def test_the_example_translates(gateway: RunningGateway, page: str, language: str) -> None:
    command = {"sh": ["bash", "-c"], "python": [sys.executable, "-c"]}[language]
    (code,) = blocks(language, "localhost:5000", page)
    printed = run([*command, code.replace(":5000", f":{gateway.port}")])
    assert ("café" if page == "README.md" else "Guten Morgen.") in printed
