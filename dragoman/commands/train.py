"""`dragoman train`: from parallel text to a checkpoint."""

from __future__ import annotations

import argparse
import logging
import os
from pathlib import Path
from typing import Any

from dragoman.commands.folders import check_folder
from dragoman.kernel.errors import UsageError

HELP = "train a model on parallel text"
EXTRA = "train"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--config",
        type=Path,
        help="TOML file of settings, such as training/dragoman_training/recipes/tatoeba.toml",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="override one setting"
    )
    parser.add_argument(
        "--text",
        nargs=2,
        type=Path,
        metavar="FILE",
        help="two text files, line N of one beside line N of the other, that end in the language: "
        "my.en my.de",
    )
    parser.add_argument(
        "--valid-text", nargs=2, type=Path, metavar="FILE", help="the same, held out for validation"
    )
    parser.add_argument(
        "--data-dir", type=Path, default=Path(), help="where the prefixes in the settings begin"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on from the newest checkpoint")
    parser.add_argument(
        "--start-from",
        type=Path,
        metavar="MODEL",
        help="checkpoint or bundle whose weights a new run begins with",
    )


def run(arguments: argparse.Namespace) -> int:
    """Train, beside other processes where `torchrun` started some, and print the final model."""
    _bound_kernel_caches()
    from dragoman_training.config import resolve
    from dragoman_training.run.trainer import Trainer
    from dragoman_training.steps.processes import LostProcess, join

    check_folder("--out", arguments.out)
    config = resolve(arguments.config, arguments.set, _own_data(arguments))
    processes = join()
    if not processes.is_first:
        logging.getLogger().setLevel(logging.WARNING)
    try:
        options = (config, arguments.data_dir, arguments.out, arguments.resume, processes)
        final = Trainer(*options, arguments.start_from).train()
        if processes.is_first:
            print(final)
    except LostProcess:
        if processes.is_first:
            raise
        return LostProcess.exit_code  # the first one says it for all
    finally:
        processes.leave()
    return 0


def _own_data(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings of the table `data` for one's own text."""
    data: dict[str, Any] = {}
    if arguments.text:
        prefix, languages = _own_text(*arguments.text)
        # It takes the place of the recipe's, also where there is none to validate on.
        data = {"languages": languages, "train": [prefix], "valid": []}
    if arguments.valid_text:
        prefix, languages = _own_text(*arguments.valid_text)
        data["valid"] = [{"prefix": prefix, "languages": languages}]
        if data.get("languages", languages) != languages:
            raise UsageError(f"--text and --valid-text differ in their languages: {languages}")
    return data


def _own_text(first: Path, second: Path) -> tuple[str, list[str]]:
    """Prefix and languages of two files such as `my.en` and `my.de.gz`."""
    names = [Path(p.stem) if p.suffix in (".gz", ".xz") else p for p in (first, second)]
    languages = [name.suffix[1:] for name in names]
    prefixes = {path.parent / name.stem for path, name in zip((first, second), names, strict=True)}
    if len(prefixes) > 1 or not all(languages):
        raise UsageError(f"{first} and {second}: name them alike but for the language: my.en my.de")
    return str(prefixes.pop().absolute()), languages


def _bound_kernel_caches() -> None:
    """Let PyTorch keep the CPU kernels of a step, not those of a thousand shapes.

    Each batch has a shape of its own; kernels that are kept for shapes that do not come again take
    gigabytes, and time (docs/lab-notebook.md). Both are read when torch is loaded.
    """
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
