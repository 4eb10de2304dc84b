"""`dragoman align-heads`: choose the attention heads by which a bundle aligns words."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "choose the attention heads by which a bundle's alignments are told, and write them into it"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("bundle", type=Path, help="folder of a bundle")
    configure_text(parser, "--text", required=True)
    parser.add_argument(
        "--dry-run", action="store_true", help="say what would be chosen, and write nothing"
    )


def configure_text(parser: argparse.ArgumentParser, option: str, required: bool) -> None:
    """Declare by which text heads are chosen."""
    parser.add_argument(
        option,
        required=required,
        metavar="PREFIX",
        help="prefix of two text files that were not trained on, such as tatoeba-en-de/valid",
    )
    parser.add_argument("--data-dir", type=Path, default=Path(), help="where the prefix begins")
    parser.add_argument(
        "--pairs", type=int, default=2000, metavar="N", help="at most so many (default: 2000)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what was chosen, and how good it is."""
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
    """Choose heads, write them into the bundle's manifest, and print how good they are."""
    import dataclasses

    from rich.console import Console
    from rich.progress import Progress

    from dragoman.errors import UsageError
    from dragoman.manifest import Manifest
    from export.alignment_heads import choose_heads, find_anchors
    from training.data import read_pairs

    if number < 1:
        raise UsageError(f"--pairs {number}: give at least 1")
    manifest = Manifest.load(bundle)
    pairs = read_pairs(data_dir / text, manifest.languages)[:number]
    console = Console(stderr=True)
    with Progress(console=console, disable=quiet or not sys.stderr.isatty()) as bar:
        task = bar.add_task(text, total=2 * len(pairs))
        anchors = find_anchors(bundle, pairs, lambda done: bar.update(task, completed=done))
    choice = choose_heads(anchors, text)
    chosen = choice.heads
    if write:
        dataclasses.replace(manifest, alignment=chosen).write(bundle)
    heads = ", ".join(f"{layer}.{head}" for layer, head in chosen.heads)
    step = "reads" if chosen.when_read else "says"
    print(
        f"layer.head {heads}, at the step that {step} a token: {chosen.accuracy:.1%} of "
        f"{chosen.anchors} anchors right on {text}; all heads {choice.all_heads:.1%}, "
        f"diagonal {choice.diagonal:.1%}"
    )
