"""Streams: translations that are read while they are generated."""

import itertools
import threading
import time

import pytest
from dragoman_client import (
    DeadlineExceeded,
    ServerError,
    ServerUnavailable,
    TranslationError,
    Translator,
)
from server_fixtures import Either
from stand_ins import ENDLESS, HEADERS, FakeTransport, translated


async def test_a_stream_ends_with_the_whole_translation(either: Either, url: str) -> None:
    """Each part extends the one before; the last has a finish reason. A stream may be left."""
    async with either(url) as client:
        for _ in range(3):
            (first,) = await client.parts("abc", most=1)
            assert first.text
        parts = await client.parts("abc")
    texts = [part.text for part in parts]
    assert texts[-1] == translated("abc")
    assert all(after.startswith(before) for before, after in itertools.pairwise(texts))
    assert [part.finish_reason for part in parts] == [*[""] * (len(parts) - 1), "stop"]
    assert len(parts) > 3


def test_tritons_strict_mode_is_not_requested(url: str) -> None:
    """In Triton's strict mode an error terminates Triton before 26.04."""
    HEADERS.clear()
    with Translator(url) as translator:
        assert list(translator.translate_stream("a"))
    if url.startswith("grpc"):
        (seen,) = HEADERS
        assert "triton_grpc_error" not in seen


async def test_a_stream_without_an_end_is_an_error(either: Either, url: str) -> None:
    """A partial translation is not returned as a complete one."""
    begin_s = time.monotonic()
    async with either(url, timeout_s=0.5) as client:
        with pytest.raises((ServerError, DeadlineExceeded)):
            await client.parts(ENDLESS)
    assert time.monotonic() - begin_s < 5


@pytest.mark.parametrize("scheme", ["grpc", "http"])
async def test_an_unreachable_server_is_reported(
    either: Either, scheme: str, free_port: int
) -> None:
    """The error is raised after some retries, soon after the timeout."""
    begin_s = time.monotonic()
    async with either(f"{scheme}://127.0.0.1:{free_port}", timeout_s=2) as client:
        assert not await client.is_ready()
        for ask in (client.translate, client.parts):
            with pytest.raises(ServerUnavailable):
                await ask("a")
    assert time.monotonic() - begin_s < 60  # by default gRPC would wait for two minutes


def test_streams_of_several_threads_do_not_mix(url: str) -> None:
    """The client of tritonclient supports only one stream at a time."""
    translations: dict[str, str] = {}
    with Translator(url) as translator:

        def read(text: str) -> None:
            translations[text] = list(translator.translate_stream(text))[-1].text

        texts = [letter * 5 for letter in "abcdefgh"]
        threads = [threading.Thread(target=read, args=(text,)) for text in texts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert translations == {text: translated(text) for text in texts}


def test_a_stream_that_has_begun_is_not_retried() -> None:
    """A retry after the first part would return the beginning twice."""

    class Breaking(FakeTransport):
        """Breaks after the first part with text."""

        def stream(self, inputs, timeout_s=1.0):  # type: ignore[no-untyped-def]
            yield from itertools.islice(super().stream(inputs, timeout_s), 2)
            raise ServerUnavailable("gone")

    transport = Breaking()
    with Translator(transport=transport, retries=5) as translator:
        parts = translator.translate_stream("abc")
        assert next(parts).text == "<"
        with pytest.raises(TranslationError, match="gone"):
            next(parts)
    assert len(transport.requests) == 1
