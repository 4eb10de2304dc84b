"""Streams over the socket, with a real translator on a small random model."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serving.stream_socket import StreamError, StreamRequest, StreamServer, open_stream
from serving.translator import RequestOptions, Terms, Translator

TEXT = "red blue green white black pink"


@pytest.fixture(scope="module")
def translator(random_bundle: Path) -> Iterator[Translator]:
    with contextlib.closing(Translator(random_bundle)) as running:
        yield running


@pytest.fixture
def path(translator: Translator, tmp_path: Path) -> Iterator[Path]:
    with contextlib.closing(StreamServer(translator, tmp_path / "streams.sock")):
        yield tmp_path / "streams.sock"


def messages(path: Path, request: StreamRequest) -> list[dict[str, Any]]:
    async def collect() -> list[dict[str, Any]]:
        return [message async for message in open_stream(path, request)]

    return asyncio.run(collect())


@pytest.mark.parametrize("width", [1, 4])
def test_the_last_message_is_the_whole_translation(
    translator: Translator, path: Path, width: int
) -> None:
    options = RequestOptions(beam_width=width)
    found = messages(path, StreamRequest(TEXT, options, Terms()))
    (right,) = translator.translate([TEXT], options)
    assert found[-1]["final"]["text"] == right.text
    assert all(right.text.startswith(message["text"]) for message in found[:-1])


@pytest.mark.parametrize(
    ("text", "terms", "kind"),
    [
        ("", Terms(), "InvalidRequest"),
        (TEXT, Terms(deadline_s=0.0), "DeadlineExceeded"),
    ],
)
def test_errors_keep_their_kind(path: Path, text: str, terms: Terms, kind: str) -> None:
    with pytest.raises(StreamError) as caught:
        messages(path, StreamRequest(text, RequestOptions(), terms))
    assert caught.value.kind == kind


def test_hanging_up_gives_the_text_up(translator: Translator, path: Path) -> None:
    async def ask_and_go() -> None:
        _, writer = await asyncio.open_unix_connection(str(path))
        options = '{"beam_width": 8, "max_tokens": 300, "split_sentences": true}'
        text = "red blue green white black pink. " * 200
        writer.write(f'{{"text": "{text}", "options": {options}, "terms": {{}}}}\n'.encode())
        await writer.drain()
        await asyncio.sleep(0.3)
        writer.close()

    before = translator.counts.cancelled
    asyncio.run(ask_and_go())
    deadline = time.monotonic() + 30
    while translator.load.rows or translator.load.waiting:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert translator.counts.cancelled > before


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StreamError, match="not there") as caught:
        messages(tmp_path / "none.sock", StreamRequest(TEXT, RequestOptions(), Terms()))
    assert caught.value.kind == "Closed"
