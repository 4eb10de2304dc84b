"""Decides which sentence pairs are good enough to train on, and why the others are not."""

from __future__ import annotations

import gzip
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from unicodedata import category, normalize

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.replacement import replacing
from dragoman.kernel.texts.language import detectable_languages, most_probable_language
from dragoman_training.config import CleaningConfig, CorpusConfig
from dragoman_training.text.parallel_text import Pairs, some_pairs

_SURE = 0.8
"""Probability from which a side counts as being in another language."""
_FEWEST_LETTERS = 20
"""Minimum length for language detection; shorter text is ambiguous."""
_SHORT = 10
"""Characters added to each side before lengths are compared."""

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_CHARACTERS = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}

Pair = Sequence[str]


def without_tags(line: str) -> str:
    """The text of a line with inline XML; entities that a document declares are kept."""
    text = re.sub("|".join(_CHARACTERS), lambda match: _CHARACTERS[match[0]], _TAG.sub("", line))
    return " ".join(text.split())


@dataclass(frozen=True)
class UntaggedPairs:
    """Pairs with inline XML, read as plain text."""

    pairs: Pairs

    def __iter__(self) -> Iterator[Pair]:
        """Their text."""
        for pair in self.pairs:
            yield list(map(without_tags, pair))

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)


@dataclass(frozen=True)
class Report:
    """Result of cleaning a corpus; `dropped` counts pairs by the first reason that applied."""

    prefix: str
    languages: Sequence[str]
    read: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)


def folded(text: str) -> str:
    """A normalized form for finding duplicates: without case, punctuation and spacing.

    Combining marks stay: in many scripts they are vowels. Casefolded text may need composing again.
    """
    plain = normalize("NFKC", normalize("NFKC", text).casefold())
    return "".join(
        character
        for character in plain
        if character.isalnum() or category(character).startswith("M")
    )


@dataclass(frozen=True)
class HeldOut:
    """The sentences of a test or validation set, by language."""

    prefix: str
    sides: Mapping[str, Iterable[str]]


class Cleaner:
    """Cleans corpora one after the other, and remembers the pairs that it kept."""

    def __init__(self, config: CleaningConfig, held_out: Iterable[HeldOut]) -> None:
        """Set the rules.

        Args:
            config: limits.
            held_out: text that must not be trained on.
        """
        self._config = config
        self._held_out: dict[tuple[str, str], str] = {}
        for text in held_out:
            for language, sentences in text.sides.items():
                for sentence in sentences:
                    self._held_out.setdefault((language, folded(sentence)), text.prefix)
        self._passed: set[bytes] = set()

    def clean(
        self,
        corpus: CorpusConfig,
        pairs: Pairs,
        watch: Callable[[], None] = lambda: None,
        dropped_lines: Collection[int] = (),
    ) -> tuple[Iterable[Pair], Report]:
        """Choose the pairs of a corpus that are good enough to train on.

        Args:
            corpus: its languages, limits and size. If the text has more than `max_pairs` pairs, it
                is read into memory, and pairs are sampled until enough pass.
            pairs: its text, one side for each language.
            watch: called after each pair.
            dropped_lines: numbers of lines to drop, from 1.

        Returns:
            The pairs that passed, in the order of the text and read lazily, and a report.

        Raises:
            UsageError: language detection does not know one of its languages.
        """
        known = detectable_languages() if self._config.detect_languages else corpus.languages
        for language in corpus.languages:
            if language not in known:
                raise UsageError(
                    f"{corpus.prefix}: language detection does not know {language!r}: "
                    "set cleaning.detect_languages = false"
                )
        passed, dropped = array("q"), Counter[str]()
        for index, pair in _drawn(pairs, corpus.max_pairs):
            if len(passed) == corpus.max_pairs:
                break
            listed = index + 1 in dropped_lines
            reason = "drop_lines" if listed else self._reason(corpus, pair)
            if reason is None:
                passed.append(index)
            else:
                dropped[reason] += 1
            watch()
        read = len(passed) + dropped.total()
        report = Report(corpus.prefix, corpus.languages, read, len(passed), dict(dropped))
        return _chosen(pairs, sorted(passed)), report

    def _reason(self, corpus: CorpusConfig, pair: Pair) -> str | None:
        """Why a pair is dropped, or None; the cheapest rules come first."""
        sides = [side.strip() for side in pair]
        if not all(sides):
            return "empty"
        lengths = [len(side) for side in sides]
        limits = (corpus.max_characters, self._config.max_characters)
        if max(lengths) > min(filter(None, limits)):
            return "too long"
        if max(lengths) + _SHORT > self._config.max_length_ratio * (min(lengths) + _SHORT):
            return "lengths too different"
        if not all(any(map(str.isalpha, side)) for side in sides):
            return "no words"
        if corpus.drop_matching and any(re.search(corpus.drop_matching, side) for side in sides):
            return "drop_matching"
        return self._repeated(corpus, sides) or self._strange(corpus.languages, sides)

    def _repeated(self, corpus: CorpusConfig, sides: Sequence[str]) -> str | None:
        languages = corpus.languages
        keys = [folded(side) for side in sides]
        if len(set(keys)) < len(keys):
            return "sides alike"
        for place in zip(languages, keys, strict=True):
            if place in self._held_out:
                return f"held out in {self._held_out[place]}"
        in_order = [f"{language} {key}" for language, key in zip(languages, keys, strict=True)]
        pair, one_way = _digest(sorted(in_order)), _digest([">", *in_order])
        if pair in self._passed or (corpus.one_way and one_way in self._passed):
            return "duplicate"
        self._passed.add(one_way if corpus.one_way else pair)
        return None

    def _strange(self, languages: Sequence[str], sides: Sequence[str]) -> str | None:
        if not self._config.detect_languages:
            return None
        strange = map(is_in_another_language, sides, languages)
        return "other language" if any(strange) else None


def is_in_another_language(text: str, language: str) -> bool:
    """Whether a text is clearly in another language than expected; never for short text."""
    if sum(map(str.isalpha, text)) < _FEWEST_LETTERS:
        return False
    detected, probability = most_probable_language(text)
    return detected != language and probability > _SURE


def _drawn(pairs: Pairs, max_pairs: int | None) -> Iterator[tuple[int, Pair]]:
    """Pairs with their numbers, in the order in which they are examined."""
    if max_pairs is None or max_pairs >= len(pairs):
        yield from enumerate(pairs)
        return
    in_memory = list(iter(pairs))
    for index in some_pairs(len(in_memory), max_pairs):
        yield index, in_memory[index]


def _chosen(pairs: Pairs, numbers: Sequence[int]) -> Iterator[Pair]:
    """The pairs with these increasing numbers."""
    remaining = iter(numbers)
    following = next(remaining, None)
    for index, pair in enumerate(pairs):
        if index == following:
            yield pair
            following = next(remaining, None)


def _digest(texts: Sequence[str]) -> bytes:
    """An eight-byte digest of texts, of which there may be gigabytes."""
    return blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def written_file(prefix: Path, language: str) -> Path:
    """The file that `write_pairs` writes for one side."""
    return prefix.with_name(f"{prefix.name}.{language}.gz")


def write_pairs(prefix: Path, languages: Sequence[str], pairs: Iterable[Pair]) -> None:
    """Write `prefix.xx.gz` for each language; they appear complete or not at all.

    Raises:
        UsageError: the disk is full or cannot be written.
    """
    paths = [written_file(prefix, language) for language in languages]
    with writing(f"{prefix}.{{{','.join(languages)}}}.gz"):
        prefix.parent.mkdir(parents=True, exist_ok=True)
        with replacing(*paths) as partial, ExitStack() as stack:
            files = [stack.enter_context(gzip.open(path, "wb", 6)) for path in partial]
            for pair in pairs:
                for file, side in zip(files, pair, strict=True):
                    file.write(f"{side}\n".encode())
