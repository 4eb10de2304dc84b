"""Converted models in the user's cache folder, each with a record of its source.

A model appears complete or not at all, and one process at a time makes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.replacement import replace_folder
from dragoman.kernel.settings import from_mapping, read_json
from dragoman.kernel.user_cache import user_cache_folder
from dragoman_export.models.model_source import ModelSource

log = logging.getLogger(__name__)

_RECORD = "model.json"


@dataclass(frozen=True)
class ModelRecord:
    """The source of a cached model, and how the model was checked."""

    model: str
    """Its source, as it is given on a command line."""
    name: str
    """The name by which requests choose it."""
    files: dict[str, str]
    """Digest of each source file: SHA-256, or Git's SHA-1 as a hub states it."""
    reference: str
    """What the conversion was compared with."""
    fp32_tokens: str
    """Digest of what its graphs translate in fp32."""
    commit: str | None = None
    """Commit of a hub's model that its revision named; of Firefox's, the digest of its weights."""
    licence: str | None = None
    """Licence of the model, if it is known."""


@dataclass(frozen=True)
class CachedModel:
    """A model in the cache."""

    folder: Path
    record: ModelRecord

    @property
    def bundle(self) -> Path:
        """Folder of its bundle; its name is the one that requests use."""
        return self.folder / self.record.name

    @property
    def size_bytes(self) -> int:
        """Its size on disk."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


class ModelCache:
    """The folder of converted models."""

    def __init__(self, folder: Path | None = None) -> None:
        """Use a folder; None: the user's cache folder.

        Raises:
            UsageError: there is no home folder.
        """
        self.folder = folder or _user_folder()

    def models(self) -> list[CachedModel]:
        """All complete models, by name."""
        models = [self._read(path.parent) for path in self.folder.glob(f"*/{_RECORD}")]
        return sorted((model for model in models if model), key=lambda model: model.record.model)

    def find(self, source: ModelSource) -> CachedModel | None:
        """A source's model, if it exists and this version can use it."""
        return self._read(self.folder / source.key)

    def need(self, source: ModelSource) -> CachedModel:
        """A source's model.

        Raises:
            UsageError: it does not exist.
        """
        if model := self.find(source):
            return model
        raise self._missing(source)

    def _missing(self, source: ModelSource) -> UsageError:
        return UsageError(f"{source}: is not in {self.folder}; see: dragoman models list")

    def remove(self, source: ModelSource) -> None:
        """Remove a model, and what is left of its download.

        Raises:
            UsageError: it does not exist, or cannot be removed.
        """
        with self.locked(source):
            folder, downloads = self.folder / source.key, self._downloads(source)
            if not folder.exists() and not downloads.exists():
                raise self._missing(source)
            with writing(folder):
                for path in (folder, downloads):
                    if path.exists():
                        shutil.rmtree(path)

    @contextlib.contextmanager
    def locked(self, source: ModelSource) -> Iterator[None]:
        """Lock a source's model against other processes, waiting for them if necessary."""
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.folder / f".{source.key}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.info("%s: waiting for another process that converts it", source)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def downloading(self, source: ModelSource) -> Iterator[Path]:
        """A folder for a source's files; it is kept until they have been used."""
        folder = self._downloads(source)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield folder
        shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def making(self, source: ModelSource) -> Iterator[Path]:
        """A temporary folder on the cache's disk."""
        folder = self.folder / f".{source.key}.making"
        shutil.rmtree(folder, ignore_errors=True)
        with writing(folder):
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, source: ModelSource, bundle: Path, record: ModelRecord) -> CachedModel:
        """Move a bundle into the cache, replacing an existing one.

        Args:
            source: of the model.
            bundle: a folder within `making`, which is moved.
            record: of the model.
        """
        whole = bundle.with_name("whole")
        with writing(self.folder):
            whole.mkdir()
            os.replace(bundle, whole / record.name)
            self._write(whole, record)
            replace_folder(whole, self.folder / source.key)
        return CachedModel(self.folder / source.key, record)

    def _write(self, folder: Path, record: ModelRecord) -> None:
        text = json.dumps(dataclasses.asdict(record), indent=1) + "\n"
        (folder / _RECORD).write_text(text, encoding="utf-8")

    def _downloads(self, source: ModelSource) -> Path:
        return self.folder / ".downloads" / source.key

    def _read(self, folder: Path) -> CachedModel | None:
        path = folder / _RECORD
        if not path.is_file():
            return None
        try:
            record = from_mapping(ModelRecord, read_json(path), str(path))
            model = CachedModel(folder, record)
            Manifest.load(model.bundle)
        except UsageError as error:
            log.warning("%s; it is not used", error)
            return None
        return model


def _user_folder() -> Path:
    folder = user_cache_folder()
    if folder is None:
        raise UsageError("there is no home folder for models: set XDG_CACHE_HOME")
    return folder / "models"
