"""`dragoman export`: from a checkpoint to a bundle of ONNX graphs."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "make a bundle of ONNX graphs out of a checkpoint"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint")
    parser.add_argument("--out", type=Path, required=True, help="folder of the bundle to make")
    parser.add_argument(
        "--storage",
        choices=("fp32", "fp16"),
        default="fp32",
        help="precision of the weights on disk; the graphs compute in fp32 (default: fp32)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Export, and print the bundle's folder."""
    from export.bundle import export_bundle

    export_bundle(arguments.checkpoint, arguments.out, arguments.storage)
    print(arguments.out)
    return 0
