"""Resolves a command-line word to bundles, a checkpoint, or models of a hub or of Firefox."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dragoman_training.firefox.catalogue import ENGLISH, Pair, legs_of
from dragoman_training.firefox.student_importing import is_student
from dragoman_training.marian.hub import MAIN, is_hub_name
from dragoman_training.marian.settings import (
    CONFIG,
    read_object,
    refuse_own_format,
    refuse_pointers,
)
from dragoman_training.run import checkpoint_folder

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME

_OPUS, _OPUS_OWNER = "opus-mt-", "Helsinki-NLP"
_FIREFOX = "firefox:"
_LANGUAGE = r"[a-z]{2,3}(?:-(?:[A-Za-z]{4}|[A-Z]{2}))?"
_ONE_LANGUAGE = re.compile(_LANGUAGE)
_PAIR = re.compile(rf"({_LANGUAGE})-({_LANGUAGE})")

Kind = Literal["bundle", "checkpoint", "marian", "student", "hub", "firefox"]


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from.

    Attributes:
        kind: a bundle, one of our checkpoints, a Marian folder in the layout of `transformers` or
            of Firefox, a hub's name, or one of Firefox's pairs.
        name: for display: as it was given, without the revision.
        path: its folder, unless it is downloaded.
        revision: of a hub's model; of Firefox's, the architecture, if one was named.
        pair: source and target language of a model of Firefox's.
    """

    kind: Kind
    name: str
    path: Path | None = None
    revision: str = MAIN
    pair: Pair | None = None

    @property
    def key(self) -> str:
        """The name of its folder in the cache, unique for each source."""
        if self.path is not None:
            digest = hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:8]
            return f"{self.path.resolve().name}-{digest}"
        revision = "" if self.revision == MAIN else f"@{urllib.parse.quote(self.revision, '')}"
        return self.name.replace("/", "--").replace(":", "-") + revision

    @property
    def short_name(self) -> str:
        """Its folder's name, or that of a hub's model without the owner's, or firefox-en-de."""
        if self.path:
            return self.path.resolve().name
        return self.name.rpartition("/")[2].replace(":", "-")

    @property
    def architecture(self) -> str | None:
        """The architecture that was named of a model of Firefox's."""
        return None if self.revision == MAIN else self.revision

    def __str__(self) -> str:
        """As it is given on a command line."""
        return self.name if self.revision == MAIN else f"{self.name}@{self.revision}"


def is_firefox_name(word: str) -> bool:
    """Whether a word names models of Firefox's."""
    return word.startswith(_FIREFOX)


def find_sources(word: str) -> list[ModelSource]:
    """The sources that a word names; several for a folder of bundles, or for several languages.

    Raises:
        UsageError: it names nothing.
    """
    path = Path(word)
    if path.is_dir():
        return _in_folder(path)
    refuse_own_format(path)
    if sources := _downloaded(word):
        return sources
    raise UsageError(
        f"{word}: no such folder, and a hub's names have the form owner/model, "
        "owner/model@revision or opus-mt-..., Firefox's models firefox:en-de"
    )


def one_source(word: str) -> ModelSource:
    """The single model that a word names.

    Raises:
        UsageError: it names nothing, or several.
    """
    sources = find_sources(word)
    if len(sources) > 1:
        raise UsageError(f"{word}: contains {len(sources)} models; name one")
    return sources[0]


def kept_sources(word: str) -> list[ModelSource]:
    """The cached models that a word names; its folder may have been removed since.

    Raises:
        UsageError: it names several bundles, or a language of Firefox's is not well formed.
    """
    path = Path(word)
    if path.is_dir():
        return [one_source(word)]
    return _downloaded(word) or [ModelSource("checkpoint", word, path)]


def implied_pivot(sources: Sequence[ModelSource]) -> str | None:
    """The pivot language of models of which each has one direction; None: there are others."""
    return ENGLISH if any(source.kind == "firefox" for source in sources) else None


def _downloaded(word: str) -> list[ModelSource]:
    """The models of a hub or of Firefox that a word names; `opus-mt-...` needs no owner."""
    name, _, revision = word.partition("@")
    if is_firefox_name(name):
        pairs = _pairs(name, name.removeprefix(_FIREFOX))
        return [
            ModelSource("firefox", f"{_FIREFOX}{'-'.join(pair)}", None, revision or MAIN, pair)
            for pair in pairs
        ]
    if name.startswith(_OPUS):
        name = f"{_OPUS_OWNER}/{name}"
    return [ModelSource("hub", name, revision=revision or MAIN)] if is_hub_name(name) else []


def _pairs(word: str, languages: str) -> list[Pair]:
    """The models that translate a pair, or between all of several languages."""
    if match := _PAIR.fullmatch(languages):
        pairs = [(_language(match[1]), _language(match[2]))]
    else:
        named = languages.split(",")
        if len(named) < 2 or not all(map(_ONE_LANGUAGE.fullmatch, named)):
            raise UsageError(f"{word}: write a pair, firefox:en-de, or languages, firefox:en,de,fr")
        pairs = list(itertools.permutations(dict.fromkeys(map(_language, named)), 2))
    if not pairs or any(source == target for source, target in pairs):
        raise UsageError(f"{word}: names one language")
    return list(dict.fromkeys(leg for pair in pairs for leg in legs_of(pair)))


def _language(code: str) -> str:
    """A code as Firefox's models have it, such as `zh-Hans`."""
    language, _, script = code.partition("-")
    return f"{language}-{script.title()}" if len(script) == 4 else code


def _in_folder(path: Path) -> list[ModelSource]:
    refuse_pointers(path)
    if (path / FILE_NAME).is_file():
        return [ModelSource("bundle", str(path), path)]
    if (path / checkpoint_folder.TOKENIZER).is_file():
        return [ModelSource("checkpoint", str(path), path)]
    if is_student(path):
        return [ModelSource("student", str(path), path)]
    if (path / CONFIG).is_file() and "model_type" in read_object(path / CONFIG):
        return [ModelSource("marian", str(path), path)]
    bundles = sorted(file.parent for file in path.glob(f"*/{FILE_NAME}"))
    if not bundles:
        refuse_own_format(path)
        raise UsageError(
            f"{path}: is not a bundle, a checkpoint, a Marian model or a folder of bundles"
        )
    return [ModelSource("bundle", str(bundle), bundle) for bundle in bundles]
