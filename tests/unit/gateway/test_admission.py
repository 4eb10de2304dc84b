"""Callers are admitted before their requests cost more than reading, in every protocol."""

from __future__ import annotations

from typing import Any

import pytest
from dragoman_gateway.protocols.deepl import deepl_texts
from dragoman_gateway.protocols.libretranslate import libretranslate_protocol

from tests.unit.gateway.asgi import Application

ANYWHERE = "0.0.0.0"


@pytest.mark.parametrize("path", ["/api/v1/glossaries", "/v2/glossaries", "/v3/glossaries"])
def test_requests_for_glossaries_count(path: str) -> None:
    with Application(address=ANYWHERE, anonymous=True, anonymous_requests_per_minute=2) as app:
        statuses = [app.call("GET", path).status for _ in range(3)]
    # Unknown callers have none: DeepL's API answers 403 if a key is missing.
    refused = 401 if "api" in path else 403
    assert statuses == [refused, refused, 429]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v2/translate", {"text": ["How are you, my old friend?"], "target_lang": "DE"}),
        ("/translate", {"q": ["How are you, my old friend?"], "source": "auto", "target": "de"}),
    ],
)
def test_no_language_is_detected_before_a_caller_is_admitted(
    path: str, body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    detected = []
    for module in (deepl_texts, libretranslate_protocol):
        monkeypatch.setattr(module, "sources_of", lambda *given: detected.append(given))
    with Application(address=ANYWHERE, anonymous=True, anonymous_characters_per_minute=10) as app:
        assert app.post(path, body).status in (400, 413)
    assert detected == []
