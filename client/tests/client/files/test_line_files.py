"""Line-by-line translation of files, and resuming it."""

import asyncio
import bz2
import gzip
import json
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from dragoman_client import (
    AsyncTranslator,
    FileProgress,
    InvalidRequest,
    JsonLines,
    PlainLinesToJson,
    ServerUnavailable,
    TranslationError,
)
from stand_ins import FakeTransport, Forgetful, translate_file, translated, unavailable_after

TEXTS = [f"line {n}" for n in range(50)]
TRANSLATED = [translated(text) for text in TEXTS]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of 50 lines."""
    path = tmp_path / "source"
    path.write_text("".join(f"{text}\n" for text in TEXTS))
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where its translation is written."""
    return tmp_path / "target"


def check_names(folder: Path) -> None:
    """Check that a folder has the two files, and nothing is left of a run."""
    assert sorted(path.name for path in folder.iterdir()) == ["source", "target"]


def interrupt(
    source: Path, target: Path, transport: FakeTransport | None = None, **more: Any
) -> list[FileProgress]:
    """Translate until the server becomes unavailable; return the reported progress."""
    reports: list[FileProgress] = []
    transport = transport or unavailable_after(5)
    with pytest.raises(ServerUnavailable):
        translate_file(source, target, transport, batch_size=4, tell=reports.append, **more)
    return reports


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_files_are_read(
    source: Path, target: Path, compress: Callable[[bytes], bytes]
) -> None:
    content = compress(b"line 1\nline 2\n" * 1000)
    source.write_bytes(content)
    translate_file(source, target)
    assert target.read_text().splitlines() == TRANSLATED[1:3] * 1000
    for damaged in (content[:-7], content[:12] + b"rubbish" + content[19:]):
        source.write_bytes(damaged)
        with pytest.raises(ValueError, match="source: a damaged file of"):
            translate_file(source, target.with_name("other"))
    source.write_bytes(b"\x28\xb5\x2f\xfd....")
    with pytest.raises(ValueError, match="compressed by zstd: decompress it first"):
        translate_file(source, target.with_name("other"))


@pytest.mark.parametrize("count", [0, 1, 51])
def test_a_file_is_translated_line_by_line(source: Path, target: Path, count: int) -> None:
    """The last line may lack its line feed."""
    texts = [f"line {n}" if n % 5 else "" for n in range(1, count + 1)]
    source.write_text("\n".join(texts))
    reports: list[FileProgress] = []
    done = translate_file(source, target, FakeTransport(0.002), batch_size=4, tell=reports.append)
    lines = target.read_text().split("\n")[:-1]
    expected = texts if texts != [""] else []
    assert lines == [translated(text) if text else "" for text in expected]
    assert done == reports[-1] == FileProgress(len(lines), len(lines))
    assert [progress.lines for progress in reports] == list(range(len(lines) + 1))
    check_names(target.parent)


def test_an_interrupted_file_is_resumed(source: Path, target: Path) -> None:
    """No line is lost, duplicated or translated twice."""
    reports = interrupt(source, target)
    written = reports[-1].lines
    assert 0 < written < 50
    assert not target.exists()
    partial = target.with_name("target.partial")
    assert partial.read_text().splitlines() == TRANSLATED[:written]
    with partial.open("a") as file:
        file.write("half a li")  # as after a power failure
    transport = FakeTransport()
    done = translate_file(source, target, transport, resume=True)
    assert target.read_text().splitlines() == TRANSLATED
    assert (done.lines, done.resumed_at) == (50, written)
    sent = [text for request in transport.requests for text in request.inputs["text_input"]]
    assert sent == TEXTS[written:]
    check_names(target.parent)


def test_the_output_of_another_run_is_not_resumed(source: Path, target: Path) -> None:
    """A run with another input, another format or other options cannot resume a partial output."""
    interrupt(source, target, beam_width=1)
    before = target.with_name("target.partial").read_bytes()
    others: list[dict[str, Any]] = [
        *({}, {"beam_width": 2}, {"beam_width": 1, "form": PlainLinesToJson()})
    ]
    for options in others:
        with pytest.raises(ValueError, match="begun with another input, format or options"):
            translate_file(source, target, resume=True, **options)
    source.write_text("else\n")
    with pytest.raises(ValueError, match="begun with another input"):
        translate_file(source, target, resume=True, beam_width=1)
    with pytest.raises(FileExistsError, match="give resume=True to continue it or force=True"):
        translate_file(source, target)
    assert target.with_name("target.partial").read_bytes() == before
    translate_file(source, target, force=True)
    assert target.read_text() == f"{translated('else')}\n"
    check_names(target.parent)


def test_options_at_their_default_allow_resuming(source: Path, target: Path) -> None:
    interrupt(source, target, suppress=["Tee"], min_tokens=0)
    assert translate_file(source, target, resume=True, suppress="Tee").resumed_at > 0


@pytest.mark.parametrize("resume", [False, True])
def test_an_existing_file_is_replaced_only_with_force(
    source: Path, target: Path, resume: bool
) -> None:
    """The existing file is kept until the new one is complete."""
    target.write_text("precious\n")
    transport = FakeTransport()
    with pytest.raises(FileExistsError, match="give force=True to replace it"):
        translate_file(source, target, transport, resume=resume)
    with pytest.raises(ValueError, match="resume and force: give one of them"):
        translate_file(source, target, transport, resume=True, force=True)
    assert not transport.requests
    check_names(target.parent)
    interrupt(source, target, force=True)
    assert target.read_text() == "precious\n"
    # A run begun with `force` can be resumed.
    done = translate_file(source, target, **{"resume" if resume else "force": True})
    assert bool(done.resumed_at) == resume
    assert target.read_text().splitlines() == TRANSLATED
    check_names(target.parent)


def test_a_file_that_is_created_meanwhile_is_not_overwritten(source: Path, target: Path) -> None:
    interrupt(source, target)
    target.write_text("precious\n")
    with pytest.raises(FileExistsError):
        translate_file(source, target, resume=True)
    target.unlink()
    with pytest.raises(FileExistsError):
        translate_file(source, target, resume=True, tell=lambda _: target.write_text("precious\n"))
    assert target.read_text() == "precious\n"


def test_refused_lines_are_reported_with_their_numbers(source: Path, target: Path) -> None:
    """Numbers of refused lines are those in the file, also after an interruption."""
    texts = ["bad" if n in (3, 30, 49) else f"line {n}" for n in range(50)]
    source.write_text("".join(f"{text}\n" for text in texts))
    transport = FakeTransport()
    transport.refused = "bad"
    numbers: list[int] = []

    def refuse(number: int, _error: Exception) -> None:
        numbers.append(number)

    interrupt(source, target, unavailable_after(5, transport), refuse=refuse)
    assert numbers == [4]
    transport.failure = None
    done = translate_file(source, target, transport, resume=True, refuse=refuse)
    assert numbers == [4, 31, 50]
    assert done.refused == 3
    expected = ["" if text == "bad" else translated(text) for text in texts]
    assert target.read_text().split("\n")[:-1] == expected


def test_inaccessible_files_are_reported(source: Path, target: Path) -> None:
    """Missing files and folders raise the exceptions of the operating system."""
    with pytest.raises(FileNotFoundError):
        translate_file(source.with_name("nowhere"), target)
    with pytest.raises(OSError, match="nowhere"):
        translate_file(source, source.with_name("nowhere") / "target")
    with pytest.raises(ValueError, match="beam_width"):
        translate_file(source, target, beam_width=0)


def test_invalid_lines_are_reported_before_a_request(source: Path, target: Path) -> None:
    """The whole file is checked first: it cannot be corrected once the translation has begun."""
    transport = FakeTransport()
    for last, message in (
        (b"\xff", "line 101: not valid UTF-8"),
        (b'{"text": 1}', "line 101: no text"),
        (b'{"text": "\\ud800"}', "line 101: a string has half of a character"),
        (b'{"text": "a", "id": "\\ud800"}', "line 101: a string has half of a character"),
        (b'{"text": "a", "id": 1e400}', "line 101: "),
    ):
        source.write_bytes(b'{"text": "a"}\n' * 100 + last)
        with pytest.raises(ValueError, match=message):
            translate_file(source, target, transport, form=JsonLines())
    assert not transport.requests
    assert [*source.parent.iterdir()] == [source]


@pytest.mark.parametrize("form", ["html", None])
def test_a_source_is_never_the_output(tmp_path: Path, form: Literal["html"] | None) -> None:
    """Nor one of the files beside it."""
    for name in ("x", "x.partial", "x.partial.json"):
        source = tmp_path / name
        source.write_text("a\n")
        with pytest.raises(ValueError, match="is both the input and the output"):
            translate_file(source, tmp_path / "x", form=form, force=True)
        assert source.read_text() == "a\n"
        source.unlink()


def test_unsuitable_files_are_refused(source: Path, target: Path) -> None:
    """A pipe can be read only once, input and output must differ, and a folder is not a file."""
    pipe = source.with_name("pipe")
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="the input is read twice"):
        translate_file(pipe, target)
    with pytest.raises(IsADirectoryError):
        translate_file(source, source.parent)
    with pytest.raises(ValueError, match="resume: a document with markup"):
        translate_file(source, target, form="html", resume=True)
    target.write_text("precious\n")
    with pytest.raises(FileExistsError):
        translate_file(source, target, form="html")


def test_a_change_of_the_source_is_an_error(source: Path, target: Path) -> None:
    """A change of the source is noticed before the output is renamed."""

    class Changing(FakeTransport):
        def infer(self, inputs: Any, _timeout_s: float = 1.0) -> Any:
            with source.open("a") as file:
                file.write("c\n")
            return super().infer(inputs)

    with pytest.raises(ValueError, match="changed during the translation"):
        translate_file(source, target, Changing(), batch_size=1, concurrency=1)
    assert not target.exists()


@pytest.mark.parametrize(
    ("form", "content", "first", "second", "expected"),
    [
        (None, "One.\nTwo.\n", {}, {"resume": True}, "<ONE.>\n<TWO.>\n"),
        # Not even if both may replace it.
        ("html", "<p>One.</p>", {"force": True}, {"force": True}, "<p>&lt;ONE.&gt;</p>"),
    ],
)
def test_two_runs_cannot_write_the_same_file(
    source: Path,
    target: Path,
    form: str | None,
    content: str,
    first: dict[str, Any],
    second: dict[str, Any],
    expected: str,
) -> None:
    """The second one ends with an error, and the first one's output stays whole."""
    source.write_text(content)
    refused = []

    def begin_another(progress: FileProgress) -> None:
        with pytest.raises(ValueError, match="another run is writing it"):
            translate_file(source, target, form=form, **second)
        refused.append(progress)

    translate_file(source, target, form=form, tell=begin_another, **first)
    assert refused
    assert target.read_text() == expected
    check_names(target.parent)


def test_a_refused_object_is_marked(source: Path, target: Path) -> None:
    """The finish reason of a blank object is `stop`, that of a refused one `refused`."""
    transport = FakeTransport()
    transport.refused = "a"
    source.write_text('{"text": ""}\n{"text": "a"}\n')
    translate_file(source, target, transport, form=JsonLines())
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["finish_reason"] for row in rows] == ["stop", "refused"]


def test_memory_does_not_grow_with_the_file(source: Path, target: Path) -> None:
    def peak_bytes(lines: int) -> int:
        with source.open("w") as file:
            file.writelines(f"line {n} of a file that is long\n" for n in range(lines))
        tracemalloc.start()
        done = translate_file(source, target, Forgetful(), batch_size=100, force=True)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert done.lines == lines
        with target.open() as file:
            for number, line in enumerate(file):
                assert line == translated(f"line {number} of a file that is long") + "\n"
        assert number == lines - 1
        return peak

    few, many = peak_bytes(1_000), peak_bytes(10_000)
    assert many < 1.5 * few + 100_000


async def test_asyncio_translates_files(url: str, source: Path, target: Path) -> None:
    """The event loop continues during the translation, and progress is reported in it."""
    reports: list[FileProgress] = []
    async with AsyncTranslator(url) as translator:
        done = await translator.translate_file(source, target, batch_size=3, tell=reports.append)
    assert target.read_text().splitlines() == TRANSLATED
    assert done == FileProgress(50, 50)
    assert [progress.lines for progress in reports] == list(range(len(reports)))


async def test_a_cancelled_translation_of_a_file_can_be_resumed(
    url: str, source: Path, target: Path
) -> None:
    """Cancelling the task stops the translation, which can be resumed."""
    source.write_text("".join(f"line {n}\n" for n in range(3000)))
    reached = asyncio.Event()

    def tell(progress: FileProgress) -> None:
        if progress.lines > 20:
            reached.set()

    async with AsyncTranslator(url) as translator:
        task = asyncio.create_task(
            translator.translate_file(source, target, batch_size=1, tell=tell)
        )
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not target.exists()
        done = await translator.translate_file(source, target, resume=True, batch_size=100)
        assert 20 < done.resumed_at < 3000
    assert target.read_text().splitlines() == [translated(f"line {n}") for n in range(3000)]


def test_a_refused_option_ends_the_translation_of_a_file(source: Path, target: Path) -> None:
    """A server that refuses an option would refuse every line, so no line is written."""
    transport = FakeTransport()
    transport.failure = 0, InvalidRequest("beam_width is 9: give 1 to 8")
    with pytest.raises(TranslationError, match="beam_width is 9"):
        translate_file(source, target, transport, beam_width=9)
    assert target.with_name("target.partial").read_bytes() == b""
