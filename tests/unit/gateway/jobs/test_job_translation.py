"""Portions of a document overlap, and are written in order."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import ServerUnavailable, Translation
from dragoman_documents.memory.pairs import Pair
from dragoman_gateway.core.caller import ANONYMOUS
from dragoman_gateway.core.errors import NotFound

from tests.unit.gateway.jobs.test_jobs import Office, opened, wanted
from tests.unit.gateway.texts.model_server import ModelServer
from tests.unit.gateway.texts.test_translations import until

PARAGRAPHS = 100
"""Paragraphs of a portion."""


class Gates(ModelServer):
    """Answers the texts of each portion when its gate is open.

    Attributes:
        arrived: number of the portion of each request.
        gates: of the portions.
        errors: raised by the next request of a portion.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arrived: list[int] = []
        self.gates: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self.errors: dict[int, Exception] = {}

    async def translate_checked(
        self, texts: Sequence[str], options: Mapping[str, Any]
    ) -> list[Translation]:
        if numbers := re.findall("portion ([0-9]+)", texts[0]):
            number = int(numbers[0])
            self.arrived.append(number)
            try:
                await self.gates[number].wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            if (error := self.errors.pop(number, None)) is not None:
                raise error
        return await super().translate_checked(texts, options)

    def open(self, *numbers: int) -> None:
        for number in numbers:
            self.gates[number].set()


def paragraphs(portions: int) -> list[str]:
    return [
        f"This is number {number} of portion {portion}."
        for portion in range(portions)
        for number in range(PARAGRAPHS)
    ]


def document(portions: int) -> bytes:
    return "\n\n".join(paragraphs(portions)).encode()


async def translated(portions: int) -> str:
    return "\n\n".join([await wanted(text) for text in paragraphs(portions)])


async def settled() -> None:
    """Let everything run that waits neither for a gate nor for the disk."""
    await asyncio.sleep(0.1)


def done_portions(office: Office, job_id: str) -> int:
    return office.jobs._queue.jobs[job_id].record.done_portions


async def test_portions_overlap_and_are_written_in_order() -> None:
    """At most two are read before the first of them is written."""
    server = Gates()
    async with opened(server=server) as office:
        job = await office.submit(document(5))
        await until(lambda: sorted(server.arrived) == [0, 1])
        server.open(1)
        await until(lambda: len(server.texts) == PARAGRAPHS)
        await settled()
        assert sorted(server.arrived) == [0, 1]
        assert done_portions(office, job.id) == 0
        server.open(0)
        await until(lambda: sorted(server.arrived) == [0, 1, 2, 3])
        await until(lambda: done_portions(office, job.id) == 2)
        assert (await office.jobs.get(ANONYMOUS, job.id)).done == pytest.approx(2 / 5, abs=0.01)
        server.open(2, 3, 4)
        assert (await office.result(job)).decode() == await translated(5)
        assert sorted(server.arrived) == [0, 1, 2, 3, 4]


async def test_a_killed_gateway_translates_again_what_was_not_written(tmp_path: Path) -> None:
    """Also a portion that the server had answered before the one in front of it."""
    ids: list[str] = []
    killed, again = Gates(), Gates()
    async with opened(tmp_path / "state", killed) as office:
        ids.append((await office.submit(document(5))).id)
        killed.open(0, 1, 3)
        await until(lambda: len(killed.asked) == 3 and done_portions(office, ids[0]) == 2)
        await settled()
        shutil.copytree(tmp_path / "state", tmp_path / "killed")
    async with opened(tmp_path / "killed", again) as office:
        again.open(*range(5))
        content = await office.result(await office.jobs.get(ANONYMOUS, ids[0]))
        assert content.decode() == await translated(5)
        assert sorted(again.arrived) == [2, 3, 4]


async def test_a_refused_text_of_one_portion_does_not_affect_the_others() -> None:
    server = Gates()
    texts = paragraphs(3)
    refused = texts[PARAGRAPHS + 7] = "This is refused, like all of its kind."
    async with opened(server=server) as office:
        job = await office.submit("\n\n".join(texts).encode())
        server.open(1, 2)
        # Those before and after it are sent again.
        await until(lambda: sorted(server.arrived) == [0, 1, 1, 1])
        server.open(0)
        translations = (await office.result(job)).decode().split("\n\n")
        for text, written in zip(texts, translations, strict=True):
            assert written == (refused if text is refused else await wanted(text))


async def test_deleting_a_document_cancels_all_of_its_requests() -> None:
    server = Gates()
    async with opened(server=server) as office:
        job = await office.submit(document(4))
        await until(lambda: sorted(server.arrived) == [0, 1])
        await office.jobs.delete(ANONYMOUS, job.id)
        assert server.cancelled == 2
        with pytest.raises(NotFound):
            await office.jobs.get(ANONYMOUS, job.id)
        server.open(*range(4))
        await settled()
        assert sorted(server.arrived) == [0, 1]
        assert server.asked == []
        server.open(0)
        await office.result(await office.submit(document(1)))


async def test_an_error_in_a_portion_cancels_the_others(caplog: pytest.LogCaptureFixture) -> None:
    server = Gates()
    server.errors = {0: RuntimeError("secret text"), 2: RuntimeError("secret text")}
    async with opened(server=server) as office:
        job = await office.submit(document(4))
        await until(lambda: sorted(server.arrived) == [0, 1])
        server.open(0)
        assert (await office.jobs.get(ANONYMOUS, job.id, wait_s=10)).state == "failed"
        assert (sorted(server.arrived), server.cancelled) == ([0, 1], 1)
        assert len(office.access.refunded) == 1
    assert "secret" not in caplog.text


async def test_a_portion_waits_for_the_server_while_the_next_is_translated() -> None:
    server = Gates()
    # One more than a request is sent by itself.
    server.failing = [ServerUnavailable("away") for _ in range(5)]
    async with opened(server=server) as office:
        job = await office.submit(document(3))
        await until(lambda: sorted(server.arrived) == [0, 1])
        server.open(0)
        await until(lambda: not server.failing)
        server.open(1, 2)
        assert (await office.result(job)).decode() == await translated(3)


async def test_a_portion_waits_for_its_memory() -> None:
    server, texts = Gates(), paragraphs(3)
    async with opened(server=server) as office:
        memories = office.jobs._translations._memories
        memory = await memories.create(ANONYMOUS, "a", ("en", "de"))
        parts = [[Pair(texts[-1], "Gespeichert.")], []]
        await memories.add(ANONYMOUS, memory.id, lambda: asyncio.sleep(0, parts.pop(0)))
        job = await office.submit(document(3), memory_id=memory.id)
        await until(lambda: sorted(server.arrived) == [0, 1])
        path = memories._path(memory.id)
        content = path.read_bytes()
        path.write_bytes(b"damaged")
        server.open(0, 1, 2)
        await until(lambda: done_portions(office, job.id) == 2)
        await settled()
        path.write_bytes(content)
        result = (await office.result(job)).decode()
        assert result == "\n\n".join([*[await wanted(text) for text in texts[:-1]], "Gespeichert."])
        await memories.close()
