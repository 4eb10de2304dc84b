"""The toy task that tests train on: the target is the source's words in reverse order."""

from __future__ import annotations

import random
from pathlib import Path

WORDS = ("red", "blue", "green", "black", "white", "pink", "grey", "brown")


def reverse_pairs(number: int, seed: int) -> list[tuple[str, str]]:
    """Sentences of two to six words, each with its reverse."""
    generator = random.Random(seed)
    pairs = []
    for _ in range(number):
        words = generator.choices(WORDS, k=generator.randint(2, 6))
        pairs.append((" ".join(words), " ".join(reversed(words))))
    return pairs


def write_pairs(prefix: Path, pairs: list[tuple[str, str]], languages: tuple[str, str]) -> None:
    """Write `prefix.xx` and `prefix.yy`."""
    for side, language in enumerate(languages):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        prefix.with_name(f"{prefix.name}.{language}").write_text(text, encoding="utf-8")


def write_links(prefix: Path, pairs: list[tuple[str, str]], languages: tuple[str, str]) -> None:
    """Write `prefix.xx-yy.links`: each word and its copy in the reverse."""
    lines = []
    for source, _ in pairs:
        last = len(source.split()) - 1
        lines.append(" ".join(f"{at}-{last - at}" for at in range(last + 1)) + "\n")
    path = prefix.with_name(f"{prefix.name}.{'-'.join(languages)}.links")
    path.write_text("".join(lines), encoding="utf-8")
