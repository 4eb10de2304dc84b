"""`dragoman memory`, and `dragoman translate --memory` over a transport without a server."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import dragoman_client.memory_translator
import pytest
from dragoman_documents.memory.memory_store import Memory

from client.tests.stand_ins import FakeTransport
from dragoman.cli import main
from tests.conftest import CommandLine

UNIT = (
    '<tu><tuv xml:lang="en"><seg>{}</seg></tuv><tuv xml:lang="de"><seg>{}</seg></tuv>'
    '<tuv xml:lang="fr"><seg>non</seg></tuv></tu>'
)
HTML = "<p>Click <b>here</b> now.</p><p>Good morning.</p><p title='Good night.'>Click here now.</p>"


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> FakeTransport:
    """The transport of the translator with a memory."""
    fake = FakeTransport(longest_delay_s=0.001)
    module = dragoman_client.memory_translator
    translator = partial(module.MemoryTranslator, transport=fake)
    monkeypatch.setattr(module, "MemoryTranslator", translator)
    return fake


@pytest.fixture
def tmx(tmp_path: Path) -> Path:
    """A file with two segments, one of which has an element."""
    units = UNIT.format(
        "Click <bpt i='1'/>here<ept i='1'/> now.", "Jetzt <bpt i='1'/>hier<ept i='1'/>."
    )
    units += UNIT.format("Good night.", "Nacht.")
    file = tmp_path / "some.tmx"
    file.write_text(f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>')
    return file


@pytest.fixture
def memory(tmp_path: Path, tmx: Path, cli: CommandLine) -> Path:
    """A memory with the segments of the file."""
    path = tmp_path / "memory.sqlite"
    cli.prints("memory", "import", path, tmx)
    return path


def test_files_are_imported_and_exported(tmp_path: Path, tmx: Path, cli: CommandLine) -> None:
    memory, exported = tmp_path / "memory.sqlite", tmp_path / "again.tmx"
    po = tmp_path / "more.po"
    po.write_text('msgid "Tea"\nmsgstr "Tee"\n')
    assert "2 segments from en to de" in cli.prints("memory", "import", memory, tmx, po)
    with Memory.open(memory) as opened:
        assert (opened.languages, len(opened)) == (("en", "de"), 3)
    exported.write_text(cli.prints("memory", "export", memory))
    cli.prints("memory", "import", tmp_path / "b.sqlite", exported)
    with Memory.open(memory) as first, Memory.open(tmp_path / "b.sqlite") as second:
        assert [pair for _, pair in first.pairs()] == [pair for _, pair in second.pairs()]
    (match,) = cli.rows("memory", "search", exported, "Good nights.")
    assert (match["target"], match["similarity"] < 100) == ("Nacht.", True)


def test_other_languages_of_a_file(tmp_path: Path, tmx: Path) -> None:
    memory = tmp_path / "memory.sqlite"
    words = ["--source-language", "fr", "--target-language", "en"]
    assert main(["memory", "import", str(memory), str(tmx), *words]) == 0
    with Memory.open(memory) as opened:
        assert opened.languages == ("fr", "en")
        assert opened.exact("non") is not None


def test_other_languages_than_those_of_the_memory_are_refused(
    tmp_path: Path, tmx: Path, memory: Path, cli: CommandLine
) -> None:
    """Given by a flag, or declared by a file; nothing is added."""
    po = tmp_path / "a.po"
    po.write_text('msgid ""\nmsgstr "Language: fr\\n"\n\nmsgid "Tea"\nmsgstr "Thé"\n')
    for words in ([tmx, "--target-language", "fr"], [tmx, "--source-language", "pl"], [po]):
        line = cli.refusal("memory", "import", memory, *words)
        assert "fr" in line or "pl" in line
    cli.prints("memory", "import", memory, tmx, "--source-language", "auto")
    with Memory.open(memory) as opened:
        assert len(opened) == 2


def test_a_memory_that_another_import_makes_meanwhile_stays(
    tmp_path: Path, tmx: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one makes it while this one reads its file, which is a pipe here."""
    memory, pipe = tmp_path / "memory.sqlite", tmp_path / "pipe"
    os.mkfifo(pipe)
    ends: list[int] = []
    importing = threading.Thread(
        target=lambda: ends.append(main(["memory", "import", str(memory), str(pipe)]))
    )
    importing.start()
    with pipe.open("wb") as file:  # waits until it is read
        Memory.create(memory, ("en", "de")).close()
        file.write(tmx.read_bytes())
    importing.join()
    assert ends == [2]
    assert "exists" in capsys.readouterr().err
    Memory.open(memory).close()


def test_a_damaged_memory_is_an_error_in_one_line(
    tmx: Path, memory: Path, transport: FakeTransport, capsys: pytest.CaptureFixture[str]
) -> None:
    content = memory.read_bytes()
    memory.write_bytes(content[:100] + b"x" * (len(content) - 100))
    for words in (
        ["memory", "export", str(memory)],
        ["memory", "import", str(memory), str(tmx)],
        ["memory", "search", str(memory), "Good night."],
        ["translate", "Good night.", "--memory", str(memory), "--target-language", "de"],
    ):
        assert main(words) in (1, 2)
        (line,) = capsys.readouterr().err.splitlines()
        assert str(memory) in line
    assert not transport.requests


def test_an_export_whose_reader_ends_is_quiet(memory: Path) -> None:
    words = [sys.executable, "-m", "dragoman", "memory", "export", str(memory)]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as output:
        done = subprocess.run(words, stdout=output, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<tmx", "line 1"),
        (b"", "has no translations in these languages"),
        (b"\0\1\2", "line 1"),
        (b"<tmx><header srclang='en'/></tmx>", "has no translations in these languages"),
    ],
)
def test_a_file_that_is_refused_makes_no_memory(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    cli: CommandLine,
    content: bytes,
    message: str,
) -> None:
    file, memory = tmp_path / "a.tmx", tmp_path / "memory.sqlite"
    file.write_bytes(content)
    line = cli.refusal("memory", "import", str(memory), str(file))
    assert str(file) in line
    assert message in line
    assert not memory.exists()
    assert main(["translate", "Hi.", "--memory", str(file)]) == 2
    assert main(["memory", "export", str(file)]) == 2
    assert main(["memory", "search", str(tmp_path / "none"), "a"]) == 2
    assert all(line.startswith("dragoman ") for line in capsys.readouterr().err.splitlines())


@pytest.mark.parametrize("name", ["some.tmx", "memory.sqlite"])
@pytest.mark.usefixtures("memory")
def test_a_document_takes_equal_segments_from_a_memory(
    tmp_path: Path,
    transport: FakeTransport,
    cli: CommandLine,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    """A text with other elements goes to the server."""
    caplog.set_level(logging.INFO)
    document, output = tmp_path / "a.html", tmp_path / "b.html"
    document.write_text(HTML)
    flags = ["--format", "html", "--memory", str(tmp_path / name), "--target-language", "de"]
    cli.prints("translate", "--input", document, "--output", output, *flags)
    expected = (
        "<p>Jetzt <b>hier</b>.</p><p>&lt;GOOD MORNING.&gt;</p>"
        "<p title='Nacht.'>&lt;CLICK HERE NOW.&gt;</p>"
    )
    assert output.read_text() == expected
    sent = [text for request in transport.requests for text in request.inputs["text_input"]]
    assert sorted(sent) == ["Click here now.", "Good morning."]
    assert "2 texts came from" in caplog.text
    assert cli.prints("translate", "--input", document, *flags) == expected


def test_lines_take_translations_from_a_memory(
    tmx: Path, transport: FakeTransport, cli: CommandLine
) -> None:
    flags = ["--memory", tmx, "--target-language", "de"]
    printed = cli.prints("translate", "Good night.", "Good day.", " Good  night.", *flags)
    assert printed.splitlines() == ["Nacht.", "<GOOD DAY.>", " Nacht."]
    cli.refuses("translate", "Good night.", *flags, "--source-language", "pl")
    cli.refuses("translate", "Good night.", *flags, "--return-alignments", "hard", "--json")
    assert transport.requests


def test_a_refused_text_beside_stored_ones_is_named(
    tmp_path: Path, tmx: Path, transport: FakeTransport, caplog: pytest.LogCaptureFixture
) -> None:
    transport.refused = "bad"
    lines, output = tmp_path / "a.txt", tmp_path / "b.txt"
    lines.write_text("Good night.\nGood day.\nGood night.\nbad\nGood night.\n")
    flags = ["--memory", str(tmx), "--target-language", "de"]
    assert main(["translate", "--input", str(lines), "--output", str(output), *flags]) == 1
    assert output.read_text() == "Nacht.\n<GOOD DAY.>\nNacht.\n\nNacht.\n"
    assert "line 4 was refused" in caplog.text
