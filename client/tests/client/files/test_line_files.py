"""Line-by-line translation of files, and resuming it."""

import asyncio
import bz2
import gzip
import itertools
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
    Translator,
)
from stand_ins import FakeTransport, translated


class Failing(FakeTransport):
    """Becomes unavailable after a number of requests."""

    def __init__(self, requests: int) -> None:
        super().__init__(longest_delay_s=0.002)
        self.left = requests

    def infer(self, inputs: Any, _timeout_s: float = 1.0) -> Any:
        with self._lock:
            self.left -= 1
            if self.left < 0:
                raise ServerUnavailable("away")
        return super().infer(inputs)


def interrupt(
    source: Path, target: Path, transport: FakeTransport | None = None, **more: Any
) -> list[FileProgress]:
    """Translate until the server becomes unavailable; return the reported progress."""
    reports: list[FileProgress] = []
    with (
        Translator(transport=transport or Failing(5), retries=0) as translator,
        pytest.raises(ServerUnavailable),
    ):
        translator.translate_file(source, target, batch_size=4, tell=reports.append, **more)
    return reports


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_files_are_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    content = compress(b"line 1\nline 2\n" * 1000)
    source.write_bytes(content)
    with Translator(transport=FakeTransport()) as translator:
        translator.translate_file(source, target)
        assert (
            target.read_text().splitlines() == [translated("line 1"), translated("line 2")] * 1000
        )
        for damaged in (content[:-7], content[:12] + b"rubbish" + content[19:]):
            source.write_bytes(damaged)
            with pytest.raises(ValueError, match="source: a damaged file of"):
                translator.translate_file(source, tmp_path / "other")
        source.write_bytes(b"\x28\xb5\x2f\xfd....")
        with pytest.raises(ValueError, match="compressed by zstd: decompress it first"):
            translator.translate_file(source, tmp_path / "other")


@pytest.mark.parametrize("count", [0, 1, 51])
def test_a_file_is_translated_line_by_line(tmp_path: Path, count: int) -> None:
    """The last line may lack its line feed."""
    source, target = tmp_path / "source", tmp_path / "target"
    texts = [f"line {n}" if n % 5 else "" for n in range(1, count + 1)]
    source.write_text("\n".join(texts))
    reports: list[FileProgress] = []
    with Translator(transport=FakeTransport(0.002)) as translator:
        done = translator.translate_file(source, target, batch_size=4, tell=reports.append)
    lines = target.read_text().split("\n")[:-1]
    expected = texts if texts != [""] else []
    assert lines == [translated(text) if text else "" for text in expected]
    assert done == reports[-1] == FileProgress(len(lines), len(lines))
    assert [progress.lines for progress in reports] == list(range(len(lines) + 1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_an_interrupted_file_is_resumed(tmp_path: Path) -> None:
    """No line is lost, duplicated or translated twice."""
    source, target = tmp_path / "source", tmp_path / "target"
    texts = [f"line {n}" for n in range(50)]
    source.write_text("".join(f"{text}\n" for text in texts))
    reports = interrupt(source, target)
    written = reports[-1].lines
    assert 0 < written < 50
    assert not target.exists()
    partial = tmp_path / "target.partial"
    assert partial.read_text().splitlines() == [translated(text) for text in texts[:written]]
    with partial.open("a") as file:
        file.write("half a li")  # as after a power failure
    transport = FakeTransport()
    with Translator(transport=transport) as translator:
        done = translator.translate_file(source, target, resume=True)
    assert target.read_text().splitlines() == [translated(text) for text in texts]
    assert (done.lines, done.resumed_at) == (50, written)
    sent = [text for request in transport.requests for text in request.inputs["text_input"]]
    assert sent == texts[written:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_the_output_of_another_run_is_not_resumed(tmp_path: Path) -> None:
    """A run with another input, another format or other options cannot resume a partial output."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"line {n}\n" for n in range(50)))
    interrupt(source, target, beam_width=1)
    before = (tmp_path / "target.partial").read_bytes()
    changes: list[Callable[[Translator], Any]] = [
        lambda t: t.translate_file(source, target, resume=True),
        lambda t: t.translate_file(source, target, resume=True, beam_width=2),
        lambda t: t.translate_file(
            source, target, resume=True, beam_width=1, form=PlainLinesToJson()
        ),
    ]
    with Translator(transport=FakeTransport()) as translator:
        for change in changes:
            with pytest.raises(ValueError, match="begun with another input, format or options"):
                change(translator)
        source.write_text("else\n")
        with pytest.raises(ValueError, match="begun with another input"):
            translator.translate_file(source, target, resume=True, beam_width=1)
        with pytest.raises(FileExistsError, match="give resume=True to continue it or force=True"):
            translator.translate_file(source, target)
        assert (tmp_path / "target.partial").read_bytes() == before
        translator.translate_file(source, target, force=True)
        assert target.read_text() == f"{translated('else')}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_options_at_their_default_allow_resuming(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"line {n}\n" for n in range(50)))
    interrupt(source, target, suppress=["Tee"], min_tokens=0)
    with Translator(transport=FakeTransport()) as translator:
        done = translator.translate_file(source, target, resume=True, suppress="Tee")
    assert done.resumed_at > 0


@pytest.mark.parametrize("resume", [False, True])
def test_an_existing_file_is_replaced_only_with_force(tmp_path: Path, resume: bool) -> None:
    """The existing file is kept until the new one is complete."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"line {n}\n" for n in range(50)))
    target.write_text("precious\n")
    transport = FakeTransport()
    with Translator(transport=transport) as translator:
        with pytest.raises(FileExistsError, match="give force=True to replace it"):
            translator.translate_file(source, target, resume=resume)
        with pytest.raises(ValueError, match="resume and force: give one of them"):
            translator.translate_file(source, target, resume=True, force=True)
    assert not transport.requests
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]
    interrupt(source, target, force=True)
    assert target.read_text() == "precious\n"
    with Translator(transport=FakeTransport()) as translator:
        if resume:  # a run begun with `force` can be resumed
            done = translator.translate_file(source, target, resume=True)
        else:
            done = translator.translate_file(source, target, force=True)
    assert bool(done.resumed_at) == resume
    assert target.read_text().splitlines() == [translated(f"line {n}") for n in range(50)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_a_file_that_is_created_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"line {n}\n" for n in range(50)))
    interrupt(source, target)
    target.write_text("precious\n")
    with Translator(transport=FakeTransport()) as translator:
        with pytest.raises(FileExistsError):
            translator.translate_file(source, target, resume=True)
        target.unlink()
        with pytest.raises(FileExistsError):
            translator.translate_file(
                source, target, resume=True, tell=lambda _: target.write_text("precious\n")
            )
    assert target.read_text() == "precious\n"


def test_refused_lines_are_reported_with_their_numbers(tmp_path: Path) -> None:
    """Numbers of refused lines are those in the file, also after an interruption."""

    class Refusing(Failing):
        def infer(self, inputs: Any, _timeout_s: float = 1.0) -> Any:
            for index, text in enumerate(inputs["text_input"]):
                if text == b"bad":
                    raise InvalidRequest(f"text {index} is bad", text_index=index)
            return super().infer(inputs)

    source, target = tmp_path / "source", tmp_path / "target"
    texts = ["bad" if n in (3, 30, 49) else f"line {n}" for n in range(50)]
    source.write_text("".join(f"{text}\n" for text in texts))
    numbers: list[int] = []
    interrupt(source, target, Refusing(7), refuse=lambda number, _error: numbers.append(number))
    assert numbers == [4]
    with Translator(transport=Refusing(99)) as translator:
        done = translator.translate_file(
            source, target, resume=True, refuse=lambda number, _error: numbers.append(number)
        )
    assert numbers == [4, 31, 50]
    assert done.refused == 3
    expected = ["" if text == "bad" else translated(text) for text in texts]
    assert target.read_text().split("\n")[:-1] == expected


def test_inaccessible_files_are_reported(tmp_path: Path) -> None:
    """Missing files and folders raise the exceptions of the operating system."""
    (tmp_path / "source").write_text("a\n")
    with Translator(transport=FakeTransport()) as translator:
        with pytest.raises(FileNotFoundError):
            translator.translate_file(tmp_path / "nowhere", tmp_path / "target")
        with pytest.raises(OSError, match="nowhere"):
            translator.translate_file(tmp_path / "source", tmp_path / "nowhere" / "target")
        with pytest.raises(ValueError, match="beam_width"):
            translator.translate_file(tmp_path / "source", tmp_path / "target", beam_width=0)


def test_invalid_lines_are_reported_before_a_request(tmp_path: Path) -> None:
    """The whole file is checked first: it cannot be corrected once the translation has begun."""
    source, target = tmp_path / "source", tmp_path / "target"
    transport = FakeTransport()
    with Translator(transport=transport) as translator:
        for last, message in (
            (b"\xff", "line 101: not valid UTF-8"),
            (b'{"text": 1}', "line 101: no text"),
            (b'{"text": "\\ud800"}', "line 101: a string has half of a character"),
            (b'{"text": "a", "id": "\\ud800"}', "line 101: a string has half of a character"),
            (b'{"text": "a", "id": 1e400}', "line 101: "),
        ):
            source.write_bytes(b'{"text": "a"}\n' * 100 + last)
            with pytest.raises(ValueError, match=message):
                translator.translate_file(source, target, form=JsonLines())
    assert not transport.requests
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


@pytest.mark.parametrize("form", ["html", None])
def test_a_source_is_never_the_output(tmp_path: Path, form: Literal["html"] | None) -> None:
    """Nor one of the files beside it."""
    for name in ("x", "x.partial", "x.partial.json"):
        source = tmp_path / name
        source.write_text("a\n")
        with (
            Translator(transport=FakeTransport()) as translator,
            pytest.raises(ValueError, match="is both the input and the output"),
        ):
            translator.translate_file(source, tmp_path / "x", form=form, force=True)
        assert source.read_text() == "a\n"
        source.unlink()


def test_unsuitable_files_are_refused(tmp_path: Path) -> None:
    """A pipe can be read only once, input and output must differ, and a folder is not a file."""
    source, pipe = tmp_path / "source", tmp_path / "pipe"
    source.write_text("a\n")
    os.mkfifo(pipe)
    with Translator(transport=FakeTransport()) as translator:
        with pytest.raises(ValueError, match="the input is read twice"):
            translator.translate_file(pipe, tmp_path / "target")
        with pytest.raises(IsADirectoryError):
            translator.translate_file(source, tmp_path)


def test_a_change_of_the_source_is_an_error(tmp_path: Path) -> None:
    """A change of the source is noticed before the output is renamed."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("a\nb\n")

    class Changing(FakeTransport):
        def infer(self, inputs: Any, _timeout_s: float = 1.0) -> Any:
            with source.open("a") as file:
                file.write("c\n")
            return super().infer(inputs)

    with (
        Translator(transport=Changing()) as translator,
        pytest.raises(ValueError, match="changed during the translation"),
    ):
        translator.translate_file(source, target, batch_size=1, concurrency=1)
    assert not target.exists()


def test_two_runs_cannot_write_the_same_file(tmp_path: Path) -> None:
    """The second of two runs with the same output ends with an error."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"line {n}\n" for n in range(10)))

    def second(progress: FileProgress) -> None:
        if progress.lines == 5:
            with (
                Translator(transport=FakeTransport()) as other,
                pytest.raises(ValueError, match="another run is writing it"),
            ):
                other.translate_file(source, target, resume=True)

    with Translator(transport=FakeTransport()) as translator:
        translator.translate_file(source, target, tell=second)
    assert len(target.read_text().splitlines()) == 10


def test_two_runs_cannot_write_the_same_document(tmp_path: Path) -> None:
    """Not even if both may replace it; the first one's output stays whole."""
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>One.</p>")
    refused = []

    def second(progress: FileProgress) -> None:
        with (
            Translator(transport=FakeTransport()) as other,
            pytest.raises(ValueError, match="another run is writing it"),
        ):
            other.translate_file(source, target, form="html", force=True)
        refused.append(progress)

    with Translator(transport=FakeTransport()) as translator:
        translator.translate_file(source, target, form="html", force=True, tell=second)
    assert refused
    assert target.read_text() == "<p>&lt;ONE.&gt;</p>"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_a_refused_object_is_marked(tmp_path: Path) -> None:
    """The finish reason of a blank object is `stop`, that of a refused one `refused`."""

    class Refusing(FakeTransport):
        def infer(self, inputs: Any, _timeout_s: float = 1.0) -> Any:
            texts = inputs["text_input"]
            if b"a" in texts:
                index = texts.index(b"a")
                raise InvalidRequest(f"text {index} is bad", text_index=index)
            return super().infer(inputs)

    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text('{"text": ""}\n{"text": "a"}\n')
    with Translator(transport=Refusing()) as translator:
        translator.translate_file(source, target, form=JsonLines())
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert [row["finish_reason"] for row in rows] == ["stop", "refused"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    class Forgetful(FakeTransport):
        def infer(self, inputs: Any, _timeout_s: float = 1.0) -> Any:
            self.requests.clear()
            return super().infer(inputs)

    def peak_bytes(lines: int) -> int:
        source, target = tmp_path / "source", tmp_path / "target"
        with source.open("w") as file:
            file.writelines(f"line {n} of a file that is long\n" for n in range(lines))
        tracemalloc.start()
        with Translator(transport=Forgetful()) as translator:
            done = translator.translate_file(source, target, batch_size=100, force=True)
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


async def test_asyncio_translates_files(url: str, tmp_path: Path) -> None:
    """The event loop continues during the translation, and progress is reported in it."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("".join(f"line {n}\n" for n in range(20)))
    reports: list[FileProgress] = []
    async with AsyncTranslator(url) as translator:
        done = await translator.translate_file(source, target, batch_size=3, tell=reports.append)
    assert target.read_text().splitlines() == [translated(f"line {n}") for n in range(20)]
    assert done == FileProgress(20, 20)
    assert [progress.lines for progress in reports] == list(range(len(reports)))


async def test_a_cancelled_translation_of_a_file_can_be_resumed(url: str, tmp_path: Path) -> None:
    """Cancelling the task stops the translation, which can be resumed."""
    source, target = tmp_path / "source", tmp_path / "target"
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


def test_a_refused_option_ends_the_translation_of_a_file(tmp_path: Path) -> None:
    """A server that refuses an option would refuse every line, so no line is written."""

    class Strict(FakeTransport):
        def infer(self, _inputs: Any, _timeout_s: float = 1.0) -> Any:
            raise InvalidRequest("beam_width is 9: give 1 to 8")

    (tmp_path / "source").write_text("a\nb\n")
    with (
        Translator(transport=Strict()) as translator,
        pytest.raises(TranslationError, match="beam_width is 9"),
    ):
        translator.translate_file(tmp_path / "source", tmp_path / "target", beam_width=9)
    with (tmp_path / "target.partial").open() as partial:
        assert list(itertools.islice(partial, 1)) == []
