"""Memories from files: those of SQLite, and bilingual ones."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Final

from dragoman_documents.core.languages import names_language
from dragoman_documents.memory.memory_store import Memory
from dragoman_documents.memory.pair_files import PairFile

_SQLITE: Final = b"SQLite format 3\0"


def open_memory(path: Path, source: str | None = None, target: str | None = None) -> Memory:
    """Open a memory file, or read a bilingual file into memory.

    Args:
        path: a file of SQLite, or one that `PairFile` reads.
        source: source language of a bilingual file; None: see `PairFile`.
        target: its target language.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has none of these formats, or its languages are not known.
    """
    with path.open("rb") as file:
        is_memory = file.read(len(_SQLITE)) == _SQLITE
    if is_memory:
        return Memory.open(path)
    memory, _ = add_file(path, lambda languages: Memory.create(None, languages), source, target)
    memory.name = path.name
    return memory


def add_file(
    path: Path,
    open_for: Callable[[tuple[str, str]], Memory],
    source: str | None = None,
    target: str | None = None,
) -> tuple[Memory, int]:
    """Add the pairs of a bilingual file to a memory.

    Args:
        path: the file.
        open_for: returns the memory for a source and a target language.
        source: source language; None: see `PairFile`.
        target: target language.

    Returns:
        The memory, and the number of added pairs.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has none of these formats, or no translation in these languages.
    """
    with path.open("rb") as file:
        pairs = PairFile(file, source, target)
        try:
            first = next(pairs.pairs, None)
            if first is None:
                raise ValueError("has no translations in these languages")
            if not all(map(names_language, pairs.languages)):
                raise ValueError("does not name its languages: give both")
            memory = open_for(pairs.languages)
            return memory, memory.add(chain((first,), pairs.pairs))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
