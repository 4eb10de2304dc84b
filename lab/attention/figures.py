"""Draws the figures of docs/attention.md, each with one `dragoman attention` command.

The same model on the same kind of machine gives the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dragoman.cli import main as dragoman
from lab.measurement import BUNDLE, option, program, progress

_ANIMAL = "The animal didn't cross the street because it was too tired."
_TIER = "Das Tier überquerte die Straße nicht, weil es zu müde war."
_MAKE = "They make the lives of many people difficult."
_COMPANY = "The company has lost its name."
_HOUSE = "We saw the big black house yesterday."
FIGURES: dict[str, tuple[str, ...]] = {
    "attention-architecture.svg": ("--figure", "architecture"),
    "attention-positions.svg": ("--figure", "positions"),
    "attention-heads.svg": (_ANIMAL, "--target-language", "de", "--kind", "encoder"),
    "attention-long-distance.svg": (
        *(_MAKE, "--target-language", "de"),
        *("--kind", "encoder", "--layer", "5", "--head", "1", "--token", "2"),
    ),
    "attention-prefix.svg": (
        *("Er hört nie mit dem Rauchen auf.", "--target-language", "en"),
        *("--kind", "encoder", "--layer", "1", "--head", "0", "--token", "2"),
    ),
    "attention-it.svg": (
        *(_ANIMAL, "--target-language", "de"),
        *("--kind", "encoder", "--layer", "5", "--head", "2", "--token", "10"),
    ),
    "attention-its.svg": (
        *(_COMPANY, "--target-language", "de"),
        *("--kind", "encoder", "--layer", "5", "--head", "1", "2", "--token", "5"),
    ),
    "attention-before.svg": (
        *(_ANIMAL, "--target-language", "de"),
        *("--kind", "encoder", "--layer", "4", "--head", "3"),
    ),
    "attention-noun.svg": (
        *(_HOUSE, "--target-language", "de"),
        *("--kind", "encoder", "--layer", "0", "--head", "3"),
    ),
    "attention-decoder.svg": (
        *(_ANIMAL, "--target-language", "de", "--translation", _TIER),
        *("--kind", "decoder", "--layer", "0", "--head", "0"),
    ),
    "attention-cross.svg": (
        *(_ANIMAL, "--target-language", "de", "--translation", _TIER),
        *("--kind", "cross", "--layer", "1", "--head", "3"),
    ),
}
"""Arguments of the command for each file, without the model and the file."""


@program(
    BUNDLE,
    option("--out", type=Path, default=Path("docs/images"), help="folder (default: docs/images)"),
    measures=False,
)
def main(arguments: argparse.Namespace) -> None:
    """Draw all of them."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    with progress(len(FIGURES)) as advance:
        for name, words in FIGURES.items():
            where = ("--model", str(arguments.bundle), "--out", str(arguments.out / name))
            if code := dragoman(["attention", *words, *where, "--force"]):
                raise SystemExit(code)
            advance(name)


if __name__ == "__main__":
    sys.exit(main())
