"""`dragoman keys`: its output, storage and refusals."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.core.store import FILE_NAME, open_database

from dragoman.cli import main
from tests.conftest import CommandLine

KEY = re.compile(r"drg_([A-Za-z]{10})_[0-9A-Za-z]{43}\n")


class Command:
    """Runs `dragoman keys` on a folder."""

    def __init__(self, folder: Path, cli: CommandLine) -> None:
        self.folder, self._cli = folder, cli

    def __call__(self, *words: str) -> str:
        """Its output on stdout."""
        return self._cli.prints("keys", *words, "--folder", self.folder)

    def refusal(self, *words: str) -> str:
        """The only line that it writes if it refuses."""
        return self._cli.refusal("keys", *words, "--folder", self.folder)

    def json(self, *words: str) -> Any:
        """Its output with `--json`."""
        return json.loads(self(*words, "--json"))


@pytest.fixture
def keys(tmp_path: Path, cli: CommandLine) -> Command:
    return Command(tmp_path / "state", cli)


def test_a_key_is_printed_once_and_kept_as_a_hash(keys: Command) -> None:
    printed = keys("add", "--label", "Weblate")
    match = KEY.fullmatch(printed)
    assert match
    secret = printed.strip().rpartition("_")[2]
    listed = keys("list") + keys("list", "--json")
    assert match[1] in listed
    assert "Weblate" in listed
    for hidden in (secret, hashlib.sha256(secret.encode()).hexdigest()):
        assert hidden not in listed
    on_disk = b"".join(path.read_bytes() for path in keys.folder.iterdir())
    assert secret.encode() not in on_disk


def test_all_properties_of_a_key(keys: Command) -> None:
    words = ("--label", "x", "--expires", "2099-01-31", "--protocols", "own", "deepl", "--no-cache")
    limits = ("--requests-per-minute", "60", "--characters-per-month", "500000")
    added = keys.json("add", *words, *limits, "--concurrent-requests", "none")
    assert KEY.fullmatch(added.pop("key") + "\n")
    shown = "requests per minute 60, characters per month 500,000, protocols deepl own, no cache\n"
    assert keys("list").endswith(f"  {shown}")
    (listed,) = keys.json("list")["keys"]
    assert listed.pop("used") == {"characters": 0, "requests": 0}
    assert listed == added
    assert listed["state"] == "valid"
    assert listed["expires"] == "2099-02-01T00:00:00Z"
    assert (listed["protocols"], listed["caches"]) == (["deepl", "own"], False)
    assert listed["limits"] == {
        "requests_per_minute": 60,
        "characters_per_minute": None,
        "characters_per_month": 500000,
        "characters_per_request": None,
        "concurrent_requests": None,
    }


def test_only_given_limits_change(keys: Command) -> None:
    key_id = keys.json("add", "--requests-per-minute", "60", "--concurrent-requests", "3")["id"]
    printed = keys("limit", key_id, "--requests-per-minute", "none", "--characters-per-month", "9")
    assert printed == f"{key_id}: characters per month 9, concurrent requests 3\n"
    assert "give a limit" in keys.refusal("limit", key_id)


def test_revoked_keys_stay_listed(keys: Command) -> None:
    ids = [keys.json("add")["id"] for _ in range(3)]
    assert keys("revoke", *ids[:2]) == f"revoked: {ids[0]}, {ids[1]}\n"
    states = {key["id"]: key["state"] for key in keys.json("list")["keys"]}
    assert states == {ids[0]: "revoked", ids[1]: "revoked", ids[2]: "valid"}


def test_one_unknown_id_revokes_none(keys: Command) -> None:
    key_id = keys.json("add")["id"]
    assert "there is no key 'nobody'" in keys.refusal("revoke", key_id, "nobody")
    assert keys.json("list")["keys"][0]["state"] == "valid"


def test_keys_of_libretranslate_are_imported(keys: Command, tmp_path: Path) -> None:
    path = tmp_path / "api_keys.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE api_keys (api_key TEXT PRIMARY KEY, req_limit INTEGER)")
        connection.execute("INSERT INTO api_keys VALUES ('0f0f-secret', 120)")
    assert keys("import", str(path)) == "1 keys imported, 0 were there already\n"
    assert keys.json("import", str(path)) == {"imported": 0, "known": 1}
    listed = keys("list")
    assert "0f0f" not in listed
    assert "requests per minute 120" in listed


def test_a_backup_has_the_keys(keys: Command, tmp_path: Path) -> None:
    key_id = keys.json("add")["id"]
    keys("backup", str(tmp_path / "copy.db"))
    assert "exists already" in keys.refusal("backup", str(tmp_path / "copy.db"))
    restored = tmp_path / "restored"
    restored.mkdir(mode=0o700)
    (tmp_path / "copy.db").rename(restored / FILE_NAME)
    keys.folder = restored
    assert [key["id"] for key in keys.json("list")["keys"]] == [key_id]


@pytest.mark.parametrize("words", [["list"], ["limit", "x"], ["revoke", "x"], ["backup", "x"]])
def test_without_a_state_there_is_nothing_to_list(keys: Command, words: list[str]) -> None:
    assert "does not exist: name the gateway's folder" in keys.refusal(*words)
    assert not keys.folder.exists()


@pytest.mark.parametrize("when", ["tomorrow", "2027-02-30", "0d", "-1d", "2020-01-01", ""])
def test_wrong_times_are_refused(keys: Command, when: str) -> None:
    assert "--expires" in keys.refusal("add", f"--expires={when}")


def test_a_time_from_now(keys: Command) -> None:
    expires = datetime.fromisoformat(keys.json("add", "--expires", "90d")["expires"])
    assert abs(expires - datetime.now(UTC) - timedelta(days=90)) < timedelta(minutes=1)


@pytest.mark.parametrize("limit", ["0", "-5", "1.5", "many", "1" * 30])
def test_wrong_limits_are_refused(limit: str) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["keys", "add", f"--requests-per-minute={limit}"])
    assert caught.value.code == 2


def test_labels_are_one_line(keys: Command) -> None:
    assert "--label" in keys.refusal("add", "--label", "two\nlines")
    assert "--label" in keys.refusal("add", "--label", "x" * 201)


def test_a_damaged_state_is_reported_in_one_line(keys: Command) -> None:
    keys.folder.mkdir(mode=0o700)
    (keys.folder / FILE_NAME).write_text("text" * 1000)
    assert "is damaged or not a SQLite file" in keys.refusal("list")


def test_a_state_locked_by_another_process_is_reported_in_one_line(
    keys: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_gateway.core.store._BUSY_MS", 50)
    with closing(open_database(keys.folder)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert "database is locked" in keys.refusal("add")


def test_the_default_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DRAGOMAN_GATEWAY_FOLDER", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert main(["keys", "add"]) == 0
    assert (tmp_path / "state" / "dragoman" / FILE_NAME).is_file()
    monkeypatch.setenv("DRAGOMAN_GATEWAY_FOLDER", str(tmp_path / "elsewhere"))
    assert main(["keys", "list"]) == 2


@pytest.mark.parametrize("words", [["keys", "list"], ["gateway"], ["serve"]])
def test_a_user_without_a_home_is_told_to_name_a_folder(
    words: list[str], monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    for name in ("DRAGOMAN_GATEWAY_FOLDER", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.getuid", lambda: 987654321)
    line = cli.refusal(*words)
    assert "this user has no home folder: set HOME, or give a folder" in line
    assert "DRAGOMAN_GATEWAY_FOLDER" in line


@pytest.mark.parametrize("words", [["gateway", "--limits-url"], ["serve", "--gateway-limits-url"]])
@pytest.mark.parametrize(
    "url",
    [
        "redis://:pa55word@localhost/0",
        "redis://localhost/0?password=pa55word",
        "unix:///run/redis?db=1&p%61ssword=pa55word",
    ],
)
def test_a_password_on_the_command_line_is_refused(
    words: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, url]) == 2
    printed = capsys.readouterr().err
    assert "DRAGOMAN_GATEWAY_LIMITS_URL" in printed
    assert "pa55word" not in printed
