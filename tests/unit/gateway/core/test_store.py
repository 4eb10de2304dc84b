"""The store's file: private to its user, migrated, backed up, refused if damaged."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.access.keys import add_key, all_keys
from dragoman_gateway.core import store as store_module
from dragoman_gateway.core.errors import Unavailable
from dragoman_gateway.core.store import (
    FILE_NAME,
    VERSION,
    Store,
    back_up,
    open_database,
    transaction,
)

from dragoman.kernel.errors import UsageError


@contextlib.contextmanager
def opened(folder: Path | None) -> Iterator[Store]:
    store = Store(folder)
    try:
        yield store
    finally:
        store.close()


def put(connection: sqlite3.Connection, name: str, value: str = "x") -> None:
    connection.execute("INSERT INTO facts VALUES (?, ?)", (name, value))


def facts(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM facts ORDER BY name")]


async def test_folder_and_files_are_private_to_their_user(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "state"
    with opened(folder) as store:
        await store.write(lambda db: put(db, "one"))
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == dict.fromkeys([FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"], 0o600)


def test_a_restored_file_becomes_private_again(tmp_path: Path) -> None:
    open_database(tmp_path).close()
    (tmp_path / FILE_NAME).chmod(0o644)
    open_database(tmp_path).close()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_a_world_writable_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match="every user can write there"):
        open_database(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (tmp_path / FILE_NAME).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="cannot be written"):
        open_database(tmp_path)


@pytest.mark.parametrize("content", [b"this is no database, it is text " * 100, b"\0" * 4096])
def test_an_invalid_database_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(UsageError, match="is damaged or not a SQLite file") as caught:
        open_database(tmp_path)
    assert "\n" not in str(caught.value)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    with closing(open_database(tmp_path)) as connection, transaction(connection):
        for number in range(2000):
            put(connection, f"name {number}", "value" * 20)
    path = tmp_path / FILE_NAME
    content = bytearray(path.read_bytes())
    content[9 * 4096 : 12 * 4096] = os.urandom(3 * 4096)
    path.write_bytes(content)
    with pytest.raises(UsageError, match="restore a backup"):
        open_database(tmp_path)


def test_a_newer_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    with closing(open_database(tmp_path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(UsageError, match="written by a newer version of Dragoman") as caught:
        open_database(tmp_path)
    assert "\n" not in str(caught.value)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)


@pytest.mark.parametrize("how", ["a file", "a folder that cannot be made"])
def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path, how: str) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" if how == "a file" else tmp_path / "file" / "state"
    with pytest.raises(UsageError, match=r"cannot be written.*give a folder"):
        open_database(folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot be written: Permission denied"):
        open_database(tmp_path)


def test_a_missing_file_is_refused_if_it_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        open_database(tmp_path, must_exist=True)
    assert not (tmp_path / FILE_NAME).exists()


def later_version(monkeypatch: pytest.MonkeyPatch, *statements: str) -> None:
    """Simulate a later version of Dragoman, with one more migration."""
    steps = (*store_module._MIGRATIONS, statements)
    monkeypatch.setattr(store_module, "_MIGRATIONS", steps)
    monkeypatch.setattr(store_module, "VERSION", len(steps))


def test_an_older_file_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_database(tmp_path)) as connection:
        add_key(connection, "kept")
    later_version(
        monkeypatch, "CREATE TABLE added (a)", "ALTER TABLE keys ADD added INTEGER DEFAULT 7"
    )
    with closing(open_database(tmp_path)) as connection:
        assert connection.execute("SELECT label, added FROM keys").fetchall() == [("kept", 7)]
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION + 1,)


def test_a_failed_migration_leaves_the_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_database(tmp_path).close()
    with monkeypatch.context() as patched:
        later_version(patched, "CREATE TABLE added (a)", "CREATE TABLE keys (a)")
        with pytest.raises(UsageError):
            open_database(tmp_path)
    with closing(open_database(tmp_path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
        tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'added'")
        assert tables.fetchall() == []


def test_concurrently_started_processes_all_find_the_tables(tmp_path: Path) -> None:
    errors = []

    def start() -> None:
        try:
            open_database(tmp_path).close()
        except UsageError as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


async def test_a_backup_of_a_store_in_use_is_complete_and_can_be_opened(tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with opened(tmp_path / "state") as store:
        await store.write(lambda db: put(db, "before"))
        with closing(open_database(tmp_path / "state", must_exist=True)) as connection:
            back_up(connection, copy)
        await store.write(lambda db: put(db, "after"))
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("copy")] == ["copy.db"]
    restored = tmp_path / "restored"
    restored.mkdir(mode=0o700)
    copy.rename(restored / FILE_NAME)
    with closing(open_database(restored)) as connection:
        assert facts(connection) == ["before"]
        assert all_keys(connection) == []


def test_a_backup_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("mine")
    with closing(open_database(None)) as connection, pytest.raises(UsageError, match="exists"):
        back_up(connection, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "mine"


@pytest.mark.parametrize("in_memory", [False, True])
async def test_a_write_that_raises_changes_nothing(tmp_path: Path, in_memory: bool) -> None:
    def half(connection: sqlite3.Connection) -> None:
        put(connection, "half")
        raise LookupError

    with opened(None if in_memory else tmp_path) as store:
        with pytest.raises(LookupError):
            await store.write(half)
        await store.write(lambda db: put(db, "whole"))
        assert await store.read(facts) == ["whole"]


class Slow:
    """A write that waits after its statement."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        put(connection, "slow")
        self.begun.set()
        self.go_on.wait(10)

    async def begin(self, store: Store) -> asyncio.Task[None]:
        task = asyncio.create_task(store.write(self))
        await asyncio.to_thread(self.begun.wait, 10)
        return task


async def test_a_write_completes_after_its_waiter_is_cancelled(tmp_path: Path) -> None:
    slow = Slow()
    with opened(tmp_path) as store:
        task = await slow.begin(store)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        slow.go_on.set()
        await store.write(lambda db: put(db, "next"))
        assert await store.read(facts) == ["next", "slow"]


async def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    slow = Slow()
    with opened(tmp_path) as store:
        task = await slow.begin(store)
        assert await asyncio.wait_for(store.read(facts), 5) == []
        slow.go_on.set()
        await task


@pytest.mark.parametrize("fail", [lambda db: put(db, "one"), lambda db: db.execute("SELECT ?")])
async def test_errors_of_reads_are_reported(
    tmp_path: Path, fail: Callable[[sqlite3.Connection], Any]
) -> None:
    """Reads cannot write, and Python's own errors have no name of SQLite's."""
    with opened(tmp_path) as store, pytest.raises(Unavailable):
        await store.read(fail)


async def test_a_full_disk_is_reported_as_a_temporary_error(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        await store.write(lambda db: db.execute("PRAGMA max_page_count = 1") and None)
        with pytest.raises(Unavailable, match="full"):
            await store.write(lambda db: put(db, "large", "x" * 1_000_000))
        await store.write(lambda db: db.execute("PRAGMA max_page_count = 1000000") and None)
        await store.write(lambda db: put(db, "later"))
        assert await store.read(facts) == ["later"]


async def test_a_short_read_does_not_wait_for_a_long_one(tmp_path: Path) -> None:
    end = threading.Event()

    with opened(tmp_path) as store:
        long = asyncio.create_task(store.read(lambda _: end.wait(20), is_long=True))
        async with asyncio.timeout(20):
            assert await store.read(lambda _: 1) == 1
        assert not long.done()
        end.set()
        assert await long
