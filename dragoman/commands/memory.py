"""`dragoman memory`: import, export and search translation memories in files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.kernel.errors import DragomanError, UsageError

if TYPE_CHECKING:
    from dragoman_documents.memory.memory_store import Memory
    from dragoman_options.arguments import OptionArguments

HELP = "import, export and search translation memories, for dragoman translate --memory"
EXTRA = "gateway"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the commands and their options."""
    commands = parser.add_subparsers(dest="memory_command", required=True, metavar="WHAT")
    what = "add the translations of files to a memory, which is made if it does not exist"
    importing = commands.add_parser("import", help=what, description=what)
    importing.set_defaults(work=_import)
    importing.add_argument("memory", type=Path, help="file of the memory")
    importing.add_argument(
        "files", type=Path, nargs="+", help="files of TMX, XLIFF, Qt ts or PO, of one direction"
    )
    importing.add_argument(
        "--source-language",
        help="language of the texts (default: that of the memory, else the one that the first file "
        "names; PO names none)",
    )
    importing.add_argument(
        "--target-language",
        help="language of the translations (default: that of the memory, else the one that the "
        "first file names, or the first one in TMX)",
    )
    what = "write a memory to standard output, as TMX 1.4"
    exporting = commands.add_parser("export", help=what, description=what)
    exporting.set_defaults(work=_export)
    exporting.add_argument("memory", type=Path, help="file of the memory")
    what = "print the pairs of a memory that are similar to a text, as lines of JSON"
    searching = commands.add_parser("search", help=what, description=what)
    searching.set_defaults(work=_search)
    searching.add_argument(
        "memory",
        type=Path,
        help="file of the memory, or a TMX, XLIFF or Qt ts file that names its languages",
    )
    searching.add_argument("text", help="a text in its source language")


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    try:
        with memory_errors(arguments.memory):
            arguments.work(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        file = error.filename or "standard output"
        raise UsageError(f"{file}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error
    return 0


@contextmanager
def memory_errors(file: Path) -> Iterator[None]:
    """Converts errors of SQLite inside the block to a DragomanError that names a memory.

    Args:
        file: the memory.
    """
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise DragomanError(f"{file}: {error}") from error


def open_memory_of(file: Path, options: OptionArguments) -> Memory:
    """Open the memory of a translation.

    Args:
        file: a memory, or a bilingual file.
        options: options of the translation.

    Raises:
        UsageError: the file cannot be read, or is not a memory.
    """
    from dragoman_documents.memory.memory_files import open_memory

    try:
        with memory_errors(file):
            return open_memory(file, options.get("source_language"), options.get("target_language"))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(str(error)) from error


def _import(arguments: argparse.Namespace) -> None:
    from dragoman_documents.memory.memory_files import add_file
    from dragoman_documents.memory.memory_store import Memory
    from dragoman_documents.memory.memory_use import check_use

    path, languages = arguments.memory, (arguments.source_language, arguments.target_language)
    memory = Memory.open(path) if path.exists() else None
    is_new = False
    if memory is not None:
        options = dict(zip(("source_language", "target_language"), languages, strict=True))
        check_use(options, memory.languages, str(path))

    def opened(languages: tuple[str, str]) -> Memory:
        nonlocal is_new
        if memory is not None:
            return memory
        made = Memory.create(path, languages)
        is_new = True
        return made

    for file in arguments.files:
        if memory is not None:
            languages = memory.languages
        try:
            memory, number = add_file(file, opened, *languages)
        except BaseException:
            if is_new:
                path.unlink(missing_ok=True)
            raise
        is_new = False
        print(f"{file}: {number:,} segments from {memory.languages[0]} to {memory.languages[1]}")
    assert memory is not None
    memory.close()


def _export(arguments: argparse.Namespace) -> None:
    from dragoman_documents.memory.memory_store import Memory
    from dragoman_documents.memory.pair_files import write_tmx

    with Memory.open(arguments.memory) as memory:
        for content in write_tmx((pair for _, pair in memory.pairs()), memory.languages):
            sys.stdout.buffer.write(content)


def _search(arguments: argparse.Namespace) -> None:
    from dragoman_documents.memory.memory_files import open_memory

    with open_memory(arguments.memory) as memory:
        for match in memory.similar(arguments.text):
            shown = {
                "similarity": match.similarity,
                "source": match.pair.source,
                "target": match.pair.target,
            }
            print(json.dumps(shown, ensure_ascii=False))
