"""`dragoman translate`: sentences, or standard input line by line, through a running server."""

from __future__ import annotations

import argparse
import codecs
import collections
import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from dragoman.errors import DragomanError, UsageError

if TYPE_CHECKING:
    from dragoman_client import Translation, Translator
    from dragoman_client.request import OptionArguments

HELP = "translate sentences, or standard input line by line, through a running server"

DEFAULT_URL = "grpc://localhost:8001"

_log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "text", nargs="*", help="one line of output for each; none: lines from standard input"
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("DRAGOMAN_URL") or DEFAULT_URL,
        help=f"grpc://HOST:PORT or http://HOST:PORT (default: $DRAGOMAN_URL or {DEFAULT_URL})",
    )
    parser.add_argument("--from", dest="source_language", metavar="LANGUAGE", help="such as en")
    parser.add_argument("--to", dest="target_language", metavar="LANGUAGE", help="such as de")
    parser.add_argument("--beam-width", type=int, help="1: greedy (default: the server's)")
    parser.add_argument("--max-tokens", type=int, help="most tokens to write for a text")
    parser.add_argument("--length-penalty", type=float, help="higher favours longer translations")
    parser.add_argument(
        "--split-sentences",
        action=argparse.BooleanOptionalAction,
        help="let the server cut a text into sentences",
    )
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        help="lines in a request; 1 answers each line before it reads the next (default: 32)",
    )
    parser.add_argument(
        "--timeout-s", type=float, default=30.0, help="longest time for a request (default: 30)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """Print one line a text."""
    from dragoman_client import InvalidRequest, TranslationError, TranslationOptions, Translator

    options: OptionArguments = {
        "source_language": arguments.source_language,
        "target_language": arguments.target_language,
        "max_tokens": arguments.max_tokens,
        "beam_width": arguments.beam_width,
        "length_penalty": arguments.length_penalty,
        "split_sentences": arguments.split_sentences,
    }
    try:
        # Checked before the first line is read; the translator checks the same once more.
        TranslationOptions(**options)
        translator = Translator(arguments.url, timeout_s=arguments.timeout_s)
    except ValueError as error:
        raise UsageError(_one_line(error)) from error
    # A person at the keyboard wants an answer to each line, not to the thirty-second.
    batch_size = 1 if not arguments.text and sys.stdin.isatty() else arguments.batch_size
    if batch_size < 1:
        raise UsageError(f"--batch-size {batch_size}: give at least 1")
    lines = _arguments(arguments.text) if arguments.text else _lines(sys.stdin.buffer)
    done = cut = 0
    try:
        with translator, _progress(arguments.quiet) as show:
            for source, translation in _translate(translator, lines, batch_size, options):
                write = _json_line if arguments.json else _text_line
                sys.stdout.buffer.write(write(source, translation).encode() + b"\n")
                sys.stdout.buffer.flush()
                done += 1
                cut += translation is not None and translation.finish_reason == "length"
                show(done)
    except TranslationError as error:
        kind = UsageError if isinstance(error, InvalidRequest) else DragomanError
        where = f" after line {done}" if done else ""
        raise kind(f"{arguments.url}{where}: {_one_line(error)}") from error
    if cut:
        _log.warning("%d of %d translations were cut: raise --max-tokens", cut, done)
    return 0


def _translate(
    translator: Translator, lines: Iterable[str], batch_size: int, options: OptionArguments
) -> Iterator[tuple[str, Translation | None]]:
    """Each line with its translation; a blank line is not sent and has None."""
    unanswered: collections.deque[str] = collections.deque()

    def to_send() -> Iterator[str]:
        for line in lines:
            unanswered.append(line)
            if line.strip():
                yield line

    translations = translator.translate_batches(
        to_send(),
        batch_size=batch_size,
        concurrency=1 if batch_size == 1 else 2,
        **options,
    )
    for translation in translations:
        while not unanswered[0].strip():
            yield unanswered.popleft(), None
        yield unanswered.popleft(), translation
    for line in unanswered:
        yield line, None


def _arguments(texts: Iterable[str]) -> Iterator[str]:
    """The texts of the command line, if they are text."""
    for number, text in enumerate(texts, start=1):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"text {number} is not valid UTF-8") from error
        yield text


def _lines(stream: BinaryIO) -> Iterator[str]:
    """Lines of a file in UTF-8, without their ends.

    Only a line feed ends a line: Python's text mode would also split at what UTF-8 text may hold.
    """
    for number, line in enumerate(stream, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            mend = "convert the input, for example with iconv"
            raise UsageError(f"standard input, line {number}: not valid UTF-8: {mend}") from error


def _text_line(source: str, translation: Translation | None) -> str:
    """A translation in one line, whatever it holds."""
    text = translation.text if translation else ""
    return text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")


def _json_line(source: str, translation: Translation | None) -> str:
    """A translation with all that is known of it."""
    row = {
        "source": source,
        "translation": translation.text if translation else "",
        "output_tokens": translation.output_tokens if translation else 0,
        "finish_reason": translation.finish_reason if translation else "stop",
    }
    return json.dumps(row, ensure_ascii=False)


def _one_line(error: Exception) -> str:
    """The message of an error of somebody else's, which may have several lines."""
    return " ".join(str(error).split())


@contextlib.contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, as a function that takes the number of lines done.

    There is none where stdout is a terminal too: the lines themselves show the progress there, and
    the bar would be drawn over them.
    """
    if quiet or not sys.stderr.isatty() or sys.stdout.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        BarColumn(),
        TextColumn("{task.completed} lines"),
        TextColumn("{task.fields[rate]:.1f} lines/s"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, redirect_stdout=False) as progress:
        task = progress.add_task("", total=None, rate=0.0)

        def show(done: int) -> None:
            elapsed_s = progress.tasks[0].elapsed or 0.0
            progress.update(task, completed=done, rate=done / elapsed_s if elapsed_s else 0.0)

        yield show
