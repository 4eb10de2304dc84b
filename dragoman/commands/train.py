"""`dragoman train`: from parallel text to a checkpoint."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.commands.folders import check_folder
from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_training.config import DataConfig, RunConfig
    from dragoman_training.steps.processes import Processes

log = logging.getLogger(__name__)

HELP = "train a model on parallel text"
EXTRA = "train"

_TEXT = "text"
"""Folder in that of the run, for a user's text without what is held out, and for that."""


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
    from dragoman_training.run.start import Start
    from dragoman_training.run.trainer import Trainer
    from dragoman_training.steps.processes import LostProcess, join

    check_folder("--out", arguments.out)
    processes = join()
    if not processes.is_first:
        logging.getLogger().setLevel(logging.WARNING)
    try:
        config, is_new = _settings(arguments, processes.is_first)
        start = None
        if arguments.start_from and is_new:
            start = Start(arguments.start_from, config.model)
        config = _divided(config, arguments.out, processes)
        options = (config, arguments.data_dir, arguments.out, arguments.resume, processes)
        final = Trainer(*options, start).train()
        if processes.is_first:
            print(final)
    except LostProcess:
        if processes.is_first:
            raise
        return LostProcess.exit_code  # the first one says it for all
    finally:
        processes.leave()
    return 0


def _settings(arguments: argparse.Namespace, tell: bool) -> tuple[RunConfig, bool]:
    """The settings of the run, and whether it is a new one."""
    from dragoman_training.config import RunConfig
    from dragoman_training.run.checkpoint import former_steps
    from dragoman_training.run.checkpoint_folder import CONFIG
    from dragoman_training.run.small_text import settings_for

    finished, start = former_steps(arguments.out, arguments.resume), arguments.start_from
    saved = RunConfig.from_json(finished[-1] / CONFIG) if finished else None
    config = settings_for(
        *(arguments.config, arguments.set, _own_data(arguments, saved), arguments.data_dir),
        saved=saved,
        start=RunConfig.from_json(start / CONFIG) if start and not finished else None,
        tell=tell,
    )
    return config, not finished


def _divided(config: RunConfig, out: Path, processes: Processes) -> RunConfig:
    """The settings after a part of a user's text was held out for validation, if it is to be."""
    from dragoman_training.text.holding_out import TRAIN, VALID, hold_out, number_held_out
    from dragoman_training.text.parallel_text import TextFiles

    data, folder = config.data, out.absolute() / _TEXT
    if not _is_held_out(data, out):
        return config
    if len(data.train) > 1:
        raise UsageError("--text and data.train: give one of them")
    (corpus,) = data.train
    if corpus.prefix == str(folder / TRAIN):  # divided when the run began
        return config
    if processes.is_first:
        text = TextFiles(Path(corpus.prefix), corpus.languages)
        hold_out(text, folder)
        log.info(
            "%d of %d pairs are held out for validation, as %s; --valid-text names other text",
            *(number_held_out(text), len(text), out / _TEXT / VALID),
        )
    processes.wait()
    train = dataclasses.replace(corpus, prefix=str(folder / TRAIN))
    return dataclasses.replace(config, data=dataclasses.replace(data, train=(train,)))


def _is_held_out(data: DataConfig, out: Path) -> bool:
    """Whether a run validates on a part of its own text."""
    from dragoman_training.text.holding_out import VALID

    prefix = str(out.absolute() / _TEXT / VALID)
    return [corpus.prefix for corpus in data.valid] == [prefix]


def _own_data(arguments: argparse.Namespace, saved: RunConfig | None) -> dict[str, Any]:
    """Settings of the table `data` for a user's text; without any to validate on, a part of it.

    A run that is resumed validates on what it did before.
    """
    from dragoman_training.text.holding_out import VALID, number_held_out
    from dragoman_training.text.parallel_text import TextFiles

    data: dict[str, Any] = {}
    if arguments.text:
        prefix, languages = _own_text(*arguments.text)
        # It takes the place of the recipe's, also where there is none to validate on.
        data = {"languages": languages, "train": [prefix], "valid": []}
        if saved:
            holds_out = _is_held_out(saved.data, arguments.out)
        else:
            holds_out = number_held_out(TextFiles(Path(prefix), languages)) > 0
        if holds_out:
            data["valid"] = [str(arguments.out.absolute() / _TEXT / VALID)]
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
