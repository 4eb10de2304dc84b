"""Puts a headless Chromium beside the development environment's Python, out of an npm package.

The package carries the browser itself and the libraries that bare machines lack, and npm comes from
PyPI too, so that nothing but pip is needed. `python -m tests.chromium_package`.

Source: https://github.com/Sparticuz/chromium
"""

from __future__ import annotations

import io
import shutil
import sys
import tarfile
from pathlib import Path
from xml.sax.saxutils import escape

import brotli

from tests.npm_package import fetch

PACKAGE = "@sparticuz/chromium@147.0.0"
_SHA256 = "18fe5404ce845594cd7d592fc07f37a19514079ba4d9c27192ad8b908743f16b"
FOLDER = Path(sys.prefix) / "chromium"
PROGRAM = FOLDER / "chromium"
LIBRARIES, FONTS = FOLDER / "lib", FOLDER / "fonts"
# A cache's folder has no path relative to this file: it would be taken from where the browser runs.
_FONTS_CONFIG = f"""<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir prefix="relative">.</dir><cachedir>{escape(str(FONTS.absolute() / "cache"))}</cachedir>
</fontconfig>
"""


def install() -> None:
    """Fetch the package, see that it is the right one, and unpack what is needed of it."""
    content = fetch(PACKAGE, _SHA256, "tests of pages will be skipped")
    partial = FOLDER.with_name("chromium.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    with tarfile.open(fileobj=io.BytesIO(content)) as package:

        def unpacked(name: str) -> bytes:
            file = package.extractfile(f"package/bin/{name}")
            assert file is not None
            return bytes(brotli.decompress(file.read()))

        program = partial / PROGRAM.name
        program.write_bytes(unpacked("chromium.br"))
        program.chmod(0o755)
        for name in ("al2023", "fonts"):  # these hold the folders `lib` and `fonts`
            with tarfile.open(fileobj=io.BytesIO(unpacked(f"{name}.tar.br"))) as part:
                part.extractall(partial, filter="data")
    (partial / FONTS.name / "fonts.conf").write_text(_FONTS_CONFIG, encoding="utf-8")
    shutil.rmtree(FOLDER, ignore_errors=True)
    partial.rename(FOLDER)


if __name__ == "__main__":
    install()
    print(PROGRAM)
