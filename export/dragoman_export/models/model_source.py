"""Resolves a command-line word to a bundle, a checkpoint, or a model of a hub."""

from __future__ import annotations

import hashlib
import os
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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

Kind = Literal["bundle", "checkpoint", "marian", "hub"]


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from.

    Attributes:
        kind: a bundle, one of our checkpoints, a Marian folder in the layout of `transformers`,
            or a hub's name.
        name: for display: as it was given, without the revision.
        path: its folder, unless it is a hub's model.
        revision: of a hub's model.
    """

    kind: Kind
    name: str
    path: Path | None = None
    revision: str = MAIN

    @property
    def key(self) -> str:
        """The name of its folder in the cache, unique for each source."""
        if self.path is not None:
            digest = hashlib.sha256(os.fsencode(self.path.resolve())).hexdigest()[:8]
            return f"{self.path.resolve().name}-{digest}"
        revision = "" if self.revision == MAIN else f"@{urllib.parse.quote(self.revision, '')}"
        return self.name.replace("/", "--") + revision

    @property
    def short_name(self) -> str:
        """Its folder's name, or that of a hub's model without the owner's."""
        return self.path.resolve().name if self.path else self.name.rpartition("/")[2]

    def __str__(self) -> str:
        """As it is given on a command line."""
        return self.name if self.revision == MAIN else f"{self.name}@{self.revision}"


def find_sources(word: str) -> list[ModelSource]:
    """The sources that a word names; several for a folder of bundles.

    Raises:
        UsageError: it names nothing.
    """
    path = Path(word)
    if path.is_dir():
        return _in_folder(path)
    refuse_own_format(path)
    if found := _of_hub(word):
        return [found]
    raise UsageError(
        f"{word}: no such folder, and a hub's names have the form owner/model, "
        "owner/model@revision or opus-mt-..."
    )


def one_source(word: str) -> ModelSource:
    """The single model that a word names.

    Raises:
        UsageError: it names nothing, or several.
    """
    found = find_sources(word)
    if len(found) > 1:
        raise UsageError(f"{word}: contains {len(found)} bundles; name one")
    return found[0]


def kept_source(word: str) -> ModelSource:
    """Like `one_source`, but a folder may have been removed since.

    Raises:
        UsageError: it names several.
    """
    path = Path(word)
    if not path.is_dir() and not _of_hub(word):
        return ModelSource("checkpoint", word, path)
    return one_source(word)


def _of_hub(word: str) -> ModelSource | None:
    """The model of a hub that a word names; `opus-mt-...` needs no owner."""
    name, _, revision = word.partition("@")
    if name.startswith(_OPUS):
        name = f"{_OPUS_OWNER}/{name}"
    return ModelSource("hub", name, revision=revision or MAIN) if is_hub_name(name) else None


def _in_folder(path: Path) -> list[ModelSource]:
    refuse_pointers(path)
    if (path / FILE_NAME).is_file():
        return [ModelSource("bundle", str(path), path)]
    if (path / checkpoint_folder.TOKENIZER).is_file():
        return [ModelSource("checkpoint", str(path), path)]
    if (path / CONFIG).is_file() and "model_type" in read_object(path / CONFIG):
        return [ModelSource("marian", str(path), path)]
    bundles = sorted(found.parent for found in path.glob(f"*/{FILE_NAME}"))
    if not bundles:
        refuse_own_format(path)
        raise UsageError(
            f"{path}: is not a bundle, a checkpoint, a Marian model or a folder of bundles"
        )
    return [ModelSource("bundle", str(bundle), bundle) for bundle in bundles]
