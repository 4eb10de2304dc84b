"""Keys: how they are stored, who is admitted by them, how soon changes take effect."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.access import keys as keys_module
from dragoman_gateway.access.keys import (
    Key,
    Keys,
    add_key,
    all_keys,
    get_key,
    import_libretranslate,
    limit_key,
    revoke_key,
)
from dragoman_gateway.core.caller import Limits
from dragoman_gateway.core.errors import KeyRefused
from dragoman_gateway.core.store import FILE_NAME, Store

from dragoman.kernel.errors import UsageError
from tests.timing import set_clock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


@pytest.fixture
def keys(store: Store) -> Keys:
    return Keys(store)


async def added(store: Store, **how: Any) -> tuple[Key, str]:
    return await store.write(lambda db: add_key(db, "a label", **how))


async def test_a_key_has_256_random_bits_and_only_its_hash_is_kept(
    store: Store, tmp_path: Path
) -> None:
    key, given = await added(store)
    match = re.fullmatch(r"drg_([A-Za-z]{10})_([0-9A-Za-z]{43})", given)
    assert match
    assert 62**43 > 2**256
    assert (key.id, key.secret_hash) == (match[1], hashlib.sha256(match[2].encode()).digest())
    await store.write(lambda db: db.execute("PRAGMA user_version"))
    on_disk = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.id.encode() in on_disk
    assert match[2].encode() not in on_disk
    assert match[2] not in repr(key)


async def test_keys_differ(store: Store) -> None:
    assert len({(await added(store))[1] for _ in range(50)}) == 50


async def test_a_key_gives_access_with_its_limits(keys: Keys, store: Store) -> None:
    limits = Limits(requests_per_minute=3, characters_per_month=5)
    key, given = await added(store, limits=limits, caches=False)
    caller = await keys.caller(given, "own")
    assert (caller.name, caller.key_id, caller.owner) == (key.id, key.id, key.id)
    assert (caller.limits, caller.caches) == (limits, False)
    # DeepL's clients choose their server by this ending.
    assert (await keys.caller(given + ":fx", "deepl")).key_id == key.id


async def test_an_invalid_key_is_refused_without_being_repeated(keys: Keys, store: Store) -> None:
    key, given = await added(store)
    wrong = [
        f"drg_{key.id}_{'x' * 43}",
        f"drg_{'x' * 10}_{given.rpartition('_')[2]}",
        given[:-1],
        given + "x",
        given.rpartition("_")[2],
        key.id,
        f"drg_{key.id}_",
        "drg__",
        "x" * 5000,
        "\udc80",
        "ключ",
        key.secret_hash.hex(),
        "' OR 1=1 --",
    ]
    for wrong_key in wrong:
        with pytest.raises(KeyRefused) as caught:
            await keys.caller(wrong_key, "own")
        assert wrong_key not in str(caught.value)
        assert given.rpartition("_")[2] not in str(caught.value)


async def test_secrets_are_compared_in_constant_time(
    keys: Keys, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, given = await added(store)
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def compare(first: bytes, other: bytes) -> bool:
        compared.append((first, other))
        return real(first, other)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    await keys.caller(given, "own")
    with pytest.raises(KeyRefused):
        await keys.caller(given[:-1] + "!", "own")
    assert len(compared) == 2


async def test_a_key_is_limited_to_its_protocols(keys: Keys, store: Store) -> None:
    key, given = await added(store, protocols=("deepl", "own"))
    assert (await keys.caller(given, "own")).key_id == key.id
    with pytest.raises(KeyRefused, match="is for deepl, /api/v1, not for riva"):
        await keys.caller(given, "riva")
    _, given = await added(store, protocols=("deepl",))
    with pytest.raises(KeyRefused, match=r"is for deepl, not for this API \(/api/v1\)"):
        await keys.caller(given, "own")


async def test_a_key_expires_while_it_is_in_memory(
    keys: Keys, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, given = await added(store, expires_s=int(time.time()) + 1000)

    await keys.caller(given, "own")
    monkeypatch.setattr(time, "time", lambda: 10.0**10)
    with pytest.raises(KeyRefused, match="is expired"):
        await keys.caller(given, "own")


async def test_revoking_takes_effect_within_a_second(
    keys: Keys, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, given = await added(store)

    await keys.caller(given, "own")
    # Like the command: with its own connection.
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other, other:
        revoke_key(other, key.id)
    later_s = time.monotonic() + 1
    set_clock(monkeypatch, keys_module.__name__, lambda: later_s)
    with pytest.raises(KeyRefused, match="is revoked"):
        await keys.caller(given, "own")


async def test_limits_change_within_a_second(keys: Keys, store: Store) -> None:
    key, given = await added(store)

    await keys.caller(given, "own")
    await store.write(lambda db: limit_key(db, key.id, {"requests_per_minute": 7}))
    await asyncio.sleep(0.6)
    assert (await keys.caller(given, "own")).limits.requests_per_minute == 7


async def test_concurrent_requests_read_the_store_once(
    keys: Keys, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, given = await added(store)
    reads = []
    read = store.read

    async def counted(work: Any) -> Any:
        reads.append(work)
        return await read(work)

    monkeypatch.setattr(store, "read", counted)

    await asyncio.gather(*(keys.caller(given, "own") for _ in range(200)))
    await asyncio.gather(*(keys.caller(given, "own") for _ in range(200)))
    assert len(reads) == 1


async def test_a_cancelled_request_does_not_break_a_shared_read(keys: Keys, store: Store) -> None:
    key, given = await added(store)

    first = asyncio.create_task(keys.caller(given, "own"))
    second = asyncio.create_task(keys.caller(given, "own"))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).key_id == key.id


async def test_the_number_of_keys_in_memory_is_limited(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "_KEPT_KEYS", 5)

    for number in range(50):
        with pytest.raises(KeyRefused):
            await keys.caller(f"made up {number}", "own")
    assert len(keys._kept) == 5


async def test_unknown_keys_are_refused_by_their_ids(store: Store) -> None:
    for change in (get_key, revoke_key, partial(limit_key, changes={})):
        with pytest.raises(UsageError, match="there is no key 'nobody'"):
            await store.write(partial(change, key_id="nobody"))


async def test_revoking_again_keeps_the_time(store: Store) -> None:
    key, _ = await added(store)
    first = await store.write(lambda db: revoke_key(db, key.id))
    await store.write(lambda db: db.execute("UPDATE keys SET revoked_s = 7"))
    again = await store.write(lambda db: revoke_key(db, key.id))
    assert first.revoked_s is not None
    assert again.revoked_s == 7


def libretranslate(path: Path, with_characters: bool = True) -> None:
    """A file in LibreTranslate's format."""
    more = ', "char_limit" INTEGER DEFAULT NULL' if with_characters else ""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            f'CREATE TABLE api_keys ("api_key" TEXT NOT NULL, "req_limit" INTEGER NOT NULL{more}, '
            'PRIMARY KEY("api_key"))'
        )
        rows = [("11111111-aaaa", 120, 5000), ("22222222-bbbb", 0, None), ("drg_odd_one", 60, -1)]
        for row in rows:
            values = row if with_characters else row[:2]
            connection.execute(
                f"INSERT INTO api_keys VALUES ({', '.join('?' * len(values))})", values
            )


@pytest.mark.parametrize("with_characters", [True, False])
async def test_libretranslate_keys_keep_working(
    keys: Keys, store: Store, tmp_path: Path, with_characters: bool
) -> None:
    libretranslate(tmp_path / "api_keys.db", with_characters)
    path = tmp_path / "api_keys.db"
    assert await store.write(lambda db: import_libretranslate(db, path)) == (3, 0)
    assert await store.write(lambda db: import_libretranslate(db, path)) == (0, 3)
    path.unlink()
    caller = await keys.caller("11111111-aaaa", "libretranslate")
    most = 5000 if with_characters else None
    assert caller.limits == Limits(requests_per_minute=120, characters_per_request=most)
    unlimited = await keys.caller("22222222-bbbb", "libretranslate")
    assert unlimited.limits == Limits()
    kept = await store.read(all_keys)
    assert [key.label for key in kept] == [f"LibreTranslate key {n}" for n in (1, 2, 3)]
    on_disk = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"11111111-aaaa" not in on_disk


async def test_an_imported_key_is_not_found_by_its_new_id(
    keys: Keys, store: Store, tmp_path: Path
) -> None:
    libretranslate(tmp_path / "api_keys.db")
    await store.write(lambda db: import_libretranslate(db, tmp_path / "api_keys.db"))
    (first, *_) = await store.read(all_keys)
    with pytest.raises(KeyRefused):
        await keys.caller(f"drg_{first.id}_11111111-aaaa", "own")


@pytest.mark.parametrize("content", [None, b"text", b""])
async def test_a_file_that_is_not_libretranslates_is_refused(
    store: Store, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "api_keys.db"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"api_keys\.db"):
        await store.write(lambda db: import_libretranslate(db, path))
