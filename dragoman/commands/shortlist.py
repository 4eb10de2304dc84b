"""`dragoman shortlist`: add lexical shortlists to a bundle."""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.shared.folders import check_count, configure_force
from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_export.shortlist import Direction, Texts

    from dragoman.kernel.manifest import Manifest

HELP = "add lexical shortlists to a bundle, for requests with the option shortlist"
EXTRA = "export"

_REPORTED = 2000
"""Pairs per direction in the report."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("bundle", type=Path, help="folder of a bundle")
    parser.add_argument(
        "--text",
        nargs="+",
        required=True,
        metavar="PREFIX",
        help="prefixes of two text files each, such as tatoeba-en-de/train: the training text, "
        "or sentences and their translations by the model",
    )
    parser.add_argument("--data-dir", type=Path, default=Path(), help="folder of the prefixes")
    parser.add_argument(
        "--pairs",
        type=int,
        default=200_000,
        metavar="N",
        help="maximum pairs sampled from each text (default: 200,000)",
    )
    parser.add_argument(
        "--tokens",
        type=int,
        default=50,
        metavar="N",
        help="maximum target tokens of each source token (default: 50)",
    )
    parser.add_argument(
        "--frequent",
        type=int,
        default=100,
        metavar="N",
        help="number of most frequent tokens of each language, listed for all sentences "
        "(default: 100)",
    )
    configure_force(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the shortlists, and print their length and coverage."""
    from dragoman_export.shortlist import add_shortlist
    from dragoman_export.word_translation import ROUNDS
    from rich.console import Console
    from rich.progress import Progress

    from dragoman.kernel.manifest import Manifest

    for option in ("pairs", "tokens", "frequent"):
        check_count(f"--{option}", getattr(arguments, option))
    bundle = arguments.bundle
    manifest = Manifest.load(bundle)
    if manifest.shortlist is not None and not arguments.force:
        raise UsageError(f"{bundle} has shortlists: give --force to replace them")
    texts = _read(arguments, manifest)
    console = Console(stderr=True)
    with Progress(console=console, disable=arguments.quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task("counting", total=len(texts) * ROUNDS)
        manifest = add_shortlist(
            bundle=bundle,
            texts=texts,
            each=arguments.tokens,
            frequent=arguments.frequent,
            force=arguments.force,
            on_progress=lambda: bar.advance(task),
        )
    _print(bundle, manifest, texts)
    return 0


def _read(arguments: argparse.Namespace, manifest: Manifest) -> dict[Direction, Texts]:
    """Reads the texts of each direction of the model."""
    from dragoman_training.text.parallel_text import find_languages, read_some_pairs, some_pairs

    texts: dict[Direction, tuple[list[str], list[str]]] = {}
    for prefix in arguments.text:
        path = arguments.data_dir / prefix
        languages = find_languages(path, manifest.languages)
        pairs = read_some_pairs(path, languages)
        order = some_pairs(len(pairs), arguments.pairs)
        chosen = [pairs[index] for index in itertools.islice(order, arguments.pairs)]
        fitting = [
            direction for direction in manifest.all_directions if set(direction) <= set(languages)
        ]
        if not fitting:
            raise UsageError(f"--text {prefix}: the model translates nothing between {languages}")
        for src, tgt in fitting:
            of_direction = texts.setdefault((src, tgt), ([], []))
            for side, language in zip(of_direction, (src, tgt), strict=True):
                index = languages.index(language)
                side.extend(pair[index] for pair in chosen)
    return dict(texts)


def _print(bundle: Path, manifest: Manifest, texts: dict[Direction, Texts]) -> None:
    """Print the length and coverage of the shortlists of some sentences."""
    from dragoman_export.shortlist import measure
    from dragoman_training.run.checkpoint_folder import SHORTLIST

    size = (bundle / SHORTLIST).stat().st_size
    print(f"{bundle / SHORTLIST}: {size / 1e6:.1f} MB")
    for (src, tgt), (sources, targets) in texts.items():
        some = (sources[:_REPORTED], targets[:_REPORTED])
        coverage = measure(bundle, manifest, some, tgt)
        print(
            f"{src}-{tgt}: {len(sources)} pairs; {coverage.computed:.1%} of the output layer is "
            f"computed, and {coverage.contained:.1%} of the translations' tokens are listed"
        )
