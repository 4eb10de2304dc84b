"""`dragoman clean`: drop the pairs of a recipe's corpora that are unfit for training."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.shared.folders import check_folder, configure_force
from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.replacement import check_file

if TYPE_CHECKING:
    from dragoman_training.config import CorpusConfig, RunConfig
    from dragoman_training.text.cleaning import Report

HELP = "drop pairs of corpora that are unfit for training, and report the reasons"
EXTRA = "train"

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
        "--data-dir", type=Path, default=Path(), help="folder of the prefixes in the settings"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the text; --data-dir for training"
    )
    configure_force(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object per corpus")


def run(arguments: argparse.Namespace) -> int:
    """Write the cleaned training corpora, and unchanged copies of the validation corpora."""
    from dragoman_training.config import refuse_joined, resolve

    check_folder("--out", arguments.out)
    config = resolve(arguments.config, arguments.set)
    refuse_joined((*config.data.train, *config.data.valid, *config.cleaning.held_out))
    if not config.data.train:
        raise UsageError("data.train is empty: name the text to clean")
    _check_targets(arguments, config)
    reports = _clean_all(arguments, config)
    rows = [dataclasses.asdict(report) for report in reports]
    path = arguments.out / REPORT
    with writing(path):
        path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for row in rows:
        print(json.dumps(row) if arguments.json else _line(row))
    return 0


def _clean_all(arguments: argparse.Namespace, config: RunConfig) -> list[Report]:
    from dragoman_training.text.cleaning import (
        Cleaner,
        HeldOut,
        UntaggedPairs,
        without_tags,
        write_pairs,
    )
    from dragoman_training.text.parallel_text import Pairs, TextFiles, read_sides
    from rich.console import Console
    from rich.progress import Progress

    held_out = []
    for corpus in (*config.data.valid, *config.cleaning.held_out):
        sides = read_sides(arguments.data_dir / corpus.prefix, corpus.languages)
        if corpus in config.data.valid:
            whole = list(zip(*sides.values(), strict=True))
            write_pairs(arguments.out / corpus.prefix, corpus.languages, whole)
        if corpus.strip_tags:
            sides = {language: tuple(map(without_tags, side)) for language, side in sides.items()}
        held_out.append(HeldOut(corpus.prefix, sides))
    cleaner, reports = Cleaner(config.cleaning, held_out), []
    quiet = arguments.quiet or not sys.stderr.isatty()
    with Progress(console=Console(stderr=True), disable=quiet) as progress:
        for corpus in _read(config):
            prefix = arguments.data_dir / corpus.prefix
            pairs: Pairs = TextFiles(prefix, corpus.languages, with_empty=True)
            if corpus.strip_tags:
                pairs = UntaggedPairs(pairs)
            total = min(len(pairs), corpus.max_pairs or len(pairs))
            task = progress.add_task(corpus.prefix, total=total)
            watch = partial(progress.advance, task)
            dropped_lines = _dropped_lines(arguments.data_dir, corpus)
            kept, report = cleaner.clean(corpus, pairs, watch, dropped_lines)
            write_pairs(arguments.out / corpus.prefix, corpus.languages, kept)
            reports.append(report)
    return [*reports, *_write_altered(arguments.out, config)]


def _read(config: RunConfig) -> list[CorpusConfig]:
    """The corpora that are read, not generated from others."""
    return [corpus for corpus in config.data.train if corpus.altered_share is None]


def _dropped_lines(data_dir: Path, corpus: CorpusConfig) -> set[int]:
    if corpus.drop_lines is None:
        return set()
    path = data_dir / corpus.drop_lines
    try:
        return set(map(int, path.read_text(encoding="utf-8").split()))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the corpus {corpus.prefix!r}: drop_lines: {path} is no file of line numbers: {error}"
        ) from error


def _write_altered(out: Path, config: RunConfig) -> list[Report]:
    """Write the corpora that are generated from the cleaned ones."""
    from dragoman_training.text.alterations import Example, altered
    from dragoman_training.text.cleaning import Report, write_pairs
    from dragoman_training.text.parallel_text import read_pairs

    reports = []
    for corpus in config.data.train:
        if corpus.altered_share is None:
            continue
        src, tgt = corpus.languages
        made, read = list[tuple[str, str]](), 0
        for source in _read(config):
            if not {src, tgt} <= set(source.languages) or source.one_way:
                continue
            pairs = read_pairs(out / source.prefix, (src, tgt))
            examples = (Example(src_text, tgt_text, src, tgt) for src_text, tgt_text in pairs)
            made += altered(examples, corpus.altered_share * min(source.weight, 1.0))
            read += len(pairs)
        write_pairs(out / corpus.prefix, corpus.languages, made)
        reports.append(Report(corpus.prefix, corpus.languages, read, len(made)))
    return reports


def _check_targets(arguments: argparse.Namespace, config: RunConfig) -> None:
    """Check that each output file is below --out, is written once, and is not an input file."""
    from dragoman_training.text.cleaning import written_file
    from dragoman_training.text.parallel_text import find_file, other_forms

    if arguments.out.resolve() == arguments.data_dir.resolve():
        raise UsageError(f"--out {arguments.out}: holds the text to be cleaned; name another")
    written = (*config.data.train, *config.data.valid)
    read = {
        file.resolve()
        for corpus in (*written, *config.cleaning.held_out)
        for language in corpus.languages
        if (file := find_file(arguments.data_dir / corpus.prefix, language))
    }
    targets = set[Path]()
    for corpus in written:
        prefix = Path(corpus.prefix)
        if prefix.is_absolute() or ".." in prefix.parts:
            raise UsageError(
                f"the corpus {corpus.prefix!r}: leads out of --out; name its folder by --data-dir"
            )
        for language in corpus.languages:
            target = written_file(arguments.out / prefix, language).resolve()
            if target in read:
                raise UsageError(f"--out {arguments.out}: {target} is an input; name another")
            if target in targets:
                raise UsageError(
                    f"the corpus {corpus.prefix!r}: is named twice with {language!r}, and both "
                    "would be written to one file; name it once, or give it two names by links"
                )
            for other in other_forms(target):
                raise UsageError(
                    f"--out {arguments.out}: {other} exists, and {target.name} and it would "
                    "hide one another; remove it, or name another"
                )
            targets.add(target)
    for target in (*sorted(targets), arguments.out / REPORT):
        check_file(target, arguments.force)


def _line(row: dict[str, object]) -> str:
    dropped = row["dropped"]
    assert isinstance(dropped, dict)
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(dropped.items()))
    kept = f"{row['prefix']}: {row['kept']} of {row['read']} pairs kept"
    return f"{kept}; dropped: {reasons or 'none'}"
