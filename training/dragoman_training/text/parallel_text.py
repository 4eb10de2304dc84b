"""Parallel text: reading it line by line, and sampling pairs from it."""

from __future__ import annotations

import gzip
import itertools
import logging
import lzma
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError

log = logging.getLogger(__name__)

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
        UsageError: see `iterate_lines`.
    """
    return list(iterate_lines(prefix, language))


def iterate_lines(prefix: Path, language: str) -> Iterator[str]:
    """Read one side of a parallel text, line by line.

    Args:
        prefix: path without the language: `train` for `train.en`, `train.en.gz` or `train.en.xz`.
        language: the language code that ends the name.

    Raises:
        UsageError: no such file, a broken archive, or a line that is not UTF-8; with its number.
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
    """Read a parallel text, without pairs that have an empty side.

    Raises:
        UsageError: see `iterate_pairs`.
    """
    # On the text itself, `list` would first ask for its length, which reads all of it.
    return list(iter(TextFiles(prefix, languages)))


def read_some_pairs(prefix: Path, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """Like `read_pairs`, but at least one pair.

    Raises:
        UsageError: see `read_pairs`; or no pair is left.
    """
    pairs = read_pairs(prefix, languages)
    if not pairs:
        raise UsageError(f"{prefix}: every pair has an empty side")
    return pairs


def read_sides(prefix: Path, languages: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Like `read_some_pairs`, but by side: texts by language.

    Raises:
        UsageError: see `read_some_pairs`.
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
    """Read a parallel text as source and target, in each direction that it has files for.

    Args:
        prefix: path without the language.
        directions: source and target language of each.
        first: only the first pairs, this many.

    Raises:
        UsageError: a file is unreadable or empty, or the text fits no direction.
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
    """The languages of a parallel text, by its files.

    Raises:
        UsageError: it has fewer than two.
    """
    sides = [language for language in known if find_file(prefix, language)]
    if not sides:
        names = ", ".join(f"{prefix}.{language}" for language in known[:2])
        raise UsageError(f"found no {names}, ...: give the name without the language")
    if len(sides) < 2:
        raise UsageError(
            f"{prefix}: needs files in two of {', '.join(known)}; there is only one in {sides[0]!r}"
        )
    return sides


def find_file(prefix: Path, language: str) -> Path | None:
    """The file of one side of a parallel text, or None.

    Raises:
        UsageError: the prefix has no name.
    """
    if not prefix.name:
        raise UsageError(f"'{prefix}' names no text: give a prefix such as tatoeba-en-de/test")
    candidates = [prefix.with_name(f"{prefix.name}.{language}{suffix}") for suffix in _SUFFIXES]
    return next(filter(Path.is_file, candidates), None)


def links_ending(languages: Languages) -> str:
    """The ending of a file of word alignments, after a text's prefix."""
    return f"{'-'.join(languages)}.links"


def find_links(prefix: Path, languages: Sequence[str]) -> list[Languages]:
    """The language pairs that a text has word alignments for, in the order of the links.

    Raises:
        UsageError: the prefix has no name.
    """
    pairs = itertools.permutations(languages, 2)
    return [pair for pair in pairs if find_file(prefix, links_ending(pair))]


def other_forms(path: Path) -> list[Path]:
    """Files beside a compressed side of a text that `find_file` takes for the same side."""
    plain = path.with_suffix("")
    forms = [plain.with_name(f"{plain.name}{suffix}") for suffix in _SUFFIXES]
    return [form for form in forms if form != path and form.is_file()]


def iterate_pairs(prefix: Path, languages: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Read a parallel text unchanged, line by line.

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
            sizes = [f"{count} in {name}" for count, name in zip(counts, languages, strict=True)]
            raise UsageError(
                f"{prefix}: the sides differ in their number of lines: {', '.join(sizes)}; line N "
                "of one must be the translation of line N of the other"
            )
        number += 1
        yield pair
    if not number:
        raise UsageError(f"{prefix}.{languages[0]}: is empty")


class Pairs(Protocol):
    """Sentence pairs that can be iterated repeatedly, and counted."""

    def __iter__(self) -> Iterator[Sequence[str]]: ...
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class TextFiles:
    """A parallel text in files, without pairs that have an empty side; read lazily."""

    prefix: Path
    languages: Sequence[str]
    with_empty: bool = False
    """Whether pairs with an empty side are included."""
    links: Sequence[Languages] = ()
    """Language pairs: for each, a line of word alignments follows the sides of a pair."""
    joined: Sequence[Path] = ()
    """Prefixes of the texts that it consists of; `prefix` is then only a name."""

    @property
    def prefixes(self) -> Sequence[Path]:
        """The prefixes of its files."""
        return self.joined or (self.prefix,)

    @property
    def endings(self) -> list[str]:
        """The endings of its file names, after the prefix."""
        return [*self.languages, *map(links_ending, self.links)]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """Iterate over its pairs.

        Raises:
            UsageError: see `iterate_pairs`.
        """
        return filter(self._is_included, self._every_pair())

    def __len__(self) -> int:
        """Number of pairs; the first call reads all of them, and logs how many are left out."""
        return self._number

    @cached_property
    def _number(self) -> int:
        every = number = 0
        for pair in self._every_pair():
            every += 1
            number += self._is_included(pair)
        if every > number:
            _log_empty(self.prefix, every - number, every)
        return number

    def _every_pair(self) -> Iterator[tuple[str, ...]]:
        pairs = (iterate_pairs(prefix, self.endings) for prefix in self.prefixes)
        return itertools.chain.from_iterable(pairs)

    def _is_included(self, pair: Sequence[str]) -> bool:
        return self.with_empty or all(map(str.strip, pair[: len(self.languages)]))


@lru_cache(maxsize=256)
def _log_empty(prefix: Path, empty: int, every: int) -> None:
    """Log once how many pairs of a text are left out."""
    log.warning("%s: %d of %d pairs have an empty side and are left out", prefix, empty, every)


def named_files(first: Path, second: Path) -> TextFiles:
    """The text in two files such as `my.en` and `my.de.gz`.

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
    """The order in which to examine the pairs of a text if `max_pairs` are taken."""
    if max_pairs is None or max_pairs >= number:
        return iter(range(number))
    return iter(np.random.default_rng(0).permutation(number).tolist())


@dataclass(frozen=True)
class ParallelText:
    """Sentence pairs of one corpus: one text for each language, in the order of `languages`."""

    pairs: Pairs
    languages: Sequence[str]
    weight: float = 1.0
    max_pairs: int | None = None
    one_way: bool = False
    links: Sequence[tuple[int, int]] = ()
    """Pairs of sides: after its texts, each pair has a line of word alignments for each."""
    name: str = ""
    """Names the corpus, whatever folder it is in."""

    @property
    def directions(self) -> list[tuple[int, int]]:
        """Which of its sides are source and target in the directions that it trains."""
        return (
            [(0, 1)] if self.one_way else [*itertools.permutations(range(len(self.languages)), 2)]
        )


def with_links(text: ParallelText) -> ParallelText:
    """A text in files, with the word alignments beside it, if there are any.

    Raises:
        UsageError: its prefix has no name.
    """
    assert isinstance(text.pairs, TextFiles)
    files = text.pairs
    links = (find_links(prefix, text.languages) for prefix in files.prefixes)
    return linked_by(text, list(dict.fromkeys(itertools.chain.from_iterable(links))))


def linked_by(text: ParallelText, names: Sequence[Languages]) -> ParallelText:
    """A text in files, with word alignments between these languages."""
    assert isinstance(text.pairs, TextFiles)
    sides = [(text.languages.index(src), text.languages.index(tgt)) for src, tgt in names]
    return replace(text, pairs=replace(text.pairs, links=names), links=sides)


def drawing_ranks(text: ParallelText) -> npt.NDArray[np.int64] | None:
    """The rank of each pair in the sample, from 0; None if all pairs are taken in order."""
    if text.max_pairs is None or text.max_pairs >= (number := len(text.pairs)):
        return None
    ranks = np.empty(number, np.int64)
    ranks[np.random.default_rng(0).permutation(number)] = np.arange(number)
    return ranks


def drawn_pairs(text: ParallelText) -> Iterator[Sequence[str]]:
    """The first `max_pairs` pairs sampled from a text, in the order of the text."""
    ranks = drawing_ranks(text)
    for index, pair in enumerate(text.pairs):
        if ranks is None or ranks[index] < text.max_pairs:
            yield pair
