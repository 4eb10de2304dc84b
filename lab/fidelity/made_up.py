"""Made-up sentences: those of sentences.txt, and numbers in them."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Final

MARKS: Final = {"en": (",", "."), "de": (".", ","), "fr": ("\u202f", ",")}


@cache
def templates(use: str, language: str) -> list[str]:
    """Sentences of a use, in a language.

    Args:
        use: frames, placeholders or numbers.
        language: en, de or fr.
    """
    text = Path(__file__).with_name("sentences.txt").read_text("utf-8")
    _, _, section = text.partition(f"[{use} {language}]\n")
    return section.partition("\n\n")[0].splitlines()


def number_texts(language: str, number: int) -> list[tuple[str, ...]]:
    """Sentences with numbers in the conventions of a language."""
    generator = random.Random(language)  # noqa: S311  (no secret)
    thousands, decimal = MARKS[language]
    marks = str.maketrans({",": thousands, ".": decimal})
    texts = list[tuple[str, ...]]()
    for index in range(number):
        values = {name: str(generator.randint(1850, 2030)) for name in "yz"}
        values |= {"n": str(generator.randint(1, 11)), "m": str(generator.randint(2, 24))}
        values["k"] = str(generator.randint(100, 99999))
        values["t"] = f"{generator.randint(1000, 3_000_000):,}".translate(marks)
        values["d"] = f"{generator.uniform(1, 99):.1f}".translate(marks)
        values["e"] = f"{generator.uniform(1, 9999):,.2f}".translate(marks)
        lines = templates("numbers", language)
        texts.append((lines[index % len(lines)].format(**values),))
    return texts
