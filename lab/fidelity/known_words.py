"""Writes the list of words of a language that models know or replace, from parallel texts.

A word is in it if in at least a tenth of its sentences the other side lacks it, such as `Munich`
and `Monday`, or if it is frequent, such as `Berlin`: see `dragoman_serving.fidelity.names`.

Example: python -m lab.fidelity.known_words --language en --limit 150000 --prefix TEXTS/*/train
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

from dragoman_serving.fidelity.names import LISTS, WordList, plain
from dragoman_training.text.parallel_text import iterate_pairs

from lab.measurement import Results, option, positive, program

_WORD = re.compile(r"[^\W\d_]{3,}")
_LEAST_SHARE = 0.1
_LEAST_COUNT = 50
"""A word that so many sentences have is one that models know."""


@program(
    option("--language", required=True, help="of the list"),
    option("--prefix", type=Path, nargs="+", required=True, help="parallel texts"),
    option("--others", nargs="+", default=["de", "en", "fr"], help="languages of other sides"),
    option("--limit", type=positive, default=400_000, help="most pairs of a text"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Count, and write the list into the package."""
    language, in_all, replaced = arguments.language, Counter[str](), Counter[str]()
    for prefix in arguments.prefix:
        named = prefix.parent.name.split("-")
        others = [code for code in arguments.others if code != language and code in named]
        if not others:
            raise SystemExit(f"{prefix}: its folder names no other language")
        for pair in islice(iterate_pairs(prefix, (language, others[0])), arguments.limit):
            own, its = ({*_WORD.findall(plain(text))} for text in pair)
            in_all.update(own)
            replaced.update(own - its)
    words = sorted(
        word
        for word, count in in_all.items()
        if count >= _LEAST_COUNT or replaced[word] >= max(1, _LEAST_SHARE * count)
    )
    path = LISTS / f"{language}.words"
    path.write_bytes(WordList.of(words).bits)
    return {"words": len(words), "bytes": path.stat().st_size}


if __name__ == "__main__":
    sys.exit(main())
