"""The texts of requests, and their lengths."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class TextMix:
    """A summary of the texts that were sent.

    Attributes:
        name: name of their file.
        sha256: digest of all texts, joined by line feeds.
        texts: number of texts.
        characters_p50: median length.
        characters_p90: 90th percentile of the lengths.
        characters_max: length of the longest text.
        characters_mean: mean length; 0: unknown, in files of earlier versions.
    """

    name: str
    sha256: str
    texts: int
    characters_p50: int
    characters_p90: int
    characters_max: int
    characters_mean: float = 0.0

    @classmethod
    def of(cls, name: str, texts: Sequence[str]) -> TextMix:
        """Summarize at least one text."""
        lengths = sorted(map(len, texts))
        return cls(
            name,
            hashlib.sha256("\n".join(texts).encode()).hexdigest(),
            len(texts),
            lengths[(len(lengths) - 1) // 2],
            lengths[(len(lengths) - 1) * 9 // 10],
            lengths[-1],
            sum(lengths) / len(lengths),
        )


def read_texts(file: Path) -> list[str]:
    """Read the non-blank lines of a UTF-8 file, which may be compressed with gzip (`.gz`).

    Raises:
        ValueError: the file cannot be read, is not UTF-8, or has no text.
    """
    try:
        content = file.read_bytes()
        if file.suffix == ".gz":
            content = gzip.decompress(content)
        lines = content.removeprefix(codecs.BOM_UTF8).decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise ValueError(f"{file}: cannot be read: {reason or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not valid UTF-8 at byte {error.start}") from error
    texts = [line.rstrip("\r") for line in lines if line.strip()]
    if not texts:
        raise ValueError(f"{file}: no text in it: give one on each line")
    return texts


def in_batches(texts: Sequence[str], batch_size: int, seed: int) -> list[list[str]]:
    """Returns batches of texts in a random order; the last batch is filled with repeated texts.

    Every text is in one batch before any text is in a second.
    """
    order = list(texts)
    random.Random(seed).shuffle(order)  # noqa: S311  (no secret)
    short = -len(order) % batch_size
    order += [order[i % len(texts)] for i in range(short)]
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
