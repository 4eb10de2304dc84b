"""The client for asyncio, over both protocols."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from dragoman_client import (
    AsyncTranslator,
    InvalidRequest,
)
from stand_ins import LATE, TIMEOUT_S, translated


async def test_batches_keep_the_order_of_texts(url: str) -> None:
    """The texts come from an asynchronous iterable or an ordinary one."""

    async def texts() -> AsyncIterator[str]:
        for number in range(70):
            yield str(number)

    async with AsyncTranslator(url) as translator:
        for source in (texts(), map(str, range(70))):
            batches = translator.translate_batches(source, batch_size=8, concurrency=4)
            assert [t.text async for t in batches] == [translated(str(n)) for n in range(70)]


async def test_an_error_in_a_batch_cancels_the_rest(url: str) -> None:
    """Translations of earlier batches are returned first."""
    async with AsyncTranslator(url) as translator:
        answers: list[str] = []
        texts = ["a", "b", "!invalid", *map(str, range(100))]

        async def read() -> None:
            async for translation in translator.translate_batches(
                texts, batch_size=1, concurrency=3
            ):
                answers.append(translation.text)

        with pytest.raises(InvalidRequest):
            await read()
        assert answers == [translated("a"), translated("b")]


async def test_hundreds_of_concurrent_requests_are_answered(url: str) -> None:
    """No answer is lost, duplicated or returned for another request; HTTP has 100 connections."""
    async with AsyncTranslator(url, timeout_s=120) as translator:
        requests = (translator.translate(str(number)) for number in range(300))
        assert [translation.text for translation in await asyncio.gather(*requests)] == [
            translated(str(number)) for number in range(300)
        ]


async def test_cancelling_leaves_the_connection_usable(url: str) -> None:
    """The answer to a cancelled request is not used for another one."""
    async with AsyncTranslator(url) as translator:
        task = asyncio.create_task(translator.translate(LATE))
        await asyncio.sleep(TIMEOUT_S / 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await translator.translate("a")).text == translated("a")
