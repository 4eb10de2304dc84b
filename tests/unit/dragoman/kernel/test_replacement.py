"""What a command may overwrite."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.kernel import replacement
from dragoman.kernel.errors import UsageError


def own_files(folder: Path) -> list[str]:
    if not (folder / "manifest").exists():
        raise UsageError(f"{folder} is none of ours")
    return ["manifest", "a/b"]


def folder_of(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    return folder


def test_a_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    file = tmp_path / "german.txt"
    replacement.check_file(file, force=False)
    file.write_text("precious")
    replacement.check_file(file, force=True)
    with pytest.raises(UsageError, match=r"german\.txt exists: give --force to replace it$"):
        replacement.check_file(file, force=False)
    for force in (False, True):
        with pytest.raises(UsageError, match="is a folder: name a file"):
            replacement.check_file(tmp_path, force)
        replacement.check_file(Path("/dev/null"), force)
    either = "german.txt exists: give --force to replace it, or --resume to continue it"
    assert str(replacement.exists(Path("german.txt"), resumable=True)) == either


def test_a_folder_is_replaced_only_by_force(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    replacement.check_folder(folder, False, own_files)
    (folder / "empty").mkdir(parents=True)
    replacement.check_folder(folder, False, own_files)
    folder_of(folder, "manifest", "a/b", "a/__pycache__/b.pyc", f"a/{replacement.KEPT_PREFIX}1")
    with pytest.raises(UsageError, match=r"folder exists: give --force to replace it$"):
        replacement.check_folder(folder, False, own_files)
    replacement.check_folder(folder, True, own_files)
    replacement.replace_folder(folder_of(tmp_path / "new", "manifest"), folder)
    assert [path.name for path in folder.iterdir()] == ["manifest"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("name", ["notes.txt", "a/notes.txt", "b"])
def test_force_deletes_nothing_of_another_origin(tmp_path: Path, name: str) -> None:
    folder = folder_of(tmp_path / "folder", "manifest", "a/b", name)
    with pytest.raises(UsageError, match=f"holds {name}, which this command did not write"):
        replacement.check_folder(folder, True, own_files)
    (folder / "manifest").unlink()
    with pytest.raises(UsageError, match=r"was not written by this command, .* is none of ours"):
        replacement.check_folder(folder, True, own_files)


def test_force_follows_no_link(tmp_path: Path) -> None:
    folder = folder_of(tmp_path / "folder", "manifest")
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    folder_of(tmp_path, "file")
    for name in ("link", "broken", "file"):
        with pytest.raises(UsageError, match=f"{name} is not a folder: name another"):
            replacement.check_folder(tmp_path / name, True, own_files)
    (folder / "linked").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="holds linked, which"):
        replacement.check_folder(folder, True, own_files)
