"""Glossaries stored by the gateway."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.core.caller import ANONYMOUS, Caller
from dragoman_gateway.core.errors import (
    GatewayError,
    InvalidInput,
    KeyMissing,
    NotFound,
    TooLarge,
    TooManyRequests,
)
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store
from dragoman_gateway.glossaries.glossaries import Dictionary, Glossaries

ANNA, BERT = Caller("anna", "anna"), Caller("bert", "bert")


@asynccontextmanager
async def opened(folder: Path | None = None, **given: Any) -> AsyncIterator[Glossaries]:
    with closing(Store(folder)) as store:
        yield Glossaries(GatewaySettings(**given), store)


def terms(source: str = "en", target: str = "de", **entries: str) -> Dictionary:
    entries = entries or {"tea": "Tee"}
    return Dictionary(source, target, entries, len(entries))


async def test_a_glossary_is_stored(tmp_path: Path) -> None:
    async with opened(tmp_path) as of:
        made = await of.create(ANNA, " mine ", [terms(), terms("de", "en", Tee="tea", Topf="pot")])
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", made.id)
        assert (made.name, made.created.tzinfo is not None) == ("mine", True)
        assert [dictionary.entry_count for dictionary in made.dictionaries] == [1, 2]
        assert all(dictionary.entries is None for dictionary in made.dictionaries)
        await of.create(ANNA, "mine", [])
    async with opened(tmp_path) as of:
        first, second = await of.all(ANNA)
        assert second.dictionaries == ()
        glossary = await of.get(ANNA, first.id.upper(), entries=True)
        assert {
            dictionary.source_language: dictionary.entries for dictionary in glossary.dictionaries
        } == {
            "en": {"tea": "Tee"},
            "de": {"Tee": "tea", "Topf": "pot"},
        }


async def test_a_glossary_can_be_changed() -> None:
    async with opened() as of:
        made = await of.create(ANNA, "a", [terms(tea="Tee", pot="Topf")])
        assert (await of.rename(ANNA, made.id, "b")).name == "b"
        await of.put(ANNA, made.id, terms(tea="Kräutertee", cup="Tasse"), merge=True)
        await of.put(ANNA, made.id, terms("de", "en", Tee="tea"), merge=True)
        glossary = await of.get(ANNA, made.id, entries=True)
        assert [dictionary.entries for dictionary in glossary.dictionaries] == [
            {"tea": "Kräutertee", "pot": "Topf", "cup": "Tasse"},
            {"Tee": "tea"},
        ]
        await of.put(ANNA, made.id, terms(cup="Tasse"))
        glossary = await of.get(ANNA, made.id, entries=True)
        assert glossary.dictionaries[0] == terms(cup="Tasse")
        await of.delete_dictionary(ANNA, made.id, "en", "de")
        with pytest.raises(NotFound, match="no dictionary from 'en' into 'de'"):
            await of.delete_dictionary(ANNA, made.id, "en", "de")
        await of.delete(ANNA, made.id)
        assert await of.all(ANNA) == []


async def test_other_callers_do_not_see_a_glossary() -> None:
    async with opened() as of:
        made = await of.create(ANNA, "a", [terms()])
        for caller in (BERT, ANONYMOUS):
            assert await of.all(caller) == []
            for call in (
                of.get(caller, made.id),
                of.rename(caller, made.id, "b"),
                of.put(caller, made.id, terms()),
                of.delete_dictionary(caller, made.id, "en", "de"),
                of.delete(caller, made.id),
                of.terms(caller, [made.id], ("en", "de"), strict=False),
            ):
                with pytest.raises(NotFound, match="there is no glossary"):
                    await call
        assert (await of.get(ANNA, made.id)).name == "a"


@pytest.mark.parametrize(
    ("name", "dictionaries", "error", "message"),
    [
        ("", [], InvalidInput, "name: give 1 to 1024 characters"),
        ("x" * 1025, [], InvalidInput, "name: give 1 to 1024 characters"),
        ("\ud800", [], InvalidInput, "lone surrogate"),
        ("a", [terms(), terms()], InvalidInput, "two dictionaries from en into de"),
        ("a", [Dictionary("en", "de", {}, 0)], InvalidInput, "without entries"),
        ("a", [terms("")], InvalidInput, "without a language"),
        ("a", [terms(**{" ": "x"})], InvalidInput, "glossary has an empty term"),
        ("a", [terms(**{"x": "y" * 201})], InvalidInput, "more than 200 characters"),
        ("a", [terms(**{"x": "\ud800"})], InvalidInput, "lone surrogate"),
        ("a", [terms(**{str(n): "x" for n in range(11)})], TooLarge, "11 entries, more than 10"),
        ("a", [terms(**{str(n): "x" * 90 for n in range(9)})], TooLarge, "more than 500 bytes"),
        ("a", [terms("en", str(n)) for n in range(101)], TooLarge, "at most 100 dictionaries"),
    ],
)
async def test_an_invalid_glossary_is_refused(
    name: str, dictionaries: list[Dictionary], error: type[GatewayError], message: str
) -> None:
    async with opened(glossary_entries=10, glossary_bytes=500) as of:
        with pytest.raises(error, match=message):
            await of.create(ANNA, name, dictionaries)
        assert await of.all(ANNA) == []


async def test_the_number_of_glossaries_of_an_owner_is_limited() -> None:
    async with opened(glossaries_per_owner=3) as of:
        calls = [of.create(ANNA, str(number), []) for number in range(5)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(outcome, TooManyRequests) for outcome in outcomes) == 2
        await of.create(BERT, "a", [])


async def test_strangers_have_no_glossaries() -> None:
    async with opened() as of:
        stranger = Caller("anonymous 10.0.0.1", is_stranger=True)
        for call in (
            of.create(stranger, "a", []),
            of.all(stranger),
            of.get(stranger, "a"),
            of.rename(stranger, "a", "b"),
            of.put(stranger, "a", terms()),
            of.delete_dictionary(stranger, "a", "en", "de"),
            of.delete(stranger, "a"),
            of.terms(stranger, ["a"], ("en", "de"), strict=True),
        ):
            with pytest.raises(KeyMissing, match="stored glossaries need a key"):
                await call
        assert not (await of.terms(stranger, [], ("en", "de"), strict=True)).indexes


async def test_bytes_of_one_owners_and_of_all_glossaries_are_limited(tmp_path: Path) -> None:
    async with opened(tmp_path, glossary_bytes_per_owner=300, glossary_bytes_together=400) as of:
        made = await of.create(ANNA, "a", [terms(a="b" * 150)])
        for _ in range(3):  # replacements do not add up
            await of.put(ANNA, made.id, terms(a="b" * 150))
        with pytest.raises(TooLarge, match="more than 300 bytes together"):
            await of.put(ANNA, made.id, terms("de", "en", a="b" * 150))
        with pytest.raises(TooLarge):
            await of.create(ANNA, "b", [terms(a="b" * 150)])
        assert len(await of.all(ANNA)) == 1
        assert len((await of.get(ANNA, made.id)).dictionaries) == 1
        await of.create(BERT, "a", [terms(a="b" * 150)])
        with pytest.raises(TooManyRequests, match="reached its limit of glossaries"):
            await of.create(Caller("c", "c"), "a", [terms(a="b" * 150)])
        await of.delete(ANNA, made.id)
        await of.create(Caller("c", "c"), "a", [terms(a="b" * 150)])


async def test_many_entries_are_checked_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set()
    written = Glossaries._written

    def noted(self: Glossaries, dictionary: Dictionary) -> tuple[str, str, str, int]:
        threads.add(threading.current_thread())
        return written(self, dictionary)

    monkeypatch.setattr(Glossaries, "_written", noted)
    async with opened() as of:
        made = await of.create(ANNA, "a", [terms()])
        await of.put(ANNA, made.id, terms())
        assert threads
        assert threading.main_thread() not in threads


async def test_a_large_glossary_is_read_and_merged_outside_of_the_threads_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another key's check would wait for them."""
    threads = set()
    loads = json.loads

    def noted(written: str) -> Any:
        threads.add(threading.current_thread().name)
        return loads(written)

    async with opened(tmp_path) as of:
        made = await of.create(ANNA, "mine", [terms()])
        monkeypatch.setattr(json, "loads", noted)
        await of.put(ANNA, made.id, terms(pot="Topf"), merge=True)
        glossary = await of.get(ANNA, made.id, entries=True)
        assert glossary.dictionaries[0].entries == {"tea": "Tee", "pot": "Topf"}
    assert threads
    assert not [name for name in threads if name.startswith(("store", "MainThread"))]


async def test_entries_that_change_during_a_merge_are_not_lost(tmp_path: Path) -> None:
    async with opened(tmp_path) as of:
        made = await of.create(ANNA, "mine", [terms()])
        merges = [of.put(ANNA, made.id, terms(**{f"a{n}": "b"}), merge=True) for n in range(5)]
        await asyncio.gather(*merges)
        glossary = await of.get(ANNA, made.id, entries=True)
        assert glossary.dictionaries[0].entries == {"tea": "Tee"} | {f"a{n}": "b" for n in range(5)}
