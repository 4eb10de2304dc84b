"""Parallel text: reading it line by line, and drawing pairs from it."""

from __future__ import annotations

import gzip
import itertools
import lzma
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError

_SUFFIXES = ("", ".gz", ".xz")

Languages = tuple[str, str]


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    return path.open("rb")


def read_lines(prefix: Path, language: str) -> list[str]:
    """Read one side of a parallel text.

    Raises:
        UsageError: as `iterate_lines`.
    """
    return list(iterate_lines(prefix, language))


def iterate_lines(prefix: Path, language: str) -> Iterator[str]:
    """Read one side of a parallel text, line by line.

    Args:
        prefix: path without the language: `train` for `train.en`, `train.en.gz` or `train.en.xz`.
        language: the language code that ends the name.

    Raises:
        UsageError: no such file, a broken archive, or a line that is not UTF-8, by number.
    """
    path = existing_file(prefix, language)
    try:
        with _open(path) as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise UsageError(f"{path}: line {number} is not UTF-8") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def read_pairs(prefix: Path, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """Read a parallel text, leaving out pairs with an empty side.

    Raises:
        UsageError: as `iterate_pairs`.
    """
    # Of the text itself, `list` would ask for the length first, which takes reading it.
    return list(iter(TextFiles(prefix, languages)))


def read_some_pairs(prefix: Path, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """As `read_pairs`, at least one.

    Raises:
        UsageError: as there, or no pair is left.
    """
    pairs = read_pairs(prefix, languages)
    if not pairs:
        raise UsageError(f"{prefix}: every pair has an empty side")
    return pairs


def read_sides(prefix: Path, languages: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """As `read_some_pairs`: the sides by their languages.

    Raises:
        UsageError: as there.
    """
    pairs = read_some_pairs(prefix, languages)
    return dict(zip(languages, zip(*pairs, strict=True), strict=True))


@dataclass(frozen=True)
class Side:
    """One language of a parallel text."""

    language: str
    texts: Sequence[str]


def read_directions(
    prefix: Path, directions: Sequence[Sequence[str]], first: int | None = None
) -> list[tuple[Side, Side]]:
    """Read a parallel text as source and target, in each direction that it has both languages of.

    Args:
        prefix: path without the language.
        directions: source and target language of what is wanted.
        first: only so many pairs.

    Raises:
        UsageError: a file is unreadable or empty, or no direction fits.
    """
    known = list(dict.fromkeys(itertools.chain.from_iterable(directions)))
    languages = find_languages(prefix, known)
    fitting = [(src, tgt) for src, tgt in directions if src in languages and tgt in languages]
    if not fitting:
        names = ", ".join(map("-".join, directions))
        raise UsageError(f"{prefix}: is in {', '.join(languages)}, which none of {names} needs")
    texts = read_sides(prefix, languages)
    sides = {language: Side(language, text[:first]) for language, text in texts.items()}
    return [(sides[src], sides[tgt]) for src, tgt in fitting]


def find_languages(prefix: Path, known: Sequence[str]) -> list[str]:
    """The languages that a parallel text has files of.

    Raises:
        UsageError: it has fewer than two.
    """
    found = [language for language in known if find_file(prefix, language)]
    if len(found) < 2:
        has = f"only one in {found[0]!r}" if found else "none"
        raise UsageError(f"{prefix}: needs files in two of {', '.join(known)}; there is {has}")
    return found


def find_file(prefix: Path, language: str) -> Path | None:
    """The file of one side of a parallel text, if there is one.

    Raises:
        UsageError: the prefix has no name.
    """
    if not prefix.name:
        raise UsageError(f"'{prefix}' names no text: give a prefix such as tatoeba-en-de/test")
    candidates = [prefix.with_name(f"{prefix.name}.{language}{suffix}") for suffix in _SUFFIXES]
    return next(filter(Path.is_file, candidates), None)


def links_ending(languages: Languages) -> str:
    """How the name of a file of links ends, behind a text's prefix."""
    return f"{'-'.join(languages)}.links"


def find_links(prefix: Path, languages: Sequence[str]) -> list[Languages]:
    """The pairs of languages of a text that there are links of, the language counted first first.

    Raises:
        UsageError: the prefix has no name.
    """
    pairs = itertools.permutations(languages, 2)
    return [pair for pair in pairs if find_file(prefix, links_ending(pair))]


def other_forms(path: Path) -> list[Path]:
    """What lies beside a packed side of a text that is the same side to `find_file`."""
    plain = path.with_suffix("")
    forms = [plain.with_name(f"{plain.name}{suffix}") for suffix in _SUFFIXES]
    return [form for form in forms if form != path and form.is_file()]


def iterate_pairs(prefix: Path, languages: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Read a parallel text as it is, line by line.

    Raises:
        UsageError: a file is missing, unreadable or empty, or the sides differ in their number of
            lines.
    """
    sides = [iterate_lines(prefix, language) for language in languages]
    number = 0
    for pair in itertools.zip_longest(*sides):
        if None in pair:
            counts = [
                number + (line is not None) + sum(1 for _ in side)
                for line, side in zip(pair, sides, strict=True)
            ]
            found = [f"{count} in {name}" for count, name in zip(counts, languages, strict=True)]
            raise UsageError(
                f"{prefix}: the sides differ in their number of lines: {', '.join(found)}; line N "
                "of one must be the translation of line N of the other"
            )
        number += 1
        yield pair
    if not number:
        raise UsageError(f"{prefix}.{languages[0]}: is empty")


class Pairs(Protocol):
    """Sentence pairs that can be gone through again and again, and counted."""

    def __iter__(self) -> Iterator[Sequence[str]]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class TextFiles:
    """A parallel text in its files, less pairs with an empty side; none of it is kept in memory."""

    prefix: Path
    languages: Sequence[str]
    with_empty: bool = False
    """Whether pairs with an empty side are there too."""
    links: Sequence[Languages] = ()
    """Pairs of languages: a line of links for each stands behind the sides of a pair."""

    @property
    def endings(self) -> list[str]:
        """How the names of its files end, behind the prefix."""
        return [*self.languages, *map(links_ending, self.links)]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Its pairs.

        Raises:
            UsageError: as `iterate_pairs`.
        """
        for pair in iterate_pairs(self.prefix, self.endings):
            if self.with_empty or all(map(str.strip, pair[: len(self.languages)])):
                yield pair

    def __len__(self) -> int:
        """How many there are; reads all of them, once."""
        return self._number

    @cached_property
    def _number(self) -> int:
        return sum(1 for _ in self)


def named_files(first: Path, second: Path) -> TextFiles:
    """The text of two files such as `my.en` and `my.de.gz`.

    Raises:
        UsageError: their names differ in more than the language.
    """
    names = [Path(p.stem) if p.suffix in (".gz", ".xz") else p for p in (first, second)]
    languages = [name.suffix[1:] for name in names]
    prefixes = {path.parent / name.stem for path, name in zip((first, second), names, strict=True)}
    if len(prefixes) > 1 or not all(languages):
        raise UsageError(f"{first} and {second}: name them alike but for the language: my.en my.de")
    return TextFiles(prefixes.pop().absolute(), languages)


def existing_file(prefix: Path, language: str) -> Path:
    """The file of one side of a parallel text.

    Raises:
        UsageError: there is none, or the prefix has no name.
    """
    path = find_file(prefix, language)
    if path is None:
        raise UsageError(f"{prefix}.{language}: no such file, with or without .gz or .xz")
    return path


def some_pairs(number: int, max_pairs: int | None) -> Iterator[int]:
    """The order in which to look at the pairs of a text, of which `max_pairs` will be taken."""
    if max_pairs is None or max_pairs >= number:
        return iter(range(number))
    return iter(np.random.default_rng(0).permutation(number).tolist())


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs of one corpus: one text a language, in the order of `languages`."""

    pairs: Pairs
    languages: Sequence[str]
    weight: float = 1.0
    max_pairs: int | None = None
    one_way: bool = False
    links: Sequence[tuple[int, int]] = ()
    """Pairs of sides: behind the texts, each pair has a line of links of their words."""

    @property
    def directions(self) -> list[tuple[int, int]]:
        """Which of its sides are source and target of what it teaches."""
        return (
            [(0, 1)] if self.one_way else [*itertools.permutations(range(len(self.languages)), 2)]
        )


def with_links(text: ParallelText) -> ParallelText:
    """A text in files with the links that lie beside them, if there are any.

    Raises:
        UsageError: its prefix has no name.
    """
    assert isinstance(text.pairs, TextFiles)
    names = find_links(text.pairs.prefix, text.languages)
    sides = [(text.languages.index(one), text.languages.index(other)) for one, other in names]
    return replace(text, pairs=replace(text.pairs, links=names), links=sides)


def drawing_ranks(text: ParallelText) -> npt.NDArray[np.int64] | None:
    """When each pair of a text is drawn, from 0 on; None where all are taken as they come."""
    if text.max_pairs is None or text.max_pairs >= (number := len(text.pairs)):
        return None
    ranks = np.empty(number, np.int64)
    ranks[np.random.default_rng(0).permutation(number)] = np.arange(number)
    return ranks


def drawn_pairs(text: ParallelText) -> Iterator[Sequence[str]]:
    """The first `max_pairs` pairs that are drawn from a text, in the order that it has them."""
    ranks = drawing_ranks(text)
    for index, pair in enumerate(text.pairs):
        if ranks is None or ranks[index] < text.max_pairs:
            yield pair
