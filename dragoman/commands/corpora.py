"""`dragoman corpora`: list and download public parallel corpora."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.shared.folders import check_folder
from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_training.public_text.corpora import Corpus

HELP = "list public parallel corpora, or download them"
EXTRA = "train"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--registry",
        type=Path,
        metavar="FILE",
        help="TOML file with more corpora, in addition to the built-in list",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    kinds = parser.add_subparsers(dest="kind", metavar="fetch")
    what = "download corpora, in the folder layout that recipes use"
    fetch = kinds.add_parser("fetch", help=what, description=what)
    fetch.add_argument(
        "names", nargs="+", metavar="NAME", help="names, from the list of `dragoman corpora`"
    )
    fetch.add_argument("--data-dir", type=Path, required=True, help="folder for the text")


def run(arguments: argparse.Namespace) -> int:
    """List corpora, or download them and print the files."""
    from dragoman_training.public_text.corpora import REGISTRY, read_registry

    known = read_registry([REGISTRY, *([arguments.registry] if arguments.registry else [])])
    if arguments.kind is None:
        for corpus in known.values():
            print(json.dumps(_row(corpus)) if arguments.json else _line(corpus))
        return 0
    for name in arguments.names:
        if name not in known:
            raise UsageError(f"{name}: no such corpus; known: {', '.join(known)}")
    check_folder("--data-dir", arguments.data_dir)
    _fetch(arguments, [known[name] for name in dict.fromkeys(arguments.names)])
    return 0


def _fetch(arguments: argparse.Namespace, corpora: list[Corpus]) -> None:
    from dragoman_training.public_text.fetching import fetch_corpora
    from dragoman_training.transfer import Watch
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    quiet = arguments.quiet or not sys.stderr.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    rates = (TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, *rates, console=Console(stderr=True), disable=quiet) as progress:

        def watch(what: str) -> Watch:
            name = what.rpartition("/")[2] if "://" in what else f"writing {what}"
            bar = progress.add_task(name, total=None)
            return lambda done, total: progress.update(bar, completed=done, total=total)

        for prefix, pairs in fetch_corpora(corpora, arguments.data_dir, watch):
            row = {"prefix": prefix, "pairs": pairs}
            print(json.dumps(row) if arguments.json else f"{prefix}: {pairs} pairs", flush=True)


def _row(corpus: Corpus) -> dict[str, object]:
    return {
        "name": corpus.name,
        "languages": corpus.languages,
        "pairs": corpus.pairs,
        "size_bytes": corpus.size_bytes,
        "licence": corpus.licence,
        "home": corpus.home,
        "prefixes": [prefix for text in corpus.texts for prefix in text.prefixes],
        "pinned": corpus.pinned,
    }


def _line(corpus: Corpus) -> str:
    pairs = f"{corpus.pairs:,}" if corpus.pairs is not None else "?"
    size = f"{corpus.size_bytes / 1e6:,.0f} MB" if corpus.size_bytes is not None else "?"
    languages = "-".join(corpus.languages)
    digest = "" if corpus.pinned else "; its digest is taken from the first download"
    return f"{corpus.name:24} {languages:9} {pairs:>12} pairs {size:>9}  {corpus.licence}{digest}"
