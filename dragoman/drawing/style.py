"""Style of the figures for print: fonts, and text that matplotlib draws literally."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
from matplotlib import font_manager

_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK KR", "Noto Sans SC", "Noto Sans JP"),
    *("Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei"),
    *("Droid Sans Fallback", "Hiragino Sans", "PingFang SC", "Microsoft YaHei", "Yu Gothic"),
    *("Malgun Gothic", "Apple SD Gothic Neo", "Noto Sans Devanagari", "Noto Sans Bengali"),
    *("Noto Sans Tamil", "Noto Sans Thai", "Noto Sans Ethiopic", "Nirmala UI", "Arial Unicode MS"),
)
"""For characters that matplotlib's own font lacks."""


@contextmanager
def style() -> Iterator[None]:
    """Apply the settings of matplotlib within the block."""
    settings: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": "dragoman",
        "font.family": ["sans-serif", *_installed()],
        "font.size": 9,
    }
    with matplotlib.rc_context(settings):
        yield


@cache
def _installed() -> tuple[str, ...]:
    # Matplotlib warns about each missing font, for each text.
    names = {font.name for font in font_manager.fontManager.ttflist}
    return tuple(font for font in _FONTS if font in names)


def plain(text: str) -> str:
    """Returns a text that is not parsed as mathematics, and that every format can hold."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("$", r"\$")
