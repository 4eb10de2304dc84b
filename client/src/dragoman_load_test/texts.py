"""The texts that requests are made of, and how long they are."""

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
    """Which texts were sent.

    Attributes:
        name: of their file.
        sha256: of all of them, joined by line feeds.
        texts: how many.
        characters_p50: half of them are at most so long.
        characters_p90: nine tenths are.
        characters_max: the longest.
        characters_mean: their mean; 0: not known, in files of earlier versions.
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
        """The mix of some texts, of which there is at least one."""
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
    """Lines that are not blank, of a file in UTF-8, which may be packed by gzip (`.gz`).

    Raises:
        ValueError: the file cannot be read, is not UTF-8, or holds no text.
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
    """Texts in an order drawn from a seed, so many together; the last batch is filled up.

    All are in one batch before one is in a second.
    """
    order = list(texts)
    random.Random(seed).shuffle(order)  # noqa: S311  (no secret)
    short = -len(order) % batch_size
    order += [order[i % len(texts)] for i in range(short)]
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
