"""Accuracy of language detection, and how often another language is rejected, by length.

Text in other languages comes from the translations in a wheel, such as Django's, which are short
and in 80 languages. Run from the project's folder:

    pip download --no-deps django
    python -m lab.quality.language_detection --data-dir CORPORA django-*.whl
"""

from __future__ import annotations

import argparse
import gettext
import io
import json
import random
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman_training.text.parallel_text import read_pairs

from dragoman.kernel.language import OtherLanguage, detect_language
from lab.report import markdown_table

KNOWN = ("en", "de", "fr")
TESTS = (
    ("tatoeba-en-de/test", ("en", "de")),
    ("tatoeba-en-fr/test", ("en", "fr")),
    ("flores200/devtest", KNOWN),
    ("ntrex128/test", KNOWN),
)
LENGTHS = ((3, 8), (9, 15), (16, 25), (26, 40), (41, 80))
"""First and last number of characters of each class."""
SAMPLES = 1200
"""Maximum number of texts of a language and length."""
_CATALOG = re.compile(r"/locale/(\w+)/LC_MESSAGES/\w+\.mo$")
_NO_TEXT = re.compile(r"%\(\w+\)[sd]|%[sd]|\{[^}]*\}|<[^>]*>|&\w+;")


def known_texts(folder: Path) -> dict[str, list[str]]:
    """Sentences in the model's languages."""
    found: dict[str, list[str]] = defaultdict(list)
    for prefix, languages in TESTS:
        for pair in read_pairs(folder / prefix, languages):
            for language, text in zip(languages, pair, strict=True):
                found[language].append(text)
    return found


def other_texts(wheel: Path) -> dict[str, list[str]]:
    """Translations in other languages, by the first part of the language code."""
    found: dict[str, list[str]] = defaultdict(list)
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if match := _CATALOG.search(name):
                language = match[1].partition("_")[0]
                catalog = gettext.GNUTranslations(io.BytesIO(files.read(name)))
                found[language] += _translated(catalog)
    return {language: texts for language, texts in found.items() if language not in KNOWN}


def _translated(catalog: gettext.GNUTranslations) -> Iterator[str]:
    for source, target in vars(catalog)["_catalog"].items():
        text = " ".join(_NO_TEXT.sub("", target).split()) if isinstance(target, str) else ""
        if source and target != source and sum(map(str.isalpha, text)) >= LENGTHS[0][0]:
            yield text


def of_length(texts: Sequence[str], least: int, most: int) -> list[str]:
    """Texts of this many characters; longer ones are cut at a space."""
    found = []
    for text in texts:
        cut = text if len(text) <= most else text[: most + 1].rpartition(" ")[0]
        if len(cut) >= least:
            found.append(cut)
    return found[:SAMPLES]


def share(texts: Sequence[str], language: str) -> tuple[float, float]:
    """Shares of texts whose language is detected, and of those that are rejected."""
    right = refused = 0
    for text in texts:
        try:
            right += detect_language(text, KNOWN, KNOWN).language == language
        except OtherLanguage:
            refused += 1
    return right / len(texts), refused / len(texts)


def main() -> None:
    """Print a table, then everything as JSON."""
    parser = argparse.ArgumentParser(prog="python -m lab.quality.language_detection")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the test sets")
    parser.add_argument("wheel", type=Path, help="wheel with translations, such as Django's")
    arguments = parser.parse_args()
    known, others = known_texts(arguments.data_dir), other_texts(arguments.wheel)
    shuffled = random.Random(1).shuffle  # noqa: S311
    rows, results = [], []
    for language, texts in (*known.items(), *sorted(others.items())):
        shuffled(texts)
        row = [language]
        for least, most in LENGTHS:
            chosen = of_length(texts, least, most)
            if not chosen:
                row.append("")
                continue
            right, refused = share(chosen, language)
            result = {"language": language, "characters": [least, most], "texts": len(chosen)}
            results.append({**result, "right": right, "refused": refused})
            is_known = language in KNOWN
            row.append(f"{right:.1%}, {refused:.1%}" if is_known else f"{refused:.0%}")
        rows.append(row)
    print(markdown_table(["language", *(f"{a} to {b}" for a, b in LENGTHS)], rows))
    print(json.dumps(results))


if __name__ == "__main__":
    main()
