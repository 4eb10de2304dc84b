"""Responses that start before their content is known."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from dragoman_client import InvalidRequest
from dragoman_gateway.web import late_answers
from dragoman_gateway.web.late_answers import late_answer
from dragoman_gateway.web.responses import json_response
from starlette.responses import Response

from tests.unit.gateway.asgi import Application

SECRET = "a secret text"
BODY = {"text": ["a"], "target_lang": "DE", "source_lang": "EN"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes responses start soon."""
    monkeypatch.setattr(late_answers, "FIRST_S", 0.1)
    monkeypatch.setattr(late_answers, "EACH_S", 0.05)


def slow(text: str) -> str:
    """Takes longer than the delay after which a response starts."""
    time.sleep(0.4)
    if text == "b":
        raise InvalidRequest("text 0 is refused")
    return text


def test_a_slow_answer_begins_with_spaces() -> None:
    with Application(slow) as app:
        answer = app.post("/v2/translate", BODY)
        assert answer.status == 200
        assert answer.body.startswith(b"  ")
        assert json.loads(answer.body)["translations"][0]["text"] == "a"
        assert answer.headers["x-trace-id"]
        assert answer.media_type == "application/json"


def test_a_fast_answer_has_none_and_an_early_error_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(late_answers, "FIRST_S", 60.0)
    with Application() as app:
        assert app.post("/v2/translate", BODY).body.startswith(b"{")
        assert app.post("/v2/translate", BODY | {"target_lang": "ZZ"}).status == 400


def test_a_late_error_closes_the_connection() -> None:
    with Application(slow) as app:
        with pytest.raises(ConnectionAbortedError, match="an answer failed late: invalid_input"):
            app.post("/v2/translate", BODY | {"text": ["b"]})
        assert app.post("/v2/translate", BODY).status == 200


async def test_a_late_fault_is_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    async def answer() -> Response:
        await asyncio.sleep(0.2)
        raise ValueError(SECRET)

    response = await late_answer(answer())
    assert response.headers["x-accel-buffering"] == "no"
    with pytest.raises(ConnectionAbortedError, match="an answer failed late: internal") as it:
        async for _ in response.body_iterator:  # type: ignore[attr-defined]
            pass
    assert it.value.__suppress_context__
    assert "ValueError" in caplog.text
    assert "in answer" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_client_that_disconnects_cancels_the_request(is_begun: bool) -> None:
    cancelled = asyncio.Event()

    async def answer() -> Response:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return json_response({})

    task = asyncio.create_task(late_answer(answer()))
    if is_begun:
        parts = (await task).body_iterator  # type: ignore[attr-defined]
        assert await anext(parts) == b" "
        await parts.aclose()
    else:
        await asyncio.sleep(0.02)
        task.cancel()
    await asyncio.wait_for(cancelled.wait(), 5)
    assert cancelled.is_set()
