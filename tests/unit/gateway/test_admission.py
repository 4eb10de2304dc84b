"""Callers are admitted before their requests cost more than reading, in every protocol."""

from __future__ import annotations

from typing import Any

import pytest
from dragoman_gateway.core.caller import Limits
from dragoman_gateway.protocols.deepl import deepl_texts
from dragoman_gateway.protocols.libretranslate import libretranslate_protocol

from tests.unit.gateway.asgi import Application

ANYWHERE = "0.0.0.0"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/api/v1/detect", {"text": "Hello there."}, 200),
        ("/detect", {"q": "Hello there."}, 200),
        # Unknown callers have no glossaries.
        ("/api/v1/glossaries", None, 401),
        *((f"/{version}/glossaries", None, 403) for version in ("v2", "v3")),
    ],
)
def test_requests_that_translate_nothing_count(path: str, body: Any, status: int) -> None:
    with Application(address=ANYWHERE, anonymous=True, anonymous_requests_per_minute=2) as app:
        method = "POST" if body else "GET"
        statuses = [app.send(method, path, body).status for _ in range(3)]
    assert statuses == [status, status, 429]


def test_all_protocols_use_up_one_quota() -> None:
    text = "Der Zug kommt um neun Uhr."
    message = {"role": "user", "content": text}
    tool = {"name": "translate_text", "arguments": {"text": text, "target_language": "en"}}
    own = {"text": text, "source_language": "de", "target_language": "en"}
    bodies: dict[str, dict[str, Any]] = {
        "/api/v1/translate": own,
        "/translate": {"q": text, "source": "de", "target": "en"},
        "/v2/translate": {"text": [text], "source_lang": "DE", "target_lang": "EN-GB"},
        "/v1/chat/completions": {"model": "de-en", "messages": [message]},
        "/immersive-translate": {"text_list": [text], "source_lang": "de", "target_lang": "en"},
        "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool},
        "/v2/models/translate/generate": {"text_input": text, "target_language": "en"},
    }
    with Application(address=ANYWHERE) as app:
        key = app.new_key(limits=Limits(characters_per_month=len(bodies) * len(text)))
        bearer = {"authorization": f"Bearer {key}"}
        answers = [app.post(path, body, **bearer) for path, body in bodies.items()]
        assert {answer.status for answer in answers} == {200}
        usage = app.call("GET", "/api/v1/usage", headers=bearer).json
        assert (usage["characters"], usage["requests"]) == (len(bodies) * len(text), len(bodies))
        refused = {path: app.post(path, body, **bearer) for path, body in bodies.items()}
    statuses = [answer.status for answer in refused.values()]
    assert statuses == [429, 403, 456, 429, 429, 200, 429]
    assert refused["/mcp"].json["result"]["isError"]
    first = refused["/api/v1/translate"]
    assert first.json["error"]["code"] == "quota_used_up"
    assert int(first.headers["retry-after"]) > 0
    assert '"month";r=0' in first.headers["ratelimit"]


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
