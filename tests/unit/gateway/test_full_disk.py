"""A gateway on a full disk: one clear error for what needs space, and all is well once there is
some again."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.access.keys import add_key
from dragoman_gateway.core.store import FILE_NAME, open_database, transaction

from dragoman.kernel.errors import UsageError
from tests.exchanges import Answer, file_form
from tests.unit.gateway.asgi import Application, tracebacks
from tests.waiting import wait_for

ENTRIES = {f"term {number}": "Begriff" * 9 for number in range(2000)}
DICTIONARY = {"source_language": "en", "target_language": "de", "entries": ENTRIES}
TSV = "".join(f"{source}\t{target}\n" for source, target in ENTRIES.items())
V3_DICTIONARY = {
    **{"source_lang": "en", "target_lang": "de"},
    **{"entries": TSV, "entries_format": "tsv"},
}
OWN_FIELDS = {"source_language": "en", "target_language": "de"}


class Disk:
    """A small file system.

    Attributes:
        folder: folder of a gateway in it.
    """

    def __init__(self, root: Path) -> None:
        self.folder = root / "gateway"
        self._filler = root / "filler"

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Fill it for a while."""
        with self._filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        try:
            yield
        finally:
            self._filler.unlink()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Disk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount file systems")
    root = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(root)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode and "DRAGOMAN_CI" not in os.environ:
        pytest.skip(f"this root may not mount file systems: {mounted.stderr.strip()}")
    assert mounted.returncode == 0, mounted.stderr
    try:
        yield Disk(root)
    finally:
        subprocess.run(["umount", "--lazy", root], check=True)


@dataclass
class Served:
    """A gateway on the small disk.

    Attributes:
        app: the gateway.
        key: a key.
        go_on: translations wait for it.
    """

    app: Application
    key: str
    go_on: threading.Event

    def send(self, method: str, path: str, body: Any = None) -> Answer:
        """Send JSON with the key, as each protocol expects it."""
        scheme = "DeepL-Auth-Key" if path.startswith(("/v2", "/v3")) else "Bearer"
        return self.app.send(method, path, body, authorization=f"{scheme} {self.key}")

    def upload(self, path: str, fields: dict[str, str], content: str) -> Answer:
        """Send a document."""
        body, kind = file_form("a.txt", content, fields)
        scheme = "DeepL-Auth-Key" if path.startswith("/v2") else "Bearer"
        headers = kind | {"authorization": f"{scheme} {self.key}"}
        return self.app.call("POST", path, body, headers)


@pytest.fixture(scope="module")
def served(disk: Disk) -> Iterator[Served]:
    connection = open_database(disk.folder)
    with transaction(connection):
        key = add_key(connection, "key")[1]
    connection.close()
    go_on = threading.Event()
    go_on.set()

    def translate(text: str) -> str:
        go_on.wait(30)
        return text.upper()

    with Application(translate, folder=disk.folder) as app:
        yield Served(app, key, go_on)


@pytest.fixture
def glossary(served: Served) -> Iterator[str]:
    given = served.send("POST", "/api/v1/glossaries", {"name": "a", "dictionaries": []}).json
    yield f"/api/v1/glossaries/{given['id']}"
    assert served.send("DELETE", f"/api/v1/glossaries/{given['id']}").status == 204


def assert_refused(answer: Answer) -> None:
    assert (answer.status, answer.headers["retry-after"]) == (503, "60")
    assert b"the gateway's disk is full" in answer.body


def integrity(folder: Path) -> str:
    connection = sqlite3.connect(folder / FILE_NAME)
    with contextlib.closing(connection):
        return str(connection.execute("PRAGMA integrity_check").fetchone()[0])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/glossaries", {"name": "b", "dictionaries": [DICTIONARY]}),
        ("POST", "/v3/glossaries", {"name": "c", "dictionaries": [V3_DICTIONARY]}),
        ("PATCH", "{glossary}", {"name": "d" * 1000}),
        ("PUT", "{glossary}/dictionaries/en/de", ENTRIES),
    ],
)
def test_glossaries_are_refused_and_stored_later(
    disk: Disk,
    served: Served,
    glossary: str,
    method: str,
    path: str,
    body: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = path.format(glossary=glossary)
    before = served.send("GET", "/api/v1/glossaries").json["glossaries"]
    with disk.full():
        assert_refused(served.send(method, path, body))
        assert served.send("GET", "/api/v1/glossaries").json["glossaries"] == before
    assert integrity(disk.folder) == "ok"
    assert served.send(method, path, body).status in (200, 201)
    assert served.send("GET", "/api/v1/glossaries").json["glossaries"] != before
    assert not tracebacks(caplog)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/api/v1/documents", OWN_FIELDS),
        ("/v2/document", {"source_lang": "EN", "target_lang": "DE"}),
        ("/translate_file", {"source": "en", "target": "de"}),
    ],
)
def test_documents_are_refused_and_translated_later(
    disk: Disk,
    served: Served,
    path: str,
    fields: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    documents = disk.folder / "documents"
    before = {*documents.iterdir()}
    fields = fields | {"api_key": served.key} if path == "/translate_file" else fields
    with disk.full():
        for content in ("Hello.", "Hello. " * 50_000):
            assert_refused(served.upload(path, fields, content))
        assert {*documents.iterdir()} == before
    assert served.upload(path, fields, "Hello.").status in (200, 202)
    assert not tracebacks(caplog)
    assert "the disk is full" in caplog.text


def test_requests_that_store_nothing_are_answered(disk: Disk, served: Served) -> None:
    glossary = {"name": "e", "dictionaries": [DICTIONARY]}
    glossary_id = served.send("POST", "/api/v1/glossaries", glossary).json["id"]
    with disk.full():
        for path, body in (
            ("/api/v1/translate", {"text": "Hi", "target_language": "de"}),
            (
                "/api/v1/translate",
                {"text": "term 1", "glossary_ids": [glossary_id], **OWN_FIELDS},
            ),
            ("/v2/translate", {"text": ["Hi"], "target_lang": "DE"}),
            ("/translate", {"q": "Hi", "source": "en", "target": "de", "api_key": served.key}),
        ):
            assert served.send("POST", path, body).status == 200
        for path in ("/api/v1/usage", "/v2/usage", "/api/v1/documents", "/readyz"):
            assert served.send("GET", path).status == 200
    assert served.send("DELETE", f"/api/v1/glossaries/{glossary_id}").status == 204


def test_a_disk_that_fills_up_fails_the_document_being_translated(
    disk: Disk, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    used = served.send("GET", "/api/v1/usage").json["characters"]
    served.go_on.clear()
    job = served.upload("/api/v1/documents", OWN_FIELDS, "A new sentence. " * 10_000).json
    path, folder = f"/api/v1/documents/{job['id']}", disk.folder / "documents" / job["id"]

    def has_failed() -> bool:
        state = served.send("GET", path).json["state"]
        # Also in its file: otherwise it would be translated after a restart.
        record = json.loads((folder / "job.json").read_bytes())
        return bool(state == record["state"] == "failed")

    with disk.full():
        served.go_on.set()
        wait_for(has_failed)
        assert "disk is full" in served.send("GET", path).json["error"]["message"]
        assert [file.name for file in folder.iterdir()] == ["job.json"]
    assert served.send("GET", "/api/v1/usage").json["characters"] == used
    assert not tracebacks(caplog)
    later = served.upload("/api/v1/documents", OWN_FIELDS, "Hello.").json
    path = f"/api/v1/documents/{later['id']}"
    wait_for(lambda: served.send("GET", path).json["state"] == "done")


def test_keys_and_a_start_are_refused_in_one_line(disk: Disk) -> None:
    folder = disk.folder.with_name("other")
    open_database(folder).close()
    with disk.full():
        with pytest.raises(UsageError, match="the disk is full"):
            open_database(folder)
        command = [sys.executable, "-m", "dragoman", "keys", "add", "--folder", str(folder)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert "the disk is full" in ended.stderr
    open_database(folder).close()
