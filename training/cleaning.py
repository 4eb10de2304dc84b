"""Which sentence pairs are fit to learn from, and why the others are not.

Knows texts; must not know token ids or the model.
"""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

from dragoman.errors import UsageError
from training.config import CleaningConfig, CorpusConfig
from training.data import some_pairs

_SURE = 0.99
"""Probability from which a side counts as one of another language."""
_FEWEST_LETTERS = 20
"""Of a side whose language can be told; shorter ones look like many."""
_SHORT = 10
"""Characters that each side is taken to be longer by when their lengths are compared."""

Pair = Sequence[str]


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


class Cleaner:
    """Goes through corpora, one after the other, and remembers what it has let pass."""

    def __init__(self, config: CleaningConfig, held_out: Mapping[str, Iterable[str]]) -> None:
        """Take the rules.

        Args:
            config: limits.
            held_out: sentences of each language that must not be learnt from.
        """
        self._config = config
        self._held_out = {
            language: set(map(folded, sentences)) for language, sentences in held_out.items()
        }
        self._passed: set[tuple[str, ...]] = set()
        self._identifier = _identifier() if config.detect_languages else None

    def clean(
        self, corpus: CorpusConfig, pairs: Sequence[Pair], watch: Callable[[], None] = lambda: None
    ) -> tuple[list[Pair], Report]:
        """Choose the pairs of a corpus that are fit to learn from.

        Args:
            corpus: its languages, limits and size; of a text with more pairs than `max_pairs` as
                many are drawn and looked at as it takes.
            pairs: its text, one side a language.
            watch: called after each pair that was looked at.

        Returns:
            The pairs that passed, in their order in the text, and a report.

        Raises:
            UsageError: one of its languages is none that can be told from others.
        """
        known = self._identifier.nb_classes if self._identifier else corpus.languages
        for language in corpus.languages:
            if language not in known:
                raise UsageError(
                    f"{corpus.prefix}: {language!r} cannot be told from other languages: "
                    "set cleaning.detect_languages = false"
                )
        passed, dropped = list[int](), Counter[str]()
        for index in some_pairs(len(pairs), corpus.max_pairs):
            if len(passed) == corpus.max_pairs:
                break
            reason = self._reason(corpus, pairs[index])
            if reason is None:
                passed.append(index)
            else:
                dropped[reason] += 1
            watch()
        read = len(passed) + dropped.total()
        report = Report(corpus.prefix, corpus.languages, read, len(passed), dict(dropped))
        return [pairs[index] for index in sorted(passed)], report

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
        for language, key in zip(languages, keys, strict=True):
            if key in self._held_out.get(language, ()):
                return "held out"
        in_order = [f"{language} {key}" for language, key in zip(languages, keys, strict=True)]
        pair, one_way = tuple(sorted(in_order)), (">", *in_order)
        if pair in self._passed or (corpus.one_way and one_way in self._passed):
            return "duplicate"
        self._passed.add(one_way if corpus.one_way else pair)
        return None

    def _strange(self, languages: Sequence[str], sides: Sequence[str]) -> str | None:
        if self._identifier is None:
            return None
        for language, side in zip(languages, sides, strict=True):
            if sum(map(str.isalpha, side)) < _FEWEST_LETTERS:
                continue
            likeliest, probability = self._identifier.classify(side)
            if likeliest != language and probability > _SURE:
                return "other language"
        return None


def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_pickled_model(MODEL_FILE, norm_probs=True)


def written_file(prefix: Path, language: str) -> Path:
    """Where `write_pairs` writes one side."""
    return prefix.with_name(f"{prefix.name}.{language}.gz")


def write_pairs(prefix: Path, languages: Sequence[str], pairs: Sequence[Pair]) -> None:
    """Write `prefix.xx.gz` for each language; each appears whole or not at all.

    Raises:
        UsageError: the disk is full or cannot be written.
    """
    for side, language in enumerate(languages):
        path = written_file(prefix, language)
        partial = path.with_name(f".{path.name}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with gzip.open(partial, "wt", encoding="utf-8", newline="\n", compresslevel=6) as file:
                file.writelines(f"{pair[side]}\n" for pair in pairs)
            os.replace(partial, path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
