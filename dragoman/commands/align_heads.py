"""`dragoman align-heads`: choose the attention heads that give a bundle's word alignments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman_export.heads.alignment_heads import Evidence

    from dragoman.kernel.manifest import AlignmentHeads

HELP = "choose the attention heads for a bundle's word alignments, and save them in the bundle"
EXTRA = "export"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("bundle", type=Path, help="folder of a bundle")
    configure_text(parser, "--text", required=True)
    parser.add_argument(
        "--dry-run", action="store_true", help="print the choice, but write nothing"
    )


def configure_text(parser: argparse.ArgumentParser, option: str, required: bool) -> None:
    """Declare the text for choosing heads."""
    parser.add_argument(
        option,
        required=required,
        metavar="PREFIX",
        help="prefix of two text files that were not used for training, such as "
        "tatoeba-en-de/valid",
    )
    parser.add_argument("--data-dir", type=Path, default=Path(), help="folder of the prefix")
    parser.add_argument(
        "--pairs", type=int, default=2000, metavar="N", help="maximum pairs (default: 2000)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the chosen heads, and their quality."""
    choose(
        arguments.bundle,
        arguments.data_dir,
        arguments.text,
        arguments.pairs,
        quiet=arguments.quiet,
        write=not arguments.dry_run,
    )
    return 0


def choose(
    bundle: Path, data_dir: Path, text: str, number: int, quiet: bool, write: bool = True
) -> None:
    """Choose heads, write them into the bundle's manifest, and print their quality."""
    import dataclasses

    from dragoman_export.heads.agreement import look_both_ways
    from dragoman_export.heads.alignment_heads import choose_heads, nominate
    from dragoman_export.heads.anchors import Anchors, TooFewAnchors, find_anchors
    from dragoman_training.text.parallel_text import find_languages, read_pairs
    from rich.console import Console
    from rich.progress import Progress

    from dragoman.kernel.errors import UsageError
    from dragoman.kernel.manifest import Manifest

    if number < 1:
        raise UsageError(f"--pairs {number}: give at least 1")
    manifest = Manifest.load(bundle)
    languages = find_languages(data_dir / text, manifest.languages)[:2]
    directions = [
        direction for direction in manifest.all_directions if set(direction) == set(languages)
    ]
    if not directions:
        raise UsageError(f"--text {text}: the model translates nothing between {list(languages)}")
    src, tgt = directions[0]
    pairs = read_pairs(data_dir / text, (src, tgt))[:number]
    console = Console(stderr=True)
    with Progress(console=console, disable=quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task(text, total=len(pairs) * (3 if len(directions) > 1 else 1))

        def on_progress(done: int) -> None:
            bar.update(task, completed=done)

        evidence: Evidence
        if len(directions) > 1:
            evidence = both_ways = look_both_ways(bundle, pairs, (src, tgt), on_progress)
            anchors: Anchors | None
            try:
                anchors = find_anchors(
                    bundle, pairs, directions, lambda done: on_progress(len(pairs) + done)
                )
            except TooFewAnchors:
                anchors = None
            nominees = nominate(both_ways, anchors, text)
        else:
            evidence = find_anchors(bundle, pairs, directions, on_progress)
            nominees = [choose_heads(evidence, text)]
    if write:
        dataclasses.replace(manifest, alignment=nominees[0]).write(bundle)
    _print(evidence, nominees, text)


def _print(evidence: Evidence, nominees: Sequence[AlignmentHeads], text: str) -> None:
    """Print the quality of each choice, the chosen one first, and of baselines."""
    from dragoman_export.heads.alignment_heads import total_of

    for nominee in nominees:
        heads = ", ".join(f"{layer}.{head}" for layer, head in nominee.heads)
        step = "reads" if nominee.when_read else "generates"
        weights = total_of(evidence, nominee.heads, nominee.when_read)
        print(f"by {nominee.criterion}, layer.head {heads}, at the step that {step} a token:")
        print(f"  {evidence.report(weights)}")
    print("all heads:")
    print(f"  {evidence.report(total_of(evidence, evidence.heads, nominees[0].when_read))}")
    print("diagonal:")
    print(f"  {evidence.report(evidence.diagonal)}")
    print(f"chosen by {nominees[0].criterion} on {text}")
