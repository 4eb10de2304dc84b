"""The client for asyncio, over both protocols."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator

import pytest
from dragoman_client import (
    AccessDenied,
    AsyncTranslator,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
)
from stand_ins import ENDLESS, HEADERS, KINDS, LATE, TIMEOUT_S, TlsFiles, translated


async def test_texts_are_translated(triton_url: str) -> None:
    """One, several and no texts, with options, a token and a deadline."""
    HEADERS.clear()
    async with AsyncTranslator(triton_url, token="secret", timeout_s=5) as translator:
        assert await translator.is_ready()
        assert (await translator.translate("Gr\u00fc\u00dfe")).text == translated("Gr\u00fc\u00dfe")
        answers = await translator.translate(["a", "c\n", "b"], beam_width=4, target_language="de")
        assert [t.text for t in answers] == [translated(t) for t in ("a", "c\n", "b")]
        assert await translator.translate([]) == []
    assert all(seen["authorization"] == "Bearer secret" for seen in HEADERS)
    assert all(0 < seen["timeout"] <= 5_000_000 for seen in HEADERS)


@pytest.mark.parametrize(("text", "kind"), KINDS)
async def test_a_refusal_keeps_class_and_message(
    url: str, text: str, kind: type[Exception]
) -> None:
    """Requests and streams raise the same error."""
    async with AsyncTranslator(url, retries=0) as translator:
        with pytest.raises(kind) as caught:
            await translator.translate(text)
        assert (type(caught.value), str(caught.value)) == (kind, f"refused: {text}")
        with pytest.raises(kind) as caught:
            _ = [part async for part in translator.translate_stream(text)]
        assert (type(caught.value), str(caught.value)) == (kind, f"refused: {text}")


async def test_a_late_answer_raises_deadline_exceeded(url: str) -> None:
    """The translator answers the next request after a timeout."""
    answer = None
    async with AsyncTranslator(url, timeout_s=TIMEOUT_S) as translator:
        with pytest.raises(DeadlineExceeded):
            await translator.translate(LATE)
        while answer is None:
            with contextlib.suppress(DeadlineExceeded):  # on a busy machine, of this one too
                answer = await translator.translate("a")
    assert answer.text == translated("a")


async def test_a_stream_ends_with_the_whole_translation(url: str) -> None:
    """Each part of a stream extends the one before, as in the blocking client."""
    async with AsyncTranslator(url, timeout_s=2) as translator:
        with pytest.raises((ServerError, DeadlineExceeded)):
            _ = [part async for part in translator.translate_stream(ENDLESS)]
    async with AsyncTranslator(url) as translator:
        parts = [part async for part in translator.translate_stream("abc")]
        assert [part.finish_reason for part in parts] == [*[""] * (len(parts) - 1), "stop"]
        unread = translator.translate_stream("abc")
        assert (await anext(unread)).text
        await unread.aclose()
        texts = [part.text for part in parts]
    assert texts[-1] == translated("abc")
    assert all(after.startswith(before) for before, after in itertools.pairwise(texts))


@pytest.mark.parametrize("scheme", ["grpc", "http"])
async def test_an_unreachable_server_is_retried_and_reported(scheme: str, free_port: int) -> None:
    """Retries of an unreachable server end soon after the timeout."""
    begin_s = time.monotonic()
    async with AsyncTranslator(f"{scheme}://127.0.0.1:{free_port}", timeout_s=2) as translator:
        assert not await translator.is_ready()
        with pytest.raises(ServerUnavailable):
            await translator.translate("a")
    assert time.monotonic() - begin_s < 60  # by default gRPC would wait for two minutes


async def test_tls(tls_url: str, client_files: TlsFiles) -> None:
    """The client sends its certificate, and rejects a server that it does not trust."""
    own = {"certificate_file": client_files.certificate, "key_file": client_files.key}
    async with AsyncTranslator(tls_url, ca_file=client_files.ca, **own) as translator:
        assert (await translator.translate("a")).text == translated("a")
    async with AsyncTranslator(tls_url, ca_file=None, timeout_s=5, **own) as translator:
        with pytest.raises((AccessDenied, ServerUnavailable)):
            await translator.translate("a")


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


async def test_invalid_arguments_are_refused_before_a_request() -> None:
    """Arguments are checked as in `Translator`."""
    translator = AsyncTranslator("http://localhost")
    with pytest.raises(TypeError, match="must be str"):
        await translator.translate([1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="beam_width"):
        translator.translate_stream("a", beam_width=True)
    with pytest.raises(ValueError, match="batch_size is 0"):
        translator.translate_batches([], batch_size=0)
    with pytest.raises(TypeError, match="not one text"):
        translator.translate_batches("abc")
    await translator.close()
    with pytest.raises(RuntimeError, match="closed"):
        await translator.translate("a")
    with pytest.raises(ValueError, match="timeout_s"):
        AsyncTranslator(timeout_s=0)
