"""Many requests from one event loop to the real server."""

from __future__ import annotations

import asyncio

import pytest
from dragoman_client import AsyncTranslator

from tests.servers import WAIT_S, Served, wait_for

NUMBER = 1200


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_thousand_concurrent_requests_are_all_answered(
    shipped: Served, protocol: str
) -> None:
    server = shipped.server
    url = server.grpc_url if protocol == "grpc" else server.http_url
    texts = [f"I have {number} apples." for number in range(40)]
    right = {text: shipped.grpc.translate(text, beam_width=1).text for text in texts}
    async with AsyncTranslator(url, timeout_s=WAIT_S) as translator:
        calls = (
            translator.translate(texts[number % len(texts)], beam_width=1)
            for number in range(NUMBER)
        )
        translated = [translation.text for translation in await asyncio.gather(*calls)]
    assert translated == [right[texts[number % len(texts)]] for number in range(NUMBER)]


async def test_cancelled_tasks_cancel_their_requests(shipped: Served) -> None:
    """Only over gRPC: over HTTP, Triton 24.10 does not notice that a client has disconnected."""
    url = shipped.server.grpc_url
    before = shipped.metric("sentences_cancelled_total")
    async with AsyncTranslator(url, timeout_s=WAIT_S) as translator:
        texts = await asyncio.to_thread(shipped.long_work)
        await asyncio.to_thread(wait_for, lambda: shipped.metric("rows") == 0)
        tasks = [asyncio.create_task(translator.translate(texts, beam_width=4)) for _ in range(2)]
        await asyncio.to_thread(wait_for, lambda: shipped.metric("rows") > 0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (await translator.translate("I'm hungry.")).text == "Ich habe Hunger."
    wait_for(lambda: shipped.metric("sentences_cancelled_total") > before)
    wait_for(lambda: shipped.metric("rows") == shipped.metric("waiting") == 0)
