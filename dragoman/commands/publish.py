"""`dragoman publish`: make a Triton model repository from a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from dragoman.commands.shared.folders import check_folder, configure_force

HELP = "make a Triton model repository from a bundle"
EXTRA = "serve"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("bundle", type=Path, help="folder of a bundle")
    parser.add_argument("--to", type=Path, required=True, help="folder of the repository to make")
    configure_force(parser)


def run(arguments: argparse.Namespace) -> int:
    """Publish, and print how to serve the repository."""
    from dragoman_export.publishing import publish

    check_folder("--to", arguments.to.parent)
    publish(arguments.bundle, arguments.to, arguments.force)
    print(f"{arguments.to}: serve it with: dragoman serve --repository {arguments.to}")
    return 0
