"""Renders pages as PNG, in a headless Chromium: those of the documentation, for example.

python -m tests.page_pictures docs/images examples/documents/library.html ...
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.browser import browsing, find_chromium

_WIDTH = 660
"""Width of a page, in CSS pixels."""


def draw(pages: list[Path], folder: Path) -> list[Path]:
    """Render each page at its full height.

    Raises:
        FileNotFoundError: there is no Chromium.
    """
    chromium = find_chromium()
    if chromium is None:
        raise FileNotFoundError("no Chromium: python -m tests.npm_packages fetches one")
    drawn = []
    with (
        tempfile.TemporaryDirectory() as profile,
        browsing(chromium, Path(profile)) as browser,
    ):
        for page in pages:
            browser.resize(_WIDTH, 100)
            browser.open(page)
            browser.resize(_WIDTH, browser.evaluate("document.documentElement.scrollHeight"))
            drawn.append(folder / f"{page.stem}.png")
            drawn[-1].write_bytes(browser.take_picture())
            assert not browser.complaints, browser.complaints
    return drawn


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="for NAME.png of each NAME.html")
    parser.add_argument("page", type=Path, nargs="+")
    arguments = parser.parse_args()
    sys.stdout.writelines(f"{path}\n" for path in draw(arguments.page, arguments.folder))
