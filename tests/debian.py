"""Files of Debian packages, without installing them."""

from __future__ import annotations

import subprocess
from pathlib import Path


def unpack(folder: Path, *packages: str) -> Path:
    """Download packages for this machine and unpack them into a folder.

    Needs apt and its lists (`apt-get update`), and no privileges.

    Returns:
        The folder, which then looks like the root of a file system.
    """
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "--quiet", "download", *packages], cwd=folder, check=True)
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg-deb", "--extract", archive.name, "."], cwd=folder, check=True)
        archive.unlink()
    return folder
