"""`dragoman verify`: compare a bundle with PyTorch."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.commands.shared.folders import check_count
from dragoman.kernel.errors import CheckFailed

HELP = "compare a bundle with PyTorch: names, shapes, values, tokens of real sentences"
EXTRA = "export"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("bundle", type=Path, help="folder of a bundle")
    parser.add_argument(
        "--test",
        required=True,
        action="append",
        help="prefix of two text files, such as tatoeba-en-de/test; may be repeated",
    )
    parser.add_argument("--data-dir", type=Path, default=Path(), help="folder of the prefixes")
    parser.add_argument(
        "--record", action="store_true", help="write the result into the bundle's manifest"
    )
    parser.add_argument(
        "--sentences",
        type=int,
        default=200,
        help="number of sentences per prefix, over all its directions (default: 200)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print one line per check; fail if one failed."""
    from dragoman_export.checks import count_failed
    from dragoman_export.parity import verify
    from dragoman_serving.engine.compiled.cpu import exact_int8_products
    from dragoman_training.text.parallel_text import read_directions

    from dragoman.kernel.manifest import Manifest

    check_count("--sentences", arguments.sentences)
    manifest = Manifest.load(arguments.bundle)
    texts: list[tuple[str, str]] = []
    for prefix in arguments.test:
        directions = read_directions(arguments.data_dir / prefix, manifest.all_directions)
        most = max(1, arguments.sentences // len(directions))
        for src, tgt in directions:
            texts += [(text, tgt.language) for text in src.texts[:most]]
    outcomes = []
    for outcome in verify(arguments.bundle, texts):
        print(outcome, flush=True)
        outcomes.append(outcome)
    failed = count_failed(outcomes)
    if arguments.record:
        manifest.record_checks(arguments.bundle, failed, exact_int8_products())
    if number := sum(failed.values()):
        raise CheckFailed(f"{arguments.bundle}: {number} checks failed")
    return 0
