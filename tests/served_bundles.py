"""Bundles as a server holds them: the memory that some of them take, and their replacement."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.footprint import bounded, measure
from dragoman_serving.models.routes import read_bundles


def bound_for(folders: Sequence[Path], count: int, own_bytes: int) -> int:
    """Memory for some bundles of those at once, and the settings that it leads to."""
    settings = EngineSettings()
    most = 0
    for _ in range(8):  # what they take depends on the bound
        takes = [
            measure(one.folder, one.manifest, bounded(settings, one.manifest, most))
            for one in read_bundles(folders)
        ]
        most = count * max(one.loaded_bytes for one in takes)
        most += max(one.loading_bytes for one in takes)
    return own_bytes + most


def swap(link: Path, folder: Path) -> None:
    """Let a link name another folder, at once."""
    new = link.with_name("new")
    new.symlink_to(folder)
    os.replace(new, link)
