"""Translation memories stored by the gateway."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from dragoman_documents.memory.pairs import Pair
from dragoman_gateway.core import errors
from dragoman_gateway.core.caller import ANONYMOUS, Caller
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store
from dragoman_gateway.memories.memories import Memories, ReadPairs

ANNA, BERT = Caller("anna", "anna"), Caller("bert", "bert")
EN_DE = ("en", "de")


@asynccontextmanager
async def opened(folder: Path | None = None, **given: Any) -> AsyncIterator[Memories]:
    with closing(Store(folder)) as store:
        memories = Memories(GatewaySettings(folder=folder, **given), store)
        try:
            yield memories
        finally:
            await memories.close()


def reading(*pairs: Pair, at_once: int = 2) -> ReadPairs:
    """A function that reads pairs, a few at once."""
    parts = [pairs[begin : begin + at_once] for begin in range(0, len(pairs), at_once)]

    async def read() -> Sequence[Pair]:
        return parts.pop(0) if parts else ()

    return read


def numbered(count: int) -> list[Pair]:
    return [Pair(f"Text number {number}.", f"Text Nummer {number}.") for number in range(count)]


async def test_a_memory_is_stored(tmp_path: Path) -> None:
    async with opened(tmp_path) as of:
        made = await of.create(ANNA, " mine ", EN_DE)
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made.id)
        assert (made.name, made.segment_count, made.source_language) == ("mine", 0, "en")
        changed = await of.add(ANNA, made.id, reading(*numbered(7)))
        assert changed.segment_count == 7
        assert changed.size_bytes > 0
        assert changed.updated >= made.created
        assert (await of.add(ANNA, made.id, reading(*numbered(7)))).segment_count == 7
    assert len(list((tmp_path / "memories").iterdir())) == 1
    async with opened(tmp_path) as of:
        (stored,) = await of.all(ANNA)
        assert await of.get(ANNA, stored.id.upper()) == stored
        (best, *_) = await of.search(ANNA, stored.id, "Text  number 5.", 75, 3)
        assert (best.pair.target, best.similarity) == ("Text Nummer 5.", 100)
        content = b"".join([part async for part in await of.tmx(ANNA, stored.id)])
        assert content.count(b"<tu>") == 7
        await of.delete(ANNA, stored.id)
        assert await of.all(ANNA) == []
    assert list((tmp_path / "memories").iterdir()) == []


async def test_texts_take_their_translations_from_it() -> None:
    async with opened() as of:
        memory = await of.create(ANNA, "a", EN_DE)
        await of.add(ANNA, memory.id, reading(*numbered(3)))
        texts = ["Text number 1.", "Another.", " Text number 2.\n"]
        stored = await of.stored(ANNA, memory.id, texts, (), {"target_language": "de-AT"})
        written = [None if translation is None else translation.text for translation in stored]
        assert written == ["Text Nummer 1.", None, " Text Nummer 2.\n"]
        for options, message in (
            ({"target_language": "fr"}, "from en to de, but target_language is 'fr'"),
            ({"source_language": "de"}, "source_language is 'de'"),
            ({"prefix": ["Ein"]}, "memory_id: not with prefix"),
            ({"return_scores": True}, "memory_id: not with return_scores"),
        ):
            with pytest.raises(errors.InvalidInput, match=message):
                await of.stored(ANNA, memory.id, texts, (), options)


async def test_pages_and_parts_of_texts() -> None:
    async with opened() as of:
        memory = await of.create(ANNA, "a", EN_DE)
        await of.add(ANNA, memory.id, reading(*numbered(25)))
        seen: list[str] = []
        after: int | None = 0
        while after is not None:
            page, after = await of.page(ANNA, memory.id, after, 10, "", has_case=False)
            seen += [pair.source for _, pair in page]
        assert seen == [pair.source for pair in numbered(25)]
        for part, has_case, count in (
            ("NUMMER 1", False, 11),
            ("NUMMER 1", True, 0),
            ("number 2", True, 6),
        ):
            page, _ = await of.page(ANNA, memory.id, 0, 100, part, has_case)
            assert len(page) == count


async def test_other_callers_do_not_see_a_memory() -> None:
    async with opened() as of:
        memory = await of.create(ANNA, "a", EN_DE)
        for caller in (BERT, ANONYMOUS):
            assert await of.all(caller) == []
            for call in (
                of.get(caller, memory.id),
                of.add(caller, memory.id, reading(*numbered(1))),
                of.tmx(caller, memory.id),
                of.search(caller, memory.id, "a", 75, 5),
                of.page(caller, memory.id, 0, 1, "", has_case=False),
                of.stored(caller, memory.id, ["a"], (), {}),
                of.delete(caller, memory.id),
            ):
                with pytest.raises(errors.NotFound, match="there is no translation memory"):
                    await call
        stranger = Caller("stranger", is_stranger=True)
        with pytest.raises(errors.KeyMissing, match="stored translation memories need a key"):
            await of.create(stranger, "a", EN_DE)
        assert (await of.get(ANNA, memory.id)).name == "a"


async def test_limits_of_a_caller_and_of_all() -> None:
    async with opened(memories_per_owner=2) as of:
        for name in ("a", "b"):
            await of.create(ANNA, name, EN_DE)
        with pytest.raises(
            errors.TooManyRequests, match="there are 2 translation memories already"
        ):
            await of.create(ANNA, "c", EN_DE)
        await of.create(BERT, "a", EN_DE)
    async with opened(memory_segments=10) as of:
        memory = await of.create(ANNA, "a", EN_DE)
        with pytest.raises(errors.TooLarge, match="11 segments, more than 10"):
            await of.add(ANNA, memory.id, reading(*numbered(11)))
        assert (await of.get(ANNA, memory.id)).segment_count == 0
        assert await of.search(ANNA, memory.id, "Text number 1.", 75, 5) == []
        assert (await of.add(ANNA, memory.id, reading(*numbered(10)))).segment_count == 10
    async with opened(memory_bytes_per_owner=200_000) as of:
        first, second = [await of.create(ANNA, name, EN_DE) for name in "ab"]
        await of.add(ANNA, first.id, reading(*numbered(10)))
        with pytest.raises(errors.TooLarge, match="bytes, more than"):
            await of.add(ANNA, second.id, reading(*numbered(2000)))
        with pytest.raises(errors.TooLarge, match="bytes, more than"):
            await of.add(ANNA, first.id, reading(*numbered(2000)))
        other = await of.create(BERT, "a", EN_DE)
        assert (await of.add(BERT, other.id, reading(*numbered(20)))).segment_count == 20


async def test_a_file_that_ends_in_an_error_changes_nothing() -> None:
    async with opened() as of:
        memory = await of.create(ANNA, "a", EN_DE)
        read = reading(*numbered(4))

        async def damaged() -> Sequence[Pair]:
            if pairs := await read():
                return pairs
            raise errors.InvalidInput("line 9: damaged")

        with pytest.raises(errors.InvalidInput, match="line 9: damaged"):
            await of.add(ANNA, memory.id, damaged)
        with pytest.raises(errors.InvalidInput, match="has no translations from en to de"):
            await of.add(ANNA, memory.id, reading())
        assert await of.search(ANNA, memory.id, "Text number 1.", 75, 5) == []
        for name in ("", " ", "x" * 1025):
            with pytest.raises(errors.InvalidInput, match="name: give 1 to 1024 characters"):
                await of.create(ANNA, name, EN_DE)


async def test_a_memory_is_read_while_it_grows() -> None:
    """A long import does not hold up other requests."""
    async with opened() as of:
        memory = await of.create(ANNA, "a", EN_DE)
        await of.add(ANNA, memory.id, reading(*numbered(3)))
        goes_on, begun = asyncio.Event(), asyncio.Event()
        read = reading(Pair("One more.", "Noch einer."), at_once=1)

        async def slow() -> Sequence[Pair]:
            begun.set()
            pairs = await read()
            if not pairs:
                await goes_on.wait()
            return pairs

        adding = asyncio.create_task(of.add(ANNA, memory.id, slow))
        await begun.wait()
        assert (await of.search(ANNA, memory.id, "Text number 1.", 100, 1))[0].similarity == 100
        goes_on.set()
        assert (await adding).segment_count == 4


async def test_an_import_that_is_cancelled_while_it_is_stored_counts(tmp_path: Path) -> None:
    """Otherwise a client that leaves at the end would have a memory of any size."""
    async with opened(tmp_path) as of:
        memory = await of.create(ANNA, "a", EN_DE)
        read, last = reading(*numbered(7)), asyncio.Event()

        async def until_last() -> Sequence[Pair]:
            if not (pairs := await read()):
                last.set()
            return pairs

        adding = asyncio.create_task(of.add(ANNA, memory.id, until_last))
        await last.wait()
        adding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await adding
        await of.close()  # waits for its end
        stored = await of.get(ANNA, memory.id)
        assert stored.segment_count == 7
        assert stored.size_bytes > 0


async def test_a_memory_whose_creation_is_cancelled_does_not_exist(tmp_path: Path) -> None:
    async with opened(tmp_path) as of:
        for pause_s in (0.0, 0.0, 0.0005, 0.001, 0.002, 0.004):
            creating = asyncio.create_task(of.create(ANNA, "a", EN_DE))
            await asyncio.sleep(pause_s)
            creating.cancel()
            (result,) = await asyncio.gather(creating, return_exceptions=True)
            if not isinstance(result, asyncio.CancelledError):
                assert not isinstance(result, BaseException)
                await of.delete(ANNA, result.id)
            assert await of.all(ANNA) == []
            assert [*tmp_path.glob("memories/*")] == []


async def test_a_file_that_is_damaged_or_missing_is_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path) as of:
        memory = await of.create(ANNA, "a", EN_DE)
        (path,) = tmp_path.glob("memories/*.sqlite")
        for content in (b"", b"x" * 5000):
            path.write_bytes(content)
            for call in (of.search(ANNA, memory.id, "a", 75, 5), of.tmx(ANNA, memory.id)):
                with pytest.raises(errors.Unavailable, match="try again"):
                    await call
        path.unlink()
        with pytest.raises(errors.NotFound, match="deleted just now"):
            await of.tmx(ANNA, memory.id)
        assert not path.exists()
