"""The cache: whose translations it gives to whom, and how to bypass it, in every protocol."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from dragoman_gateway.core.caller import Caller

from tests.unit.gateway.asgi import Application
from tests.unit.gateway.texts.model_server import ModelServer, translations_of
from tests.unit.gateway.texts.test_translations import until

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
    counts = []
    for header in (control, control, "max-age=0", "max-age=0"):
        before = len(app.requests)
        assert app.post(path, given, **{"cache-control": header}).status == 200
        counts.append(len(app.requests) - before)
    assert counts == [1, 1, 1, 0]


def _translated_by_two_keys(**settings: Any) -> tuple[int, int, int]:
    """Requests to Triton for a text of two keys, and for its repetition by the first key."""
    with Application(**settings) as app:
        keys = [app.new_key() for _ in range(2)]
        counts = []
        for key in (*keys, keys[0]):
            before = len(app.requests)
            body = {"text": "How are you, my friend?", "target_language": "de"}
            assert app.post("/api/v1/translate", body, authorization=f"Bearer {key}").status == 200
            counts.append(len(app.requests) - before)
    return tuple(counts)  # type: ignore[return-value]


def test_a_key_cannot_tell_what_another_one_translated_unless_they_share_the_cache() -> None:
    assert _translated_by_two_keys() == (1, 1, 0)
    assert _translated_by_two_keys(share_cache=True) == (1, 0, 0)


def test_strangers_do_not_share_the_cache() -> None:
    body = json.dumps({"text": "How are you?", "target_language": "de"}).encode()
    with Application(address="0.0.0.0", anonymous=True, trusted_proxies=("127.0.0.1",)) as app:
        counts = []
        for address in ("8.8.8.8", "9.9.9.9", "8.8.8.8"):
            before = len(app.requests)
            headers = {"content-type": "application/json", "x-forwarded-for": address}
            assert app.call("POST", "/api/v1/translate", body, headers).status == 200
            counts.append(len(app.requests) - before)
    assert counts == [1, 1, 0]


async def test_requests_in_flight_of_two_keys_are_not_shared() -> None:
    """Cancelling or timing a request would show what another key has in flight."""
    server = ModelServer()
    server.let_go.clear()
    translations = translations_of(server)
    options = {"source_language": "en", "target_language": "de"}
    tasks = [
        asyncio.create_task(translations.translate(Caller(name, name), ["A text."], options))
        for name in ("a", "b", "a")
    ]
    await until(lambda: len(server.texts) == 2)
    server.let_go.set()
    await asyncio.gather(*tasks)
    assert server.texts == ["A text.", "A text."]
