"""Holds out a part of a parallel text for validation."""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from pathlib import Path

from dragoman.kernel.errors import writing
from dragoman.kernel.replacement import replacing
from dragoman_training.text.parallel_text import TextFiles

TRAIN, VALID = "train", "valid"
_SHARE, _MOST_PAIRS = 0.05, 1000
_FEWEST_PAIRS = 200
"""Minimum size of a text to hold out from: a twentieth of fewer pairs would measure nothing."""


def number_held_out(text: TextFiles) -> int:
    """How many pairs `hold_out` will hold out; 0 if the text is too small.

    Raises:
        UsageError: the text cannot be read.
    """
    if len(text) < _FEWEST_PAIRS:
        return 0
    share = _share(text)
    number = sum(_fraction(pair[0]) < share for pair in text)
    return number if number < len(text) else 0  # all: one sentence repeated throughout


def hold_out(text: TextFiles, folder: Path) -> None:
    """Split a text into two, `train` and `valid`.

    A digest of the first side decides, so that all pairs of one sentence go to the same part, and
    repeated calls give the same split.

    Args:
        text: the text, with its word alignments; pairs with an empty side are dropped.
        folder: where to write.

    Raises:
        UsageError: the text cannot be read, or the folder cannot be written.
        UsageError: the text cannot be read, or the folder not written.
    """
    paths = [folder / f"{part}.{ending}" for part in (TRAIN, VALID) for ending in text.endings]
    share = _share(text)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(*paths) as partial, ExitStack() as files:
            opened = [files.enter_context(path.open("w", encoding="utf-8")) for path in partial]
            for pair in text:
                part = opened[len(pair) :] if _fraction(pair[0]) < share else opened
                for file, side in zip(part, pair, strict=False):
                    file.write(f"{side}\n")


def _share(text: TextFiles) -> float:
    return min(_SHARE, _MOST_PAIRS / len(text))


def _fraction(text: str) -> float:
    """A number from 0 to 1 that depends on the text, ignoring case and outer spaces."""
    digest = hashlib.sha256(text.strip().casefold().encode()).digest()
    return int.from_bytes(digest[:8]) / 2**64
