"""Coroutines that block: without an event loop, and in the thread of one."""

import asyncio

import pytest
from dragoman_client import Translator
from dragoman_client.transports.blocking import run, run_each
from stand_ins import FakeTransport, translated


def test_a_coroutine_that_suspends_is_refused() -> None:
    """Without an event loop nothing could resume it."""

    async def suspend() -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="suspended without an event loop"):
        run(suspend())


def test_an_abandoned_generator_is_closed_immediately() -> None:
    """Its `finally` runs before `close` returns."""
    closed = False

    async def count():  # type: ignore[no-untyped-def]
        nonlocal closed
        try:
            yield 1
            yield 2
        finally:
            closed = True

    numbers = run_each(count())
    assert next(numbers) == 1
    assert not closed
    numbers.close()
    assert closed
    assert list(run_each(count())) == [1, 2]


async def test_a_translator_works_in_the_thread_of_an_event_loop() -> None:
    """Notebooks, for example, run code in such a thread."""
    with Translator(transport=FakeTransport()) as translator:
        left = translator.translate_stream("left")
        assert next(left).text == "<"
        del left
        streamed = list(translator.translate_stream("abc"))[-1]
        translations = translator.translate_batches(["a", "b"], batch_size=1)
        assert [streamed.text, *(translation.text for translation in translations)] == [
            translated(text) for text in ("abc", "a", "b")
        ]
