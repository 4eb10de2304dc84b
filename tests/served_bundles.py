"""Bundles in a server: the memory that some of them take, and their replacement."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.footprint import bounded, measure
from dragoman_serving.models.routes import read_bundles


def bound_for(folders: Sequence[Path], count: int, own_bytes: int) -> int:
    """Memory for some bundles at once, and the settings that give it."""
    settings = EngineSettings()
    most = 0
    for _ in range(8):  # their memory depends on the limit
        takes = [
            measure(bundle.folder, bundle.manifest, bounded(settings, bundle.manifest, most))
            for bundle in read_bundles(folders)
        ]
        most = count * max(size.loaded_bytes for size in takes)
        most += max(size.loading_bytes for size in takes)
    return own_bytes + most


def swap(link: Path, folder: Path) -> None:
    """Point a link to another folder, atomically."""
    new = link.with_name("new")
    new.symlink_to(folder)
    os.replace(new, link)
