"""Puts axe-core, which looks for what keeps people out of a page, beside the environment's Python.

`python -m tests.axe_package`. Source: https://github.com/dequelabs/axe-core
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

from tests.npm_package import fetch

PACKAGE = "axe-core@4.11.0"
_SHA256 = "39bed7d72308f6d620789c169d699bfd7e8da80f65b545821a6b2215c3e83107"
SCRIPT = Path(sys.prefix) / "axe-core" / "axe.min.js"


def install() -> None:
    """Fetch the package and unpack its script."""
    content = fetch(PACKAGE, _SHA256, "its checks of pages will be skipped")
    with tarfile.open(fileobj=io.BytesIO(content)) as package:
        file = package.extractfile("package/axe.min.js")
        assert file is not None
        SCRIPT.parent.mkdir(exist_ok=True)
        SCRIPT.write_bytes(file.read())


if __name__ == "__main__":
    install()
    print(SCRIPT)
