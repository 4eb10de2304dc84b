"""`dragoman translate` over a transport without a server."""

import argparse
import io
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dragoman_client
import pytest
from dragoman_client import InvalidRequest, ServerUnavailable
from dragoman_client.testing import translated

from client.tests.stand_ins import FakeTransport
from dragoman.commands import translate
from dragoman.kernel.errors import DragomanError, UsageError

Run = Callable[..., list[str]]


class Terminal(io.StringIO):
    """A stderr that is reported to be a terminal."""

    def isatty(self) -> bool:
        """Always true."""
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal as the test's stderr."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    return terminal


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> FakeTransport:
    """The transport of the command's translator."""
    fake = FakeTransport(longest_delay_s=0.003)
    translator = partial(dragoman_client.Translator, transport=fake)
    monkeypatch.setattr("dragoman_client.Translator", translator)
    return fake


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run the command with arguments and an input; returns the lines of its output."""

    def call(*words: str, stdin: bytes = b"", quiet: bool = False) -> list[str]:
        parser = argparse.ArgumentParser()
        parser.add_argument("--quiet", action="store_true")
        translate.configure(parser)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "ascii"))
        arguments = parser.parse_args(["--quiet", *words] if quiet else words)
        with open(1, "wb", closefd=False) as stdout:
            monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(stdout, "ascii"))
            assert translate.run(arguments) == 0
        output = capfdbinary.readouterr().out.decode("utf-8")
        assert not output or output.endswith("\n")
        return output.split("\n")[:-1]

    return call


def test_each_argument_gives_one_line(run: Run, transport: FakeTransport) -> None:
    """The output is UTF-8 in every locale; an option at its default is not sent."""
    options = ("--source-language=en", "--target-language=de", "--beam-width=4", "--max-tokens=9")
    more = ("--length-penalty=0.5", "--keep-placeholders")
    lines = run("Grüße", "two\nlines", " ", *options, *more)
    assert lines == ["<GRÜSSE>", "<TWO LINES>", ""]
    # As Python reads arguments in an ASCII locale.
    assert run("Gr\udcc3\udcbc\udcc3\udc9fe", "--target-language", "de") == lines[:1]
    assert transport.requests[0].inputs == {
        "text_input": ["Grüße", "two\nlines", " "],
        "source_language": ["en"],
        "target_language": ["de"],
        "max_tokens": [9],
        "beam_width": [4],
        "length_penalty": [0.5],
    }
    assert transport.closed


@pytest.mark.parametrize("batch_size", ["1", "3", "32"])
def test_the_filter_keeps_order_and_number_of_lines(
    run: Run, transport: FakeTransport, batch_size: str
) -> None:
    """Blank lines keep their position."""
    texts = [("" if n % 3 == 0 else " \t" if n % 7 == 0 else f"line {n}") for n in range(60)]
    texts = ["", *texts, "", "  "]
    lines = run("--batch-size", batch_size, stdin="".join(f"{t}\n" for t in texts).encode())
    assert lines == [translated(text) if text.strip() else "" for text in texts]
    sent = [text for request in transport.requests for text in request.inputs["text_input"]]
    assert sorted(sent) == sorted(texts)


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize(
    ("stdin", "expected"),
    [
        (b"", []),
        (b"\n\n", ["", ""]),
        (b"a", ["<A>"]),
        (b"a\r\nb\r\n", ["<A>", "<B>"]),
        (b"\xef\xbb\xbfa\n", ["<A>"]),
        ("a\u2028b\x0cc\x85\n".encode(), ["<A\u2028B\x0cC\x85>"]),
    ],
)
def test_only_a_line_feed_ends_a_line(run: Run, stdin: bytes, expected: list[str]) -> None:
    """The last line feed may be missing, and lines may contain other separators."""
    assert run(stdin=stdin) == expected


@pytest.mark.usefixtures("transport")
def test_json_has_all_fields_of_a_translation(run: Run) -> None:
    """Each line becomes one object, also a blank line."""
    rows = [json.loads(line) for line in run("--json", stdin="Grüße\n \ncut\n".encode())]
    assert rows == [
        _row("Grüße", "<GRÜSSE>", 5, "stop"),
        _row(" ", "", 0, "stop"),
        _row("cut", "<CUT>", 3, "length"),
    ]


@pytest.mark.usefixtures("transport")
def test_blank_lines_have_all_requested_fields(run: Run) -> None:
    """A blank line has the fields that the server returns for a blank text."""
    words = ("--json", "--return-scores", "--num-return-sequences", "2")
    (row,) = (json.loads(line) for line in run(*words, stdin=b" \n"))
    empty = {"translation": "", "output_tokens": 0, "finish_reason": "stop", "score": 0.0}
    assert row == {"source": " ", **empty, "alternatives": [empty]}


def _row(source: str, translation: str, output_tokens: int, finish_reason: str) -> dict[str, Any]:
    """An output object of `--json`."""
    names = ("source", "translation", "output_tokens", "finish_reason")
    return dict(zip(names, (source, translation, output_tokens, finish_reason), strict=True))


def test_alternatives_require_json(run: Run, transport: FakeTransport) -> None:
    """A line of plain text cannot contain alternatives."""
    with pytest.raises(UsageError, match="only --json and jsonl show it"):
        run("a", "--num-return-sequences", "2")
    with pytest.raises(UsageError, match="only --json and jsonl show it"):
        run("a", "--return-scores", "--format", "tsv")
    assert not transport.requests


@pytest.mark.usefixtures("transport")
def test_truncated_translations_are_reported(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """The command logs the number of truncated translations once."""
    assert len(run(stdin=b"a\ncut\ncut short\n")) == 3
    assert "2 of 3 translations were cut" in caplog.text


@pytest.mark.usefixtures("transport")
def test_invalid_utf_8_is_reported_with_its_line(run: Run) -> None:
    """The error is a usage error, and names the line or the argument."""
    with pytest.raises(UsageError, match="standard input, line 3: not valid UTF-8"):
        run(stdin=b"a\n\n\xff\nb\n")
    with pytest.raises(UsageError, match="text 2 is not valid UTF-8"):
        run("a", "\udcff")


@pytest.mark.parametrize(
    "words",
    [
        ("--url", "localhost:port"),
        ("--beam-width", "0"),
        ("--length-penalty", "nan"),
        ("--timeout-s", "0"),
        ("--batch-size", "0"),
        ("--target-language", ""),
    ],
)
def test_a_wrong_option_is_a_usage_error(run: Run, words: tuple[str, str]) -> None:
    """The message is one line."""
    with pytest.raises(UsageError) as caught:
        run("a", *words)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "exit_code"), [(InvalidRequest("too\nlong"), 2), (ServerUnavailable("away"), 1)]
)
def test_errors_of_the_server_end_the_command(
    run: Run, transport: FakeTransport, error: Exception, exit_code: int
) -> None:
    """The message is one line, with the server's URL and the last translated line."""
    transport.failure = 2, error
    with pytest.raises(DragomanError) as caught:
        run("--batch-size", "1", "--url", "http://host:1", stdin=b"a\n\nb\nc\n")
    assert caught.value.exit_code == exit_code
    expected = "too long" if exit_code == 2 else "away"
    assert str(caught.value) == f"http://host:1 after line 2: {expected}"


@pytest.mark.parametrize("batch_size", [1, 2, 3, 32])
def test_a_refused_line_does_not_stop_the_others(
    run: Run,
    transport: FakeTransport,
    capfdbinary: pytest.CaptureFixture[bytes],
    caplog: pytest.LogCaptureFixture,
    batch_size: int,
) -> None:
    """A refused line is left empty and reported by its number; the order of lines is kept."""
    transport.refused = "bad"
    lines = ["bad", "", "a", "b", "bad", "bad", " ", "c", "d", "e", "bad", ""]
    with pytest.raises(DragomanError, match="4 of 12 lines were refused") as caught:
        run("--batch-size", str(batch_size), stdin="".join(f"{x}\n" for x in lines).encode())
    assert caught.value.exit_code == 1
    printed = capfdbinary.readouterr().out.decode().splitlines()
    assert printed == ["" if x.strip() in ("bad", "") else f"<{x.upper()}>" for x in lines]
    numbers = [message.split()[1] for message in caplog.messages]
    assert numbers == ["1", "5", "6", "11"]


def test_a_refused_connection_is_an_error_not_a_traceback(run: Run, free_port: int) -> None:
    """The command uses its real transport here."""
    with pytest.raises(DragomanError, match="no Dragoman server at") as caught:
        run("a", "--url", f"http://127.0.0.1:{free_port}")
    assert caught.value.exit_code == 1


def test_the_url_comes_from_the_environment(
    run: Run, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """The variable `DRAGOMAN_URL` is the default of the option `--url`."""
    monkeypatch.setenv("DRAGOMAN_URL", f"http://127.0.0.1:{free_port}")
    with pytest.raises(DragomanError, match=str(free_port)):
        run("a")


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_shown_on_a_terminal(
    run: Run, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    """Progress is never part of the output, and `--quiet` turns it off."""
    terminal = open_terminal(monkeypatch)
    assert run(stdin=b"a\nb\n", quiet=quiet) == ["<A>", "<B>"]
    assert ("2 lines" in terminal.getvalue()) is not quiet


@pytest.mark.usefixtures("transport")
def test_a_stderr_that_is_a_file_gets_no_progress(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress would make log files unreadable."""
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())
    run(stdin=b"a\n")
    assert log.getvalue() == ""


@pytest.mark.usefixtures("transport")
def test_each_line_is_flushed_before_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one line a request, another program can exchange lines with the command."""
    written = io.BytesIO()

    class Dialogue(io.RawIOBase):
        """Provides a line only after the previous one was answered."""

        lines = iter([b"a\n", b"b\n", b""])
        expected = iter([b"", b"<A>\n", b"<A>\n<B>\n"])

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            assert written.getvalue() == next(self.expected)
            line = next(self.lines)
            buffer[: len(line)] = line
            return len(line)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Dialogue())))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(_Raw(written))))
    parser = argparse.ArgumentParser()
    translate.configure(parser)
    arguments = parser.parse_args(["--batch-size", "1"])
    arguments.quiet = True
    assert translate.run(arguments) == 0
    assert written.getvalue() == b"<A>\n<B>\n"


class _Raw(io.RawIOBase):
    """Writes without a buffer, so that only flushed bytes arrive."""

    def __init__(self, target: io.BytesIO) -> None:
        self._target = target

    def writable(self) -> bool:
        """Always true."""
        return True

    def write(self, data: Any) -> int:
        """Write to the target."""
        return self._target.write(data)


@pytest.mark.usefixtures("transport")
def test_files_with_ids_and_columns(run: Run, tmp_path: Path) -> None:
    """The output is a file or standard output."""
    objects, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    objects.write_text('{"id": 1, "body": "a"}\n\n{"id": 2, "body": "b"}\n')
    words = ("--format", "jsonl", "--field", "body", "--input", str(objects))
    assert run(*words, "--output", str(target)) == []
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(row.get("id"), row["translation"]) for row in rows] == [
        (1, "<A>"),
        (None, ""),
        (2, "<B>"),
    ]
    columns = tmp_path / "in.tsv"
    columns.write_text("1\ta\n2\tb\n")
    words = ("--format", "tsv", "--column", "2", "--input", str(columns))
    assert run(*words) == ["1\ta\t<A>", "2\tb\t<B>"]
    assert run("--format", "tsv", "--column", "2", stdin=b"1\ta\n") == ["1\ta\t<A>"]


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("subtitles", "[Script Info]\n", "SubStation Alpha subtitles"),
        ("a.rst", "Hello\n=====\n", "reStructuredText"),
        ("a.xyz", "Hello.\n", "the unknown format '.xyz'"),
        ("a.zip", "PK\x03\x04", "a ZIP archive"),
        ("picture", "\0\1", "not text"),
    ],
)
@pytest.mark.parametrize("to_file", [False, True])
def test_the_format_auto_refuses_files_it_does_not_know(
    run: Run, tmp_path: Path, name: str, content: str, kind: str, to_file: bool
) -> None:
    source, target = tmp_path / name, tmp_path / "out"
    source.write_text(content)
    output = ["--output", str(target)] if to_file else []
    with pytest.raises(UsageError) as caught:
        run("--format", "auto", "--input", str(source), *output)
    message = str(caught.value)
    assert str(source) in message
    assert kind in message
    assert "--format" in message.partition(";")[2]
    assert "\n" not in message
    assert not target.exists()


_CUE = "1\n00:00:01,000 --> 00:00:04,000\n%s\n"


@pytest.mark.parametrize(
    ("name", "content", "translation"),
    [
        ("a.srt", _CUE % "Hello.", _CUE % "< HELLO.>"),
        ("a.md", "# A b\n", "# \\<A B>\n"),
        ("a.csv", "id,text,b\nx,A b,y\n", "id,text,b\nx,<A B>,<Y>\n"),
        ("a.po", 'msgid "A"\nmsgstr ""\n', '#, fuzzy\nmsgid "A"\nmsgstr "<A>"\n'),
        ("subtitles", _CUE % "Hello.", _CUE % "< HELLO.>"),
    ],
)
@pytest.mark.parametrize("to_file", [False, True])
@pytest.mark.usefixtures("transport")
def test_the_format_auto_recognizes_text_files(
    run: Run, tmp_path: Path, name: str, content: str, translation: str, to_file: bool
) -> None:
    source, target = tmp_path / name, tmp_path / "out"
    source.write_text(content)
    output = ["--output", str(target)] if to_file else []
    output += ["--columns", "text, b"] if name == "a.csv" else []
    lines = run("--format", "auto", "--target-language", "de", "--input", str(source), *output)
    assert translation in (target.read_text() if to_file else "\n".join(lines) + "\n")


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.po", 'msgid "Hello"\nmsgstr ""\n', f'msgstr "{translated("Hello")}"'),
        ("a.html", "<p>Hello</p>\n", "<p>&lt;HELLO&gt;</p>"),
        ("a.txt", "Hello\n", translated("Hello")),
        ("a.ts", "Hello\n", translated("Hello")),
        ("a.csv", "Hello\n", translated("Hello")),
    ],
)
def test_the_extension_of_one_document_is_its_format(
    run: Run, tmp_path: Path, name: str, content: str, expected: str
) -> None:
    source = tmp_path / name
    source.write_text(content)
    lines = run("--target-language", "de", "--input", str(source))
    assert expected in "\n".join(lines).splitlines()


@pytest.mark.usefixtures("transport")
def test_a_known_format_as_text_has_a_warning(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = tmp_path / "a.rst"
    source.write_text("# Hello\n")
    assert run("--format", "text", "--input", str(source)) == [translated("# Hello")]
    assert "a.rst is reStructuredText, and may be damaged" in caplog.text
    caplog.clear()
    source.rename(source := tmp_path / "a.de")
    run("--format", "text", "--input", str(source))
    assert not caplog.text
    source.write_text("<!DOCTYPE html>\n<p>Hello</p>\n")
    run("--input", str(source))
    assert "looks like HTML: to keep its markup give --format html" in caplog.text


@pytest.mark.usefixtures("transport")
def test_no_file_is_overwritten_without_force(run: Run, tmp_path: Path) -> None:
    """The message names the possible options; --resume is only for incomplete files."""
    source, target, partial = (tmp_path / name for name in ("in", "out", "out.partial"))
    source.write_text("a\n")
    words = ("--input", str(source), "--output", str(target))
    partial.write_text("half\n")
    with pytest.raises(UsageError) as caught:
        run(*words)
    either = f"{partial} exists: give --force to replace it, or --resume to continue it"
    assert str(caught.value) == either
    with pytest.raises(UsageError, match="begun with another input, format or options"):
        run(*words, "--resume")
    assert run(*words, "--force") == []
    assert (target.read_text(), partial.exists()) == ("<A>\n", False)
    source.write_text("b\n")
    for more in ((), ("--resume",)):
        with pytest.raises(UsageError) as caught:
            run(*words, *more)
        assert str(caught.value) == f"{target} exists: give --force to replace it"
    assert target.read_text() == "<A>\n"
    run(*words, "--force")
    assert target.read_text() == "<B>\n"
    with pytest.raises(SystemExit):
        run(*words, "--force", "--resume")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--output", "out"), "--output: give an --input"),
        (("--output", "out", "a text", "--input", "in"), "--output: give an --input"),
        (("a text", "--input", "in", "in"), "--input: give files, or texts, not both"),
        (("--input", "in", "in"), "--output: name a folder"),
        (("--input", "in", "--output", "out", "--report", "/x/a"), "--report /x/a: cannot be"),
        (("--resume",), "--resume: give an --output too"),
        (("--force",), "--force: give an --output too"),
        (("--input", "nowhere"), "nowhere: cannot be read"),
        (("--json", "--format", "tsv"), "--json is only for --format text"),
        (("--format", "tsv", "--column", "0"), "columns are counted from 1"),
        (("--format", "jsonl", "a text"), "text 1: not JSON"),
        (("--format", "html", "a text"), "--format html: give an --input"),
    ],
)
def test_invalid_arguments_for_files_are_refused(
    run: Run, transport: FakeTransport, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run(*words)
    assert not transport.requests


@pytest.mark.usefixtures("transport")
def test_a_line_of_another_format_is_reported(run: Run, tmp_path: Path) -> None:
    """The message names the file or standard input, and the line."""
    source = tmp_path / "in"
    source.write_text('{"text": "a"}\n{"text": 1}\n')
    with pytest.raises(UsageError, match="in, line 2: no text under 'text'"):
        run("--format", "jsonl", "--input", str(source), "--output", str(tmp_path / "out"))
    with pytest.raises(UsageError, match="standard input, line 1: not JSON"):
        run("--format", "jsonl", stdin=b"x\n")
    with pytest.raises(DragomanError, match="nowhere/out"):
        run("--input", str(source), "--output", str(tmp_path / "nowhere" / "out"))
    source.write_text("<a><b></a>")
    with pytest.raises(UsageError, match="line 1, column 9: mismatched tag"):
        run("--format", "xml", "--input", str(source))


@pytest.mark.usefixtures("transport")
def test_progress_of_a_file_shows_the_total(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress shows the finished lines, all lines and the speed."""
    terminal = open_terminal(monkeypatch)
    (tmp_path / "in").write_text("a\nb\n")
    run("--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    assert "2/2 lines" in terminal.getvalue()
    assert "lines/s" in terminal.getvalue()


def test_a_document_is_translated_by_paragraph(
    run: Run, transport: FakeTransport, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Refused paragraphs are left unchanged and reported by their numbers."""
    lines = run("--format", "document", stdin=b"One.\n\n  Two. Three.\n")
    assert lines == ["<ONE.>", "", "  <TWO. THREE.>"]
    assert transport.requests[0].inputs["split_sentences"][0]
    with pytest.raises(UsageError, match="split_sentences is False"):
        run("--format", "document", "--no-split-sentences")

    transport.refused = ""
    source, target = tmp_path / "book", tmp_path / "buch"
    source.write_text("One.\n\n  Two.\n")
    with pytest.raises(DragomanError, match="2 of 2 paragraphs were refused and left as they were"):
        run("--format", "document", "--input", str(source), "--output", str(target))
    assert target.read_text() == source.read_text()
    assert "paragraph 2 was refused: text 0 is bad" in caplog.text


def test_the_most_tokens_of_a_sentence_are_sent(run: Run, transport: FakeTransport) -> None:
    run("One.", "--split-sentences", "--max-sentence-tokens", "30")
    assert transport.requests[0].inputs["max_sentence_tokens"] == [30]
