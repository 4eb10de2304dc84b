"""Notices bundles that were replaced or removed while they are served."""

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
"""Time between two looks."""
_LOOKS_WITHOUT = 3
"""After so many looks a folder that is not there was removed, not just replaced."""

_Stamp = tuple[int, ...]


class Changeable(Protocol):
    """Bundles that are served."""

    routes: Routes

    def replace(self, bundle: Bundle) -> None:
        """Let a new version of a bundle take its name over."""

    def remove(self, name: str) -> None:
        """Serve a bundle no more."""


class _Watched:
    """A folder, or a symbolic link to one."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.stamp: _Stamp | None = None
        """Of the version that was looked at last."""
        self.looks_without = 0


class BundleWatch:
    """Looks at folders of bundles, in a thread of its own.

    A version is complete when its folder has its name: it is put there by a rename, of the folder
    or of a symbolic link to it, with another manifest.
    """

    def __init__(self, folders: Sequence[Path], served: Changeable) -> None:
        """Start the thread.

        Args:
            folders: of the bundles.
            served: the bundles, in the same order.
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
        """Look no more."""
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
            log.error("model %s: the version before it goes on: %s", watched.name, error)

    def _current(self, watched: _Watched) -> Bundle | None:
        bundles = self._served.routes.bundles
        return next((one for one in bundles if one.name == watched.name), None)


def _stamp(folder: Path) -> _Stamp | None:
    """Another value for every version of a bundle; None: there is none."""
    try:
        return file_state(folder / FILE_NAME)
    except OSError:
        return None
