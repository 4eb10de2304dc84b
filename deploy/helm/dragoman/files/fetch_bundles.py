"""Downloads archives of bundles, checks their SHA-256 and unpacks them; the chart's initContainer.

DOWNLOADS='[{"name": "en-de", "url": "https://...", "sha256": "..."}]' fetch_bundles.py FOLDER
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import IO

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60


def main() -> None:
    """Fetch each archive into the folder with its name; on an error, exit with one line."""
    (folder,) = sys.argv[1:]
    for download in json.loads(os.environ["DOWNLOADS"]):
        try:
            _fetch(download["url"], download["sha256"], Path(folder) / download["name"])
        except (OSError, tarfile.TarError, ValueError) as error:
            sys.exit(f"models.downloads {download['name']}: {download['url']}: {error}")


def _fetch(url: str, sha256: str, folder: Path) -> None:
    with tempfile.TemporaryFile() as archive:
        digest = _download(url, archive)
        if digest != sha256:
            raise ValueError(f"its SHA-256 is {digest}, not {sha256}: correct it if you trust both")
        archive.seek(0)
        with tarfile.open(fileobj=archive) as members:
            # A restarted pod may find files of an earlier attempt; they are replaced.
            members.extractall(folder, filter="data")


def _download(url: str, file: IO[bytes]) -> str:
    """Download a URL to a file; returns its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310  (the schema: https)
        while chunk := answer.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


if __name__ == "__main__":
    main()
