"""Which sentence pairs are fit to learn from, and why the others are not."""

from __future__ import annotations

import gzip
import os
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from unicodedata import category, normalize

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.language import detectable_languages, most_probable_language
from dragoman_training.config import CleaningConfig, CorpusConfig
from dragoman_training.text.parallel_text import Pairs, some_pairs

_SURE = 0.8
"""Probability from which a side counts as one of another language."""
_FEWEST_LETTERS = 20
"""Of a side whose language can be told; shorter ones look like many."""
_SHORT = 10
"""Characters that each side is taken to be longer by when their lengths are compared."""

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_CHARACTERS = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}

Pair = Sequence[str]


def without_tags(line: str) -> str:
    """The text of a line with inline XML; entities that a document declares stay."""
    text = re.sub("|".join(_CHARACTERS), lambda found: _CHARACTERS[found[0]], _TAG.sub("", line))
    return " ".join(text.split())


@dataclass(frozen=True)
class UntaggedPairs:
    """Pairs with inline XML, read as their text."""

    pairs: Pairs

    def __iter__(self) -> Iterator[Pair]:
        """Their text."""
        for pair in self.pairs:
            yield list(map(without_tags, pair))

    def __len__(self) -> int:
        """How many there are."""
        return len(self.pairs)


@dataclass(frozen=True)
class Report:
    """What became of a corpus; `dropped` counts pairs by the first reason that held."""

    prefix: str
    languages: Sequence[str]
    read: int
    kept: int
    dropped: Mapping[str, int] = field(default_factory=dict)


def folded(text: str) -> str:
    """A text by which it is recognised again: without case, punctuation and spacing.

    Marks stay: in many scripts they are vowels. A casefolded text may need composing once more.
    """
    plain = normalize("NFKC", normalize("NFKC", text).casefold())
    return "".join(one for one in plain if one.isalnum() or category(one).startswith("M"))


@dataclass(frozen=True)
class HeldOut:
    """The sentences of a test or validation set, by language."""

    prefix: str
    sides: Mapping[str, Iterable[str]]


class Cleaner:
    """Goes through corpora, one after the other, and remembers what it has let pass."""

    def __init__(self, config: CleaningConfig, held_out: Iterable[HeldOut]) -> None:
        """Take the rules.

        Args:
            config: limits.
            held_out: what must not be learnt from.
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
        """Choose the pairs of a corpus that are fit to learn from.

        Args:
            corpus: its languages, limits and size; of a text with more pairs than `max_pairs` as
                many are drawn and looked at as it takes, for which it is read into memory.
            pairs: its text, one side a language.
            watch: called after each pair that was looked at.
            dropped_lines: numbers of lines, from 1, that are dropped.

        Returns:
            The pairs that passed, in their order in the text, to be gone through at need, and a
            report.

        Raises:
            UsageError: one of its languages is none that can be told from others.
        """
        known = detectable_languages() if self._config.detect_languages else corpus.languages
        for language in corpus.languages:
            if language not in known:
                raise UsageError(
                    f"{corpus.prefix}: {language!r} cannot be told from other languages: "
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
        """Why a pair is dropped; the rules that cost least come first."""
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
    """Whether a text is surely in another language than it should be; of short ones none is."""
    if sum(map(str.isalpha, text)) < _FEWEST_LETTERS:
        return False
    found, probability = most_probable_language(text)
    return found != language and probability > _SURE


def _drawn(pairs: Pairs, max_pairs: int | None) -> Iterator[tuple[int, Pair]]:
    """Pairs with their numbers, in the order in which to look at them."""
    if max_pairs is None or max_pairs >= len(pairs):
        yield from enumerate(pairs)
        return
    in_memory = list(iter(pairs))
    for index in some_pairs(len(in_memory), max_pairs):
        yield index, in_memory[index]


def _chosen(pairs: Pairs, numbers: Sequence[int]) -> Iterator[Pair]:
    """Those of rising numbers."""
    wanted = iter(numbers)
    following = next(wanted, None)
    for index, pair in enumerate(pairs):
        if index == following:
            yield pair
            following = next(wanted, None)


def _digest(texts: Sequence[str]) -> bytes:
    """Eight bytes that stand for texts, of which there may be gigabytes."""
    return blake2b("\n".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest()


def written_file(prefix: Path, language: str) -> Path:
    """Where `write_pairs` writes one side."""
    return prefix.with_name(f"{prefix.name}.{language}.gz")


def write_pairs(prefix: Path, languages: Sequence[str], pairs: Iterable[Pair]) -> None:
    """Write `prefix.xx.gz` for each language; they appear whole or not at all.

    Raises:
        UsageError: the disk is full or cannot be written.
    """
    paths = [written_file(prefix, language) for language in languages]
    partial = [path.with_name(f".{path.name}.partial") for path in paths]
    try:
        with writing(f"{prefix}.{{{','.join(languages)}}}.gz"):
            prefix.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:
                files = [stack.enter_context(gzip.open(path, "wb", 6)) for path in partial]
                for pair in pairs:
                    for file, side in zip(files, pair, strict=True):
                        file.write(f"{side}\n".encode())
            for path, whole in zip(partial, paths, strict=True):
                os.replace(path, whole)
    finally:
        with suppress(OSError):
            for path in partial:
                path.unlink(missing_ok=True)
