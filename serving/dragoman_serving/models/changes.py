"""Watches for bundles that are replaced or removed while they are served."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.manifest import FILE_NAME
from dragoman.kernel.replacement import file_state
from dragoman_serving.models.routes import Bundle, Routes, read_bundle

log = logging.getLogger(__name__)

LOOK_S = 1.0
"""Seconds between two checks."""
_LOOKS_WITHOUT = 3
"""A folder that is missing for this many checks was removed, not just replaced."""

_Stamp = tuple[int, ...]


class Changeable(Protocol):
    """Bundles that are served."""

    routes: Routes

    def replace(self, bundle: Bundle) -> None:
        """Replace a bundle by a new version with the same name."""

    def remove(self, name: str) -> None:
        """Stop serving a bundle."""


class _Watched:
    """A folder, or a symbolic link to one."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.stamp: _Stamp | None = None
        """Stamp of the last version that was seen."""
        self.looks_without = 0


class BundleWatch:
    """Watches folders of bundles, in a thread of its own.

    A new version must be complete when it appears: it is put in place by renaming the folder or a
    symbolic link to it. Its manifest differs from the one before.
    """

    def __init__(self, folders: Sequence[Path], served: Changeable) -> None:
        """Start the thread.

        Args:
            folders: folders of the bundles.
            served: the served bundles, in the same order.
        """
        bundles = served.routes.bundles
        self._watched = [
            _Watched(folder, bundle.name) for folder, bundle in zip(folders, bundles, strict=True)
        ]
        self._served = served
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dragoman-changes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(LOOK_S):
            for watched in self._watched:
                self._look(watched)

    def _look(self, watched: _Watched) -> None:
        stamp = _stamp(watched.folder)
        watched.looks_without = 0 if stamp else watched.looks_without + 1
        if stamp is None:
            if watched.looks_without == _LOOKS_WITHOUT and self._current(watched):
                log.info("model %s: %s was removed", watched.name, watched.folder)
                watched.stamp = None
                self._served.remove(watched.name)
            return
        if stamp == watched.stamp:
            return
        watched.stamp = stamp
        try:
            bundle = replace(read_bundle(watched.folder), name=watched.name)
            current = self._current(watched)
            if current is None or current.manifest.identity != bundle.manifest.identity:
                self._served.replace(bundle)
        except DragomanError as error:
            log.error("model %s: the previous version stays in use: %s", watched.name, error)

    def _current(self, watched: _Watched) -> Bundle | None:
        bundles = self._served.routes.bundles
        return next((bundle for bundle in bundles if bundle.name == watched.name), None)


def _stamp(folder: Path) -> _Stamp | None:
    """A value that differs between versions of a bundle; None: there is no bundle."""
    try:
        return file_state(folder / FILE_NAME)
    except OSError:
        return None
