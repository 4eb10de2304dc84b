"""Processes that read documents and long texts with markup, and their limits."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from dragoman_gateway.core.caller import ANONYMOUS
from dragoman_gateway.core.errors import DeadlineExceeded, Internal, InvalidInput, TooLarge
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.reader import process as child
from dragoman_gateway.reader.exchange import ReadTexts
from dragoman_gateway.reader.marked import Answer, ReadText, TextForm
from dragoman_gateway.texts import readers as module
from dragoman_gateway.texts.marked_texts import MarkedTexts
from dragoman_gateway.texts.readers import Readers, _Process
from dragoman_gateway.texts.translations import Translations

from tests.waiting import wait_for

HTML = TextForm("html")
SLOW = "<b>x " * 400_000
"""Reading it takes more than 20 s of processor time, and a gigabyte."""


@asynccontextmanager
async def opened(**settings: Any) -> AsyncIterator[Readers]:
    readers = Readers(GatewaySettings(**settings))
    try:
        async with asyncio.timeout(60):
            yield readers
    finally:
        await readers.close()


def proc(pid: int, name: str) -> str:
    """A file about a process, with spaces for zero bytes; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text("utf-8").replace("\0", " ")
    except OSError:
        return ""


def children() -> set[int]:
    """The readers of this process."""
    pids = map(int, proc(os.getpid(), f"task/{os.getpid()}/children").split())
    return {pid for pid in pids if child.__name__ in proc(pid, "cmdline")}


def has_ended(pid: int) -> bool:
    """Whether a child has ended; its parent has not asked for its exit code."""
    return ") Z " in proc(pid, "stat")


async def test_a_document_is_read_and_written_in_one_process(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>One <b>two</b>.</p>" * 3000)
    async with opened() as readers:
        size = path.stat().st_size
        facts = await readers.inspect("a", path, size, "a.html", {})
        assert facts.form == "html"
        written, characters = b"", 0
        async with readers.document(path, size, facts.form, {}, 1) as document:
            async for portion in document.portions():
                characters += portion.characters
                answers = [Answer(text.upper(), None) for text in portion.segments.texts[:-1]]
                written += await document.written([*answers, None])
        assert 0 < characters < facts.characters  # the first portion was skipped
        assert written.count(b"ONE") > 1000
        assert written.count(b"One <b>two</b>.") == 2
        assert len(children()) == 1
        assert readers.ended == 0


async def test_memory_does_not_depend_on_the_size_of_a_document(tmp_path: Path) -> None:
    """Two portions are held, as in a job."""
    path = tmp_path / "a.txt"

    async def peak_bytes(readers: Readers, size: int) -> int:
        path.write_text("\n\n".join(["One two. " * 200] * (size // 1800)))
        unwritten: list[int] = []
        async with readers.document(path, size, "text", {}, 0) as document:
            async for portion in document.portions():
                unwritten.append(len(portion.segments.texts))
                if len(unwritten) == 2:
                    await document.written([None] * unwritten.pop(0))
            (pid,) = children()
        (peak,) = re.findall("VmHWM:\\s*([0-9]+) kB", proc(pid, "status"))
        return int(peak) << 10

    async with opened() as readers:
        small = await peak_bytes(readers, 1 << 20)
        assert await peak_bytes(readers, 16 << 20) < small + (4 << 20)


async def test_texts_are_read_and_written() -> None:
    texts = ["<p>One <b>two</b>.</p><p>Three</p>", "", "no tags &amp; ?"]
    async with opened() as readers:
        read = await readers.read_texts("a", texts, HTML)
        assert [portion.texts for portion in read] == [["One two.", "Three"], [], ["no tags & ?"]]
        answers = [[Answer(text) for text in portion.texts] for portion in read]
        written = await readers.write_texts("a", texts, HTML, answers)
        assert written[1:] == ["", "no tags &amp; ?"]
        with pytest.raises(InvalidInput, match=r"^text 1 is not valid markup: line 1") as caught:
            await readers.read_texts("a", ["<a/>", "<a>"], TextForm("xml"))
        assert caught.value.text_index == 1
        assert readers.ended == 0


async def test_bilingual_files_that_wait_do_not_hold_up_texts(tmp_path: Path) -> None:
    path = tmp_path / "a.po"
    path.write_text('msgid "a"\nmsgstr "b"\n', "utf-8")

    async def read_all() -> int:
        async with readers.pairs(path, path.stat().st_size, ("en", "de")) as read:
            return len((await read()).pairs)

    async with opened() as readers:
        async with readers.pairs(path, path.stat().st_size, ("en", "de")):
            waiting = [asyncio.create_task(read_all()) for _ in range(4)]  # as many as read
            await asyncio.gather(*(readers.read_texts("a", ["<p>x</p>"], HTML) for _ in range(3)))
            assert not any(task.done() for task in waiting)
        assert await asyncio.gather(*waiting) == [1] * 4


async def test_reading_ends_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BYTES_PER_S", 1 << 40)
    async with opened(timeout_s=0.5) as readers:
        with pytest.raises(DeadlineExceeded):
            await readers.read_texts("a", [SLOW], HTML)
        assert (children(), readers.ended) == (set(), 1)
        readers._timeout_s = 60.0
        assert await readers.read_texts("a", ["x"], HTML)  # by a new process


async def test_a_reader_has_limited_processor_time() -> None:
    process = await _Process.start()
    with pytest.raises(TooLarge, match="more than 1 s of processor time"):
        await process.call(ReadTexts([SLOW], HTML), list[ReadText], 1.0)
    await process.end()


async def test_a_reader_has_limited_memory_and_few_files() -> None:
    process = await _Process.start()
    pid = process._process.pid
    await process.call(ReadTexts(["x"], HTML), list[ReadText], 60)
    soft, hard = resource.prlimit(pid, resource.RLIMIT_AS)
    assert child.MEMORY_BYTES < soft == hard < 4 * child.MEMORY_BYTES
    for kind, limit in (
        (resource.RLIMIT_NOFILE, 16),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        assert resource.prlimit(pid, kind) == (limit, limit)
    used = int(proc(pid, "statm").split()[0])
    least = used * resource.getpagesize() + (8 << 20)
    resource.prlimit(pid, resource.RLIMIT_AS, (least, least))
    with pytest.raises(TooLarge, match="too much memory"):
        await process.call(ReadTexts([SLOW[: 1 << 20]], HTML), list[ReadText], 60)
    await process.end()


async def test_a_reader_ends_when_its_client_leaves() -> None:
    async with opened() as readers:
        for reading in (
            readers.read_texts("a", [SLOW], HTML),
            readers.write_texts("a", [SLOW], HTML, [[]]),
        ):
            task = asyncio.create_task(reading)
            await asyncio.to_thread(wait_for, lambda: bool(children()))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert children() == set()


async def test_a_reader_that_dies_is_replaced() -> None:
    async with opened() as readers:
        task = asyncio.create_task(readers.read_texts("a", [SLOW], HTML))
        await asyncio.to_thread(wait_for, lambda: bool(children()))
        (pid,) = children()
        os.kill(pid, signal.SIGSEGV)
        with pytest.raises(Internal, match="ended with code -11"):
            await task
        assert readers.ended == 1
        for _ in range(2):
            assert await readers.read_texts("a", ["x"], HTML)
            (pid,) = children()
            os.kill(pid, signal.SIGKILL)  # while it is idle
            await asyncio.to_thread(wait_for, partial(has_ended, pid))


async def test_one_client_has_a_share_of_the_readers() -> None:
    async with opened() as readers:
        slow = [asyncio.create_task(readers.read_texts("a", [SLOW], HTML)) for _ in range(8)]
        await asyncio.to_thread(wait_for, lambda: bool(children()))
        assert await readers.read_texts("b", ["x"], HTML)
        assert len(children()) == 2
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        assert readers._slots.held == 0


async def test_a_reader_does_not_have_the_secrets_of_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DRAGOMAN_GATEWAY_LIMITS_URL", "redis://:secret@localhost")
    async with opened() as readers:
        await readers.read_texts("a", ["x"], HTML)
        (pid,) = children()
        assert "PATH=" in proc(pid, "environ")
        assert "secret" not in proc(pid, "environ")


async def test_a_reader_ends_with_its_gateway() -> None:
    code = (
        "import asyncio, os\n"
        "from dragoman_gateway.texts.readers import _Process\n"
        "process = asyncio.run(_Process.start())\n"
        "print(process._process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )

    gateway = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    assert gateway.stdout is not None
    pid = int(await gateway.stdout.readline())
    await gateway.wait()
    await asyncio.to_thread(wait_for, lambda: not proc(pid, "cmdline"))


@pytest.mark.parametrize(
    ("texts", "is_long"),
    [(["<p>One.</p>"], False), (["<p>One.</p>" * 400], True), ([""] * 100, True)],
)
async def test_texts_that_are_long_together_are_read_in_another_process(
    texts: list[str], is_long: bool
) -> None:
    async with opened() as readers:
        marked = await MarkedTexts(readers, cast(Translations, None), ANONYMOUS, HTML).read(texts)
        assert [text.written for text in marked] == texts
        assert [text.excerpt is None for text in marked] == [is_long] * len(texts)
        assert bool(children()) == is_long
