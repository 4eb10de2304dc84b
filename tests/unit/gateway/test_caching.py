"""The header `Cache-Control: no-store` keeps a request out of the cache, in every protocol."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.gateway.asgi import Application

DIRECTION = {"source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("path", "text", "body"),
    [
        ("/api/v1/translate", "text", {"target_language": "de"}),
        ("/translate", "q", DIRECTION),
        ("/translate", "text", {"target_lang": "de", "source_lang": "en"}),  # DeepLX's format
        ("/v2/translate", "text", {"target_lang": "de", "source_lang": "en"}),
    ],
)
@pytest.mark.parametrize("control", ["no-store", "max-age=0, No-Store"])
def test_a_request_can_bypass_the_cache(
    app: Application, path: str, text: str, body: dict[str, Any], control: str
) -> None:
    given = {**body, text: f"A text for {path} and {text}: {control}."}
    asked = []
    for header in (control, control, "max-age=0", "max-age=0"):
        before = len(app.requests)
        assert app.post(path, given, **{"cache-control": header}).status == 200
        asked.append(len(app.requests) - before)
    assert asked == [1, 1, 1, 0]
