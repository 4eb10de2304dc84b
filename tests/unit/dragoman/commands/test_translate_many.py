"""`dragoman translate` of several files and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dragoman_client import ServerUnavailable

from client.tests.stand_ins import FakeTransport
from dragoman.kernel.errors import DragomanError, UsageError
from tests.unit.dragoman.commands.test_translate import Run, open_terminal
from tests.unit.dragoman.commands.test_translate import run as run
from tests.unit.dragoman.commands.test_translate import transport as transport

FILES = {
    "a.md": "# A b\n",
    "sub/b.txt": "One.\n\nTwo.\n",
    "sub/deep/c.html": "<p>Hello.</p>",
    "sub/d.jsonl": '{"text": "x"}\n',
}
TRANSLATED = {
    "a.md": "# \\<A B>\n",
    "sub/b.txt": "<ONE.>\n\n<TWO.>\n",
    "sub/deep/c.html": "<p>&lt;HELLO.&gt;</p>",
}
OTHER = {"sub/e.png": "\x89PNG", "f.xyz": "?", ".git/g.txt": "Hidden.\n", ".h.txt": "Hidden.\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files that can be translated."""
    write(tmp_path / "in", FILES)
    return tmp_path / "in"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)


def read(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def check(output: dict[str, str]) -> None:
    assert output.keys() == FILES.keys()
    assert output | TRANSLATED == output


@pytest.mark.usefixtures("transport")
def test_a_folder_is_translated_under_the_same_names(
    run: Run, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Hidden files are left out, and other formats are named and do no harm."""
    write(folder, OTHER)
    before = read(folder)
    out = folder.parent / "out"
    caplog.set_level("INFO")
    run("--input", str(folder), "--output", str(out))
    check(read(out))
    assert read(folder) == before
    assert f"{folder}/sub/e.png is a PNG picture, and may be damaged as" in caplog.text
    assert "f.xyz is a file of the unknown format '.xyz'" in caplog.text
    assert "Hidden" not in caplog.text
    assert f"{folder}/sub/b.txt: 2 texts, 2 words" in caplog.messages
    assert f"{folder}/sub/d.jsonl: 1 text, 1 word" in caplog.messages
    summary = "6 files: 4 translated, 2 of other formats; 5 texts, 6 words"
    assert caplog.messages[-1] == summary


@pytest.mark.usefixtures("transport")
def test_the_output_within_the_input_is_not_translated(run: Run, folder: Path) -> None:
    for more in ((), ("--force",)):
        run("--input", str(folder), "--output", str(folder / "de"), *more)
        check(read(folder / "de"))
    with pytest.raises(UsageError, match="is both the input and the output"):
        run("--input", str(folder), "--output", str(folder), "--force")
    assert read(folder).keys() == {*FILES, *(f"de/{name}" for name in FILES)}


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("more", ["--force", "--resume"])
def test_an_output_that_is_another_input_is_refused(run: Run, folder: Path, more: str) -> None:
    write(folder, {"sub/a.md": "Another.\n", "sub/sub/a.md": "A third one.\n"})
    before = read(folder)
    with pytest.raises(UsageError, match=r"a\.md is both an input and an output"):
        run("--input", str(folder / "sub"), "--output", str(folder), more)
    files = (str(folder / "a.md"), str(folder / "sub" / "b.txt"))
    with pytest.raises(UsageError, match=r"b\.txt is both an input and an output"):
        run("--input", *files, "--output", str(folder / "sub"), more)
    assert read(folder) == before


@pytest.mark.usefixtures("transport")
def test_files_and_folders_may_be_named_together(run: Run, folder: Path) -> None:
    out = folder.parent / "out"
    files = (str(folder / "sub"), str(folder / "a.md"))
    run("--input", *files, "--output", str(out))
    assert {*read(out)} == {"a.md", "b.txt", "d.jsonl", "deep/c.html"}
    run("--input", str(folder / "sub" / "b.txt"), "--output", str(out), "--force")
    write(folder, {"sub/a.md": "Another.\n"})
    with pytest.raises(UsageError, match=r"have the same output, .*out/a\.md"):
        run("--input", *files, "--output", str(out), "--force")
    with pytest.raises(UsageError, match="is a file; name a folder"):
        run("--input", *files, "--output", str(out / "a.md"))


@pytest.mark.usefixtures("transport")
def test_a_file_that_fails_does_not_stop_the_others(
    run: Run, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Each is named in the report; a file that the command line names must be translated."""
    write(folder, {"a.xml": "<a><b></a>", "b.csv": "a,b\n", "c.docx": "PK", "z.png": "\x89PNG"})
    out = folder.parent / "out"
    with pytest.raises(DragomanError, match="3 of 8 files were not translated") as caught:
        run("--input", str(folder), "--output", str(out), "--report", "-")
    assert caught.value.exit_code == 1
    check(read(out))
    reports = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    errors = {report["file"]: report["error"] for report in reports if "error" in report}
    assert {Path(name).name for name in errors} == {"a.xml", "b.csv", "c.docx", "z.png"}
    assert all("\n" not in error for error in errors.values())
    texts = {report["output"]: report["texts"] for report in reports if "error" not in report}
    assert texts[str(out / "sub/b.txt")] == 2
    named = ("--input", str(folder / "z.png"), str(folder / "none.txt"), "--output", str(out))
    with pytest.raises(DragomanError, match="2 of 2 files were not translated"):
        run(*named)


def test_an_interrupted_run_is_resumed(
    run: Run, transport: FakeTransport, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No file is translated twice, and none is left half-written."""
    words = ("--input", str(folder), "--output", str(folder.parent / "out"))
    transport.failure = 2, ServerUnavailable("away")
    with pytest.raises(DragomanError, match=r"after 2 files: away; --resume skips the finished"):
        run(*words, "--retries", "0")
    written = read(folder.parent / "out")
    finished = {name: text for name, text in written.items() if ".partial" not in name}
    assert len(finished) == 2
    assert {name: finished[name] for name in finished.keys() & TRANSLATED} == {
        name: TRANSLATED[name] for name in finished.keys() & TRANSLATED
    }
    assert finished.keys() <= FILES.keys()
    with pytest.raises(UsageError, match=r"exists: give --force to replace it, or --resume"):
        run(*words)
    transport.failure = None
    caplog.set_level("INFO")
    run(*words, "--resume")
    check(read(folder.parent / "out"))
    assert "4 files: 2 translated, 2 finished before" in caplog.messages[-1]
    sent = [text for request in transport.requests for text in request.inputs["text_input"]]
    assert len(sent) == len({*sent})


def test_refused_texts_are_counted_over_all_files(
    run: Run, transport: FakeTransport, folder: Path
) -> None:
    transport.refused = ""
    out = folder.parent / "out"
    with pytest.raises(DragomanError, match="5 texts were refused and left as they were"):
        run("--input", str(folder), "--output", str(out))
    assert read(out)["a.md"] == FILES["a.md"]


@pytest.mark.usefixtures("transport")
def test_one_progress_bar_shows_all_files(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = open_terminal(monkeypatch)
    run("--input", str(folder), "--output", str(folder.parent / "out"))
    assert "5 texts" in terminal.getvalue()


@pytest.mark.usefixtures("transport")
def test_a_single_document_has_a_report(run: Run, folder: Path) -> None:
    source, output, report = (folder / name for name in ("a.md", "a.de.md", "report.json"))
    words = ("--format", "auto", "--input", str(source), "--report", str(report))
    run(*words, "--output", str(output), "--least-confidence", "-1000")
    (written,) = map(json.loads, report.read_text().splitlines())
    assert (written["file"], written["output"]) == (str(source), str(output))
    assert (written["texts"], written["words"], written["left"]) == (1, 2, {})
    with pytest.raises(UsageError, match=r"report\.json exists: give --force"):
        run(*words, "--output", str(folder / "other.md"))
    with pytest.raises(UsageError, match="--report, --least-confidence: give an --output too"):
        run(*words)
