"""`dragoman translate`: sentences, or standard input line by line, through a running server."""

from __future__ import annotations

import argparse
import codecs
import collections
import contextlib
import json
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO

from dragoman.commands.asking import (
    configure_server,
    configure_translation,
    one_line,
    read_token,
    translation_options,
)
from dragoman.errors import DragomanError, UsageError

if TYPE_CHECKING:
    from dragoman_client import Translation, Translator
    from dragoman_client.request import OptionArguments

HELP = "translate sentences, or standard input line by line, through a running server"

_TEXT_REFUSED = re.compile(r"text \d+ ")
"""How the server begins when one text, and not an option, is at fault."""

_log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "text", nargs="*", help="one line of output for each; none: lines from standard input"
    )
    configure_server(parser)
    configure_translation(parser)
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        help="lines in a request; 1 answers each line before it reads the next (default: 32)",
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=2,
        help="how often a request is sent again that no server could take (default: 2)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run(arguments: argparse.Namespace) -> int:
    """Print one line a text."""
    from dragoman_client import InvalidRequest, TranslationError, TranslationOptions, Translator

    options = translation_options(arguments)
    try:
        # Checked before the first line is read; the translator checks the same once more.
        TranslationOptions(**options)
        translator = Translator(
            arguments.url,
            timeout_s=arguments.timeout_s,
            retries=arguments.retries,
            token=read_token(arguments.token_file),
            ca_file=arguments.ca_file,
            certificate_file=arguments.certificate_file,
            key_file=arguments.key_file,
        )
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    # A person at the keyboard wants an answer to each line, not to the thirty-second.
    batch_size = 1 if not arguments.text and sys.stdin.isatty() else arguments.batch_size
    if batch_size < 1:
        raise UsageError(f"--batch-size {batch_size}: give at least 1")
    lines = _arguments(arguments.text) if arguments.text else _lines(sys.stdin.buffer)
    done = cut = 0
    # A text of the command line that is refused is an error; a line of a file must not cost the
    # rest of the file.
    refused: list[int] | None = None if arguments.text else []
    try:
        with translator, _progress(arguments.quiet) as show:
            for source, translation in _translate(translator, lines, batch_size, options, refused):
                write = _json_line if arguments.json else _text_line
                sys.stdout.buffer.write(write(source, translation).encode() + b"\n")
                sys.stdout.buffer.flush()
                done += 1
                cut += translation is not None and translation.finish_reason == "length"
                show(done)
    except TranslationError as error:
        kind = UsageError if isinstance(error, InvalidRequest) else DragomanError
        where = f" after line {done}" if done else ""
        raise kind(f"{arguments.url}{where}: {one_line(error)}") from error
    if cut:
        _log.warning("%d of %d translations were cut: raise --max-tokens", cut, done)
    if refused:
        raise DragomanError(f"{len(refused)} of {done} lines were refused and left empty")
    return 0


def _translate(
    translator: Translator,
    lines: Iterable[str],
    batch_size: int,
    options: OptionArguments,
    refused: list[int] | None,
) -> Iterator[tuple[str, Translation | None]]:
    """Each line with its translation; a line that is blank, or was refused, has None.

    Args:
        translator: the client.
        lines: what to translate.
        batch_size: lines in a request.
        options: of the translation.
        refused: gets the numbers of refused lines; None: a refusal is an error.
    """
    from dragoman_client import InvalidRequest

    incoming = iter(lines)
    waiting: collections.deque[str] = collections.deque()  # read, but to be sent again
    unanswered: collections.deque[str] = collections.deque()
    answered = 0

    def to_send() -> Iterator[str]:
        while (line := waiting.popleft() if waiting else next(incoming, None)) is not None:
            unanswered.append(line)
            if line.strip():
                yield line

    while True:
        translations = translator.translate_batches(
            to_send(),
            batch_size=batch_size,
            concurrency=1 if batch_size == 1 else 2,
            **options,
        )
        try:
            for translation in translations:
                while not unanswered[0].strip():
                    answered += 1
                    yield unanswered.popleft(), None
                answered += 1
                yield unanswered.popleft(), translation
        except InvalidRequest as error:
            if refused is None or not _TEXT_REFUSED.match(str(error)):
                raise
        else:
            for line in unanswered:
                yield line, None
            return
        # One text of the first batch without an answer was refused: ask for each by itself.
        waiting.extendleft(reversed(unanswered))
        unanswered.clear()
        for _ in range(min(batch_size, len(waiting))):
            line = waiting.popleft()
            answered += 1
            yield line, _translate_alone(translator, line, options, answered, refused)


def _translate_alone(
    translator: Translator, line: str, options: OptionArguments, number: int, refused: list[int]
) -> Translation | None:
    """A line's translation; None if it is blank, or is refused, which `refused` is told."""
    from dragoman_client import InvalidRequest

    if not line.strip():
        return None
    try:
        return translator.translate(line, **options)
    except InvalidRequest as error:
        refused.append(number)
        _log.warning("line %d was refused: %s", number, one_line(error))
        return None


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
