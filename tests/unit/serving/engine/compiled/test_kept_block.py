"""A block cached in a file: made once, and never used if it is not what was written."""

from __future__ import annotations

import hashlib
import logging
import multiprocessing
import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dragoman_serving.engine.compiled import kept_block
from dragoman_serving.engine.compiled.kept_block import Recipe, Write, load_block, user_folder

from dragoman.kernel.errors import UsageError
from dragoman.kernel.replacement import KEPT_PREFIX

NAME = f"{KEPT_PREFIX}1-layout-weights"
HEADER = 4096
CONTENT = np.random.default_rng(0).integers(0, 256, 20_000_000, np.uint8).tobytes()
"""More than two parts."""
Damage = Callable[[Path], object]


class Maker:
    """Makes the block, and counts how often."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.calls = 0

    def __call__(self, write: Write) -> None:
        self.calls += 1
        middle = len(self.content) // 3
        write(self.content[:middle])
        write(np.frombuffer(self.content[middle:], np.uint8))

    def recipe(self, name: str = NAME) -> Recipe:
        identity = hashlib.sha256(self.content[:100]).digest()
        return Recipe(name, identity, len(self.content), self)


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def make_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_it_is_made_once_and_mapped_after_that(tmp_path: Path) -> None:
    maker = Maker()
    for _ in range(3):
        block = load_block(maker.recipe(), [tmp_path])
        assert block.tobytes() == CONTENT
        assert not block.flags.writeable
        assert block.ctypes.data % 64 == 0
    assert maker.calls == 1
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_it_is_hashed_again_only_if_its_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker, hashed = Maker(), []

    def noted(descriptor: int, length: int) -> bytes:
        hashed.append(length)
        return digest(descriptor, length)

    digest = kept_block._digest
    load_block(maker.recipe(), [tmp_path])
    monkeypatch.setattr(kept_block, "_digest", noted)
    load_block(maker.recipe(), [tmp_path])
    assert len(hashed) == 1  # an immediate change might not change the file's times
    later_ns = time.time_ns() + 10**10
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)
    for _ in range(3):
        assert load_block(maker.recipe(), [tmp_path]).tobytes() == CONTENT
    assert len(hashed) == 2
    flip(tmp_path / NAME, HEADER)
    assert load_block(maker.recipe(), [tmp_path]).tobytes() == CONTENT
    assert maker.calls == 2


def test_other_users_cannot_read_or_write_it(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "dragoman"
    former = os.umask(0)
    try:
        load_block(Maker().recipe(), [folder])
    finally:
        os.umask(former)
    assert stat.S_IMODE((folder / NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: os.truncate(path, path.stat().st_size - 1), "it has 20004095 bytes"),
        (lambda path: os.truncate(path, 0), "it has 0 bytes instead of 20004096"),
        (lambda path: os.truncate(path, path.stat().st_size + 1), "it has 20004097 bytes"),
        (lambda path: flip(path, HEADER), "it is damaged"),
        (lambda path: flip(path, HEADER + 9_000_000), "it is damaged"),
        (lambda path: flip(path, HEADER + len(CONTENT) - 1), "it is damaged"),
        (lambda path: flip(path, 0), "it holds something else"),
        (lambda path: flip(path, 20), "it holds something else"),
        (lambda path: flip(path, 50), "it is damaged"),
        (lambda path: flip(path, HEADER - 1), "it is damaged"),
        (lambda path: path.chmod(0o620), "others may write it"),
        (lambda path: path.chmod(0o602), "others may write it"),
        (make_link, "Too many levels of symbolic links"),
        (make_pipe, "it is not a file"),
    ],
)
def test_a_changed_block_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Damage, reason: str
) -> None:
    maker = Maker()
    load_block(maker.recipe(), [tmp_path])
    damage(tmp_path / NAME)
    assert load_block(maker.recipe(), [tmp_path]).tobytes() == CONTENT
    assert maker.calls == 2
    assert f"{tmp_path / NAME} is not used: {reason}" in caplog.text
    caplog.clear()
    assert load_block(maker.recipe(), [tmp_path]).tobytes() == CONTENT
    assert maker.calls == 2
    assert not caplog.text
    assert stat.S_IMODE((tmp_path / NAME).lstat().st_mode) == 0o600


def test_another_users_file_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    maker = Maker()
    load_block(maker.recipe(), [tmp_path])
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert load_block(maker.recipe(), [tmp_path]).tobytes() == CONTENT
    assert maker.calls == 3, "neither this file is used nor the one that was made in its place"
    assert f"{tmp_path / NAME} is not used: it belongs to user {os.getuid()}" in caplog.text


def test_the_next_folder_is_used_if_a_folder_has_the_files_name(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (first / NAME / "full").mkdir(parents=True)
    assert load_block(Maker().recipe(), [first, second]).tobytes() == CONTENT
    assert [path.name for path in first.iterdir()] == [NAME]
    assert [path.name for path in second.iterdir()] == [NAME]


def refuse_folders(monkeypatch: pytest.MonkeyPatch, *refused: Path) -> None:
    """Make these folders unwritable, even for root."""
    real = tempfile.mkstemp

    def mkstemp(suffix: str, prefix: str, folder: Path) -> Any:
        if folder in refused:
            raise PermissionError(13, "Permission denied", str(folder))
        return real(suffix, prefix, folder)

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)


def test_the_next_folder_is_used_if_the_first_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    refuse_folders(monkeypatch, first)
    maker = Maker()
    for _ in range(2):
        assert load_block(maker.recipe(), [first, second]).tobytes() == CONTENT
    assert maker.calls == 1
    assert not list(first.iterdir())


def test_without_a_folder_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    refuse_folders(monkeypatch, tmp_path)
    caplog.set_level(logging.INFO)
    assert load_block(Maker().recipe(), [tmp_path]).tobytes() == CONTENT
    assert not list(tmp_path.iterdir())
    assert "are not kept: no folder for them can be written" in caplog.text
    assert load_block(Maker().recipe(), []).tobytes() == CONTENT


def test_incomplete_files_are_removed(tmp_path: Path) -> None:
    def make(write: Write) -> None:
        write(CONTENT[:1000])
        raise UsageError("a tensor is missing")

    with pytest.raises(UsageError, match="a tensor is missing"):
        load_block(Recipe(NAME, bytes(32), len(CONTENT), make), [tmp_path])
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert load_block(Maker().recipe(), [tmp_path]).tobytes() == CONTENT
    assert not list(tmp_path.iterdir())


def test_only_one_version_is_kept(tmp_path: Path) -> None:
    former, others = f"{KEPT_PREFIX}0-layout-weights", ("model.safetensors", ".hidden")
    abandoned, young = (f"{KEPT_PREFIX}{name}.partial" for name in ("abandoned", "young"))
    for name in (former, abandoned, young, *others):
        (tmp_path / name).write_bytes(b"x")
    long_ago = time.time() - 7200
    os.utime(tmp_path / abandoned, (long_ago, long_ago))
    load_block(Maker().recipe(), [tmp_path])
    assert {path.name for path in tmp_path.iterdir()} == {NAME, young, *others}


class Meeting:
    """A maker that waits until another process makes the same block."""

    def __init__(self, barrier: Any) -> None:
        self.barrier = barrier

    def __call__(self, write: Write) -> None:
        write(bytes(1000))
        self.barrier.wait(timeout=60)
        write(bytes(1_000_000))


def load_together(barrier: Any, folder: Path, results: Any) -> None:
    recipe = Recipe(NAME, bytes(32), 1_001_000, Meeting(barrier))
    results.put(int(load_block(recipe, [folder]).sum()))


def test_two_processes_may_make_it_concurrently(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=load_together, args=(barrier, tmp_path, results)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    assert [results.get(timeout=120) for _ in processes] == [0, 0]
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_all_map_the_file_that_was_complete_first(tmp_path: Path) -> None:
    """So that several processes share its memory."""
    inodes = []

    class Overtaken(Maker):
        def __call__(self, write: Write) -> None:
            load_block(Maker().recipe(), [tmp_path])
            inodes.append((tmp_path / NAME).stat().st_ino)
            super().__call__(write)

    assert load_block(Overtaken().recipe(), [tmp_path]).tobytes() == CONTENT
    assert inodes == [(tmp_path / NAME).stat().st_ino]
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_each_bundle_has_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, other = user_folder(tmp_path / "one"), user_folder(tmp_path / "other")
    assert folder is not None
    assert other is not None
    assert folder != other
    assert folder == user_folder(tmp_path / "other" / ".." / "one")
    assert folder.parent == other.parent == tmp_path / "cache" / "dragoman"
    for elsewhere in ("relative/cache", ""):
        monkeypatch.setenv("XDG_CACHE_HOME", elsewhere)
        default = user_folder(tmp_path / "one")
        assert default == tmp_path / "home" / ".cache" / "dragoman" / folder.name


def test_a_user_without_a_home_has_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert user_folder(tmp_path) is None
