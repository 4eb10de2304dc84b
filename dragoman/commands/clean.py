"""`dragoman clean`: the pairs of a recipe's corpora that are fit to learn from."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import UsageError

if TYPE_CHECKING:
    from training.cleaning import Report
    from training.config import RunConfig

HELP = "drop the pairs of corpora that are not fit to learn from, and say why"

REPORT = "cleaning.json"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--config", type=Path, required=True, help="the recipe that names corpora and limits"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="override one setting"
    )
    parser.add_argument(
        "--data-dir", type=Path, default=Path(), help="where the prefixes in the settings begin"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the text; --data-dir of the training"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a corpus")


def run(arguments: argparse.Namespace) -> int:
    """Write the corpora that are learnt from, cleaned, and those that are held out, as they are."""
    from training.config import resolve

    config = resolve(arguments.config, arguments.set)
    reports = _clean_all(arguments, config)
    rows = [dataclasses.asdict(report) for report in reports]
    path = arguments.out / REPORT
    try:
        path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    for row in rows:
        print(json.dumps(row) if arguments.json else _line(row))
    return 0


def _clean_all(arguments: argparse.Namespace, config: RunConfig) -> list[Report]:
    from rich.console import Console
    from rich.progress import Progress

    from training.cleaning import Cleaner, write_pairs
    from training.data import read_all_pairs, read_pairs

    if arguments.out.resolve() == arguments.data_dir.resolve():
        raise UsageError(f"--out {arguments.out}: holds the text to be cleaned, name another")
    held_out = defaultdict[str, list[str]](list)
    for corpus in (*config.data.valid, *config.cleaning.held_out):
        pairs: Sequence[Sequence[str]] = read_pairs(
            arguments.data_dir / corpus.prefix, corpus.languages
        )
        if corpus in config.data.valid:
            write_pairs(arguments.out / corpus.prefix, corpus.languages, pairs)
        for language, side in zip(corpus.languages, zip(*pairs, strict=True), strict=True):
            held_out[language] += side
    cleaner, reports = Cleaner(config.cleaning, held_out), []
    quiet = arguments.quiet or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), disable=quiet) as progress:
        for corpus in config.data.train:
            pairs = read_all_pairs(arguments.data_dir / corpus.prefix, corpus.languages)
            total = min(len(pairs), corpus.max_pairs or len(pairs))
            task = progress.add_task(corpus.prefix, total=total)
            kept, report = cleaner.clean(corpus, pairs, partial(progress.advance, task))
            write_pairs(arguments.out / corpus.prefix, corpus.languages, kept)
            reports.append(report)
    return reports


def _line(row: dict[str, object]) -> str:
    dropped = row["dropped"]
    assert isinstance(dropped, dict)
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
    kept = f"{row['prefix']}: {row['kept']} of {row['read']} pairs kept"
    return f"{kept}; dropped: {reasons or 'none'}"
