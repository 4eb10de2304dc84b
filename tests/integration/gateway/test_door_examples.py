"""The first examples of the README and of the pages about protocols, run unchanged."""

from __future__ import annotations

import pytest

from tests.doc_examples import blocks_with, run_code
from tests.gateways import RunningGateway


@pytest.mark.parametrize(
    ("page", "language"),
    [
        ("README.md", "sh"),
        ("docs/chat.md", "sh"),
        ("docs/chat.md", "python"),
        ("docs/extensions.md", "sh"),
        ("docs/kserve.md", "sh"),
        ("docs/kserve.md", "python"),
        ("docs/live.md", "sh"),
        ("docs/live.md", "python"),
        ("docs/live.md", "javascript"),
        ("docs/mcp.md", "python"),
    ],
)
def test_the_example_translates(gateway: RunningGateway, page: str, language: str) -> None:
    (code,) = blocks_with(language, "localhost:5000", page)
    printed = run_code(language, code.replace("localhost:5000", f"127.0.0.1:{gateway.port}"))
    expected = {"README.md": "café", "docs/live.md": "eine Tasse Tee."}.get(page, "Guten Morgen.")
    assert expected in printed
