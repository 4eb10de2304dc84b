"""A user's own parallel text, given as two files."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.kernel.errors import UsageError


def configure_own_text(
    parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup,
) -> None:
    """Declare the option `--text`."""
    parser.add_argument(
        "--text",
        nargs=2,
        type=Path,
        metavar="FILE",
        help="two text files, line N of one beside line N of the other, that end in the language: "
        "my.en my.de",
    )


def own_text(first: Path, second: Path) -> tuple[str, list[str]]:
    """Prefix and languages of two files such as `my.en` and `my.de.gz`.

    Raises:
        UsageError: their names differ in more than the language.
    """
    names = [Path(p.stem) if p.suffix in (".gz", ".xz") else p for p in (first, second)]
    languages = [name.suffix[1:] for name in names]
    prefixes = {path.parent / name.stem for path, name in zip((first, second), names, strict=True)}
    if len(prefixes) > 1 or not all(languages):
        raise UsageError(f"{first} and {second}: name them alike but for the language: my.en my.de")
    return str(prefixes.pop().absolute()), languages
