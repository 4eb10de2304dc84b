"""`dragoman translate`: translate texts, lines or files with a running server."""

from __future__ import annotations

import argparse
import contextlib
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dragoman.commands.memory import memory_errors, open_memory_of
from dragoman.commands.shared.asking import (
    configure_retries,
    configure_server,
    one_line,
    open_translator,
    server_error,
)
from dragoman.commands.shared.file_reports import FileReports
from dragoman.commands.shared.folders import configure_force
from dragoman.commands.shared.line_progress import Show, line_progress
from dragoman.commands.shared.many_files import (
    FilePair,
    ManyFiles,
    UnknownFormat,
    are_many,
    pairs_of,
)
from dragoman.commands.shared.options import configure_options, given_options, outputs_given
from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.replacement import exists

if TYPE_CHECKING:
    from dragoman_client import FileProgress, FileReport, InvalidRequest, Translation, Translator
    from dragoman_client.files.line_formats import LineFormat
    from dragoman_client.files.line_translation import Line
    from dragoman_options.arguments import OptionArguments
    from dragoman_options.markup import Markup

HELP = "translate sentences, files, or lines of standard input with a running server"
EXTRA = "serve"

_LINE_FORMATS = ("text", "jsonl", "tsv", "document")
_COMPRESSED = (".gz", ".xz", ".bz2")
_HEAD_BYTES = 1 << 12

_log = logging.getLogger(__name__)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from dragoman_client.files.file_formats import READABLE

    parser.add_argument(
        "text", nargs="*", help="texts to translate, one output line each (default: standard input)"
    )
    configure_server(parser)
    configure_options(parser)
    parser.add_argument(
        "--batch-size",
        type=int,
        default=32,
        help="lines per request; 1: translate each line before reading the next (default: 32)",
    )
    configure_retries(parser)
    files = parser.add_argument_group("files")
    files.add_argument(
        "--input",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="file to translate, instead of standard input; or several files, or folders with all "
        "files in them",
    )
    files.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="file for the translation, named FILE.partial until it is complete; of several files, "
        "a folder, in which they have the same relative names",
    )
    existing = files.add_mutually_exclusive_group()
    existing.add_argument(
        "--resume",
        action="store_true",
        help="continue the --output of an interrupted run; of several files, skip finished ones",
    )
    configure_force(existing)
    files.add_argument(
        "--format",
        choices=(*_LINE_FORMATS, *READABLE, "auto"),
        metavar="FORMAT",
        help="text: one text per line; jsonl: JSON objects, to which `translation`, "
        "`output_tokens` and `finish_reason` are added; tsv: columns, to which one is added; "
        "document: running text of any length, with its paragraphs and layout kept; "
        f"{', '.join(READABLE)}: documents of which only the texts change, see docs/documents.md; "
        "auto: detected from the --input (default: that of a document's extension, or else text; "
        "for several files or folders auto)",
    )
    files.add_argument("--field", default="text", help="jsonl member to translate (default: text)")
    files.add_argument(
        "--column", type=int, default=1, help="tsv column to translate, from 1 (default: 1)"
    )
    files.add_argument(
        "--columns", metavar="NAMES", help="csv columns to translate, such as title,description"
    )
    files.add_argument(
        "--memory",
        type=Path,
        metavar="FILE",
        help="translation memory: of dragoman memory, or a TMX, XLIFF, Qt ts or PO file; what it "
        "has is not sent to the server",
    )
    files.add_argument(
        "--json", action="store_true", help="write one JSON object per line; the input is text"
    )
    files.add_argument(
        "--titles",
        action="store_true",
        help="translate the title among the properties of an Office document or a book too",
    )
    files.add_argument(
        "--report",
        metavar="FILE",
        help="write what was translated, and what was left, as a JSON object for each file; - is "
        "standard output",
    )
    files.add_argument(
        "--least-confidence",
        type=float,
        metavar="X",
        help="report translations with a lower confidence, the mean log-probability of their "
        "tokens, such as -1",
    )


def run(arguments: argparse.Namespace) -> int:
    """Translate, and print or write the translations."""
    from dragoman_client import Document, TranslationError
    from dragoman_options.table import check

    options = given_options(arguments)
    inputs = arguments.input or []
    is_many = are_many(inputs, arguments.output)
    arguments.input = inputs[0] if inputs else None
    _choose_format(arguments, is_many)
    try:
        # Checked before the first line is read; the translator checks it again.
        form = _form(arguments, outputs_given(check(options)))
        if isinstance(form, Document):
            options = form.with_sentences(options)
        memory = open_memory_of(arguments.memory, options) if arguments.memory else None
        with memory_errors(arguments.memory):
            translator = open_translator(arguments, arguments.retries, memory)
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    if arguments.batch_size < 1:
        raise UsageError(f"--batch-size {arguments.batch_size}: give at least 1")
    work: _Work | ManyFiles = _Work(arguments, translator, form, options)
    if is_many:

        def translate(pair: FilePair, show: Show) -> FileReport:
            return _translate_pair(arguments, translator, options, pair, show)

        resume, output = arguments.resume, arguments.output
        pairs = pairs_of(inputs, output, resume=resume, force=arguments.force)
        work = ManyFiles(pairs, translate, resume=resume, quiet=arguments.quiet)
    try:
        with memory_errors(arguments.memory), translator, _reports(arguments) as reports:
            work.run(reports)
    except TranslationError as error:
        raise server_error(arguments.url, error, work.after, work.fix) from error
    except ValueError as error:
        raise UsageError(f"{one_line(error)}{work.fix}") from error
    except KeyboardInterrupt:
        if work.fix:
            _log.warning("interrupted%s%s", work.after, work.fix)
        raise
    work.report()
    if memory is not None:
        memory.close()
        stored = getattr(translator, "stored", 0)
        _log.info("%d texts came from %s", stored, arguments.memory)
    return 0


class _Work:
    """A translation job and its progress."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        translator: Translator,
        form: LineFormat,
        options: OptionArguments,
    ) -> None:
        self._arguments, self._translator = arguments, translator
        self._form, self._options = form, options
        self._is_markup = arguments.format not in _LINE_FORMATS
        units = {"document": "paragraph"}
        self.unit = "text" if self._is_markup else units.get(arguments.format, "line")
        self.lines = self.cut = self.refused = 0
        self.fix = ""
        """How to continue an interrupted run, for messages."""

    @property
    def after(self) -> str:
        """What was done, for messages."""
        return f" after {self.unit} {self.lines}" if self.lines else ""

    def run(self, reports: FileReports) -> None:
        """Translate what the arguments name."""
        source, target = self._arguments.input, self._arguments.output
        if target is not None:
            with line_progress(self._arguments.quiet, self.unit) as show:
                report = self.write_file(show)
            reports.add(source, target, report)
        elif self._is_markup:
            self._markup_to_standard_output()
        else:
            self._to_standard_output()

    def report(self) -> None:
        """Report translations that were cut or refused."""
        if self.cut:
            is_own = "max_tokens" in self._options
            limit = "--max-tokens: raise it" if is_own else "the model's limit of tokens"
            _log.warning("%d of %d translations were cut at %s", self.cut, self.lines, limit)
        if self.refused:
            left = "empty" if self.unit == "line" else "as they were"
            raise DragomanError(
                f"{self.refused} of {self.lines} {self.unit}s were refused and left {left}"
            )

    def write_file(self, show: Show) -> FileReport:
        """Translate one file into another."""
        source, target = self._arguments.input, self._arguments.output
        if source is None or self._arguments.text:
            raise UsageError("--output: give an --input, since only a file can be read again")
        form = self._arguments.format if self._is_markup else self._form

        def tell(progress: FileProgress) -> None:
            self.lines, self.cut = progress.lines, progress.cut
            if progress.lines and not self._is_markup:
                self.fix = "; --resume continues from there"
            show(progress.lines, progress.resumed_at, progress.of)

        try:
            done = self._translator.translate_file(
                source,
                target,
                form=form,
                batch_size=self._arguments.batch_size,
                resume=self._arguments.resume,
                force=self._arguments.force,
                columns=_columns(self._arguments),
                titles=self._arguments.titles,
                least_confidence=self._arguments.least_confidence,
                tell=tell,
                refuse=self._note_refusal,
                **self._options,
            )
        except FileExistsError as error:
            path = Path(error.filename)
            raise exists(path, resumable=path != target) from error
        except OSError as error:
            file = error.filename or target
            raise DragomanError(f"{file}: {error.strerror or error}") from error
        self.refused = done.refused
        return done.report

    def _markup_to_standard_output(self) -> None:
        """Translate a file or standard input; its markup stays as it is."""
        from dragoman_client import FileReport
        from dragoman_client.files.document_translation import parts_of, translate_parts, whole
        from dragoman_client.files.file_formats import READABLE, Reading, open_reader

        arguments, options = self._arguments, self._options
        if arguments.text:
            raise UsageError(f"--format {arguments.format}: give an --input, or standard input")

        def translate(texts: Sequence[str], markup: Sequence[Markup]) -> list[Translation]:
            return self._translator.translate(texts, **{**options, "markup": markup})  # type: ignore[call-overload,no-any-return]

        reading = Reading.of(options, _columns(arguments), arguments.titles)
        reader, report = open_reader(arguments.format, reading), FileReport()
        name = str(arguments.input or "standard input")
        try:
            with contextlib.ExitStack() as files:
                file: BinaryIO = sys.stdin.buffer
                if arguments.input is not None:
                    file = files.enter_context(arguments.input.open("rb"))
                elif READABLE[arguments.format].is_package and not file.seekable():
                    file = files.enter_context(tempfile.TemporaryFile())
                    shutil.copyfileobj(sys.stdin.buffer, file)
                    file.seek(0)
                contents = translate_parts(
                    parts_of(reader, file, name),
                    translate,
                    report=report,
                    suggest=self._translator.suggest,
                    refuse=self._note_refusal,
                    tell=self._tell,
                )
                for content in whole(reader, file, contents):
                    sys.stdout.buffer.write(content)
                    sys.stdout.buffer.flush()
            for message in reader.warnings:
                _log.warning("%s: %s", name, message)
            _log.info("%s: %s", name, report)
        except OSError as error:
            if isinstance(error, BrokenPipeError) or error.filename is None:
                raise
            raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def _tell(self, done: int) -> None:
        self.lines = done

    def _to_standard_output(self) -> None:
        """Translate the texts of the command line, a file, or standard input."""
        from dragoman_client.files.documents import line_end
        from dragoman_client.files.file_translation import lines_of, read_lines
        from dragoman_client.files.line_translation import translate_lines

        arguments = self._arguments
        if arguments.text and arguments.input:
            raise UsageError("--input: give a file, or texts, not both")
        if arguments.resume or arguments.force:
            name = "--resume" if arguments.resume else "--force"
            raise UsageError(f"{name}: give an --output too")
        # A person at the keyboard expects an answer after each line, not after 32.
        interactive = not arguments.text and arguments.input is None and sys.stdin.isatty()
        batch_size = 1 if interactive else arguments.batch_size
        if arguments.text:
            lines = _arguments(arguments.text, self._form)
        elif arguments.input is not None:
            lines = read_lines(arguments.input, self._form)
        else:
            lines = lines_of(sys.stdin.buffer, self._form, "standard input")
        # A refused text of the command line is an error. A refused line of a file must not stop
        # the rest of the file.
        refuse = None if arguments.text else self._note_refusal
        end = "\n" if arguments.text else line_end(self._form)
        try:
            with line_progress(arguments.quiet, self.unit, prints=True) as show:
                for line, translation in translate_lines(
                    self._translator,
                    lines,
                    batch_size=batch_size,
                    concurrency=1 if batch_size == 1 else 2,
                    options=self._options,
                    refuse=refuse,
                ):
                    written = self._form.write(line.line, translation)
                    sys.stdout.buffer.write((written + end).encode())
                    sys.stdout.buffer.flush()
                    self.lines += 1
                    self.cut += translation.finish_reason == "length"
                    show(self.lines, 0, None)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            if error.filename is None:
                raise DragomanError(f"standard output: {error.strerror or error}") from error
            raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error

    def _note_refusal(self, number: int, error: InvalidRequest) -> None:
        self.refused += 1
        _log.warning("%s %d was refused: %s", self.unit, number, one_line(error))


def _reports(arguments: argparse.Namespace) -> AbstractContextManager[FileReports]:
    """Opens the reports."""
    if arguments.output is None and (arguments.report or arguments.least_confidence is not None):
        raise UsageError("--report, --least-confidence: give an --output too")
    return FileReports.opened(arguments.report, resume=arguments.resume, force=arguments.force)


def _translate_pair(
    arguments: argparse.Namespace,
    translator: Translator,
    options: OptionArguments,
    pair: FilePair,
    show: Show,
) -> FileReport:
    """Translate one of several files."""
    each = argparse.Namespace(**vars(arguments))
    each.input, each.output = pair.source, pair.target
    if each.format == "auto":
        try:
            each.format = _format_of(each)
        except ValueError as error:
            raise UnknownFormat(str(error)) from error
    each.resume = each.resume and each.format in _LINE_FORMATS
    return _Work(each, translator, _form(each, ()), options).write_file(show)


def _columns(arguments: argparse.Namespace) -> list[str]:
    """Returns the names of the columns to translate."""
    return [name.strip() for name in (arguments.columns or "").split(",") if name.strip()]


def _choose_format(arguments: argparse.Namespace, is_many: bool) -> None:
    """Set the format that the arguments leave open; that of one of many files is detected later."""
    if is_many and arguments.text:
        raise UsageError("--input: give files, or texts, not both")
    if arguments.format is None:
        arguments.format = "auto" if is_many else _document_format(arguments) or "text"
    if arguments.format != "auto" or is_many:
        return
    if arguments.input is None:
        raise UsageError("--format auto: give an --input to detect the format of")
    try:
        arguments.format = _format_of(arguments)
    except ValueError as error:
        fix = "to translate it as such nevertheless, give --format document or --format text"
        raise UsageError(f"{error}; {fix}") from error


def _document_format(arguments: argparse.Namespace) -> str | None:
    """The format of one document by its file's extension; None: lines of text."""
    from dragoman_client.files.file_formats import ReadableFormat, format_of

    path = arguments.input
    if path is None or arguments.json:
        return None
    known = format_of(path.stem if path.suffix in _COMPRESSED else path.name)
    if not isinstance(known, ReadableFormat) or (known.name == "csv" and not _columns(arguments)):
        return None
    name, head = _begin(path)
    return known.name if format_of(name.name, head) is known else None


def _format_of(arguments: argparse.Namespace) -> str:
    """The format of the input, from its name or its first bytes."""
    from dragoman_client.files.file_formats import ReadableFormat, check_running_text, format_of

    table = "csv" if _columns(arguments) else "tsv"
    by_name = {".jsonl": "jsonl", ".ndjson": "jsonl", ".tsv": table}
    name, head = _begin(arguments.input)
    if name.suffix.lower() in by_name:
        return by_name[name.suffix.lower()]
    known = format_of(name.name, head)
    if isinstance(known, ReadableFormat):
        return known.name
    check_running_text(str(name), head)
    return "document"


def _begin(path: Path) -> tuple[Path, bytes]:
    """The name of a file without that of its compression, and its first bytes, decompressed."""
    from dragoman_client.files.compressed_files import opened

    try:
        with opened(path) as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    return (path.with_suffix("") if path.suffix in _COMPRESSED else path), head


def _form(arguments: argparse.Namespace, only_in_json: Sequence[str]) -> LineFormat:
    """Returns the line format: how lines are read and written."""
    from dragoman_client import Document, JsonLines, PlainLines, PlainLinesToJson, TabColumns

    if arguments.json and arguments.format != "text":
        raise UsageError(f"--json is only for --format text, not for {arguments.format}")
    if only_in_json and not (arguments.json or arguments.format == "jsonl"):
        raise UsageError(f"{only_in_json[0]}: only --json and jsonl show it")
    if arguments.format == "jsonl":
        return JsonLines(arguments.field)
    if arguments.format == "tsv":
        return TabColumns(arguments.column)
    if arguments.format == "document":
        form: LineFormat = Document()
    else:
        form = PlainLinesToJson() if arguments.json else PlainLines()
    if arguments.input is not None and arguments.format in ("text", "document"):
        _warn_of_markup(arguments.input)
    return form


def _warn_of_markup(path: Path) -> None:
    """Warn if a text file seems to have another format, because its markup would be translated."""
    from dragoman_client.files.file_formats import ReadableFormat, format_of

    with contextlib.suppress(UsageError):
        name, head = _begin(path)
        known = format_of(name.name, head)
        if isinstance(known, ReadableFormat):
            message = "%s looks like %s: to keep its markup give --format %s"
            _log.warning(message, path, known.title, known.name)
        elif known is not None:
            _log.warning("%s is %s, and may be damaged as running text", path, known.title)


def _arguments(texts: Iterable[str], form: LineFormat) -> Iterator[Line]:
    """The texts of the command line, as lines."""
    from dragoman_client.files.line_translation import Line

    for number, text in enumerate(texts, start=1):
        try:
            # In an ASCII locale, Python keeps the other bytes of arguments as surrogates.
            readable = text.encode("utf-8", "surrogateescape").decode("utf-8")
            yield Line(readable, form.read(readable))
        except UnicodeError as error:
            raise UsageError(f"text {number} is not valid UTF-8") from error
        except ValueError as error:
            raise UsageError(f"text {number}: {error}") from error
