"""`dragoman train`: from parallel text to a checkpoint."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.commands.folders import check_folder
from dragoman.commands.hub_models import MODEL_HELP, configure_offline, hub_progress
from dragoman.commands.own_text import configure_own_text, own_text
from dragoman.kernel.errors import UsageError
from dragoman.kernel.settings import read_json

if TYPE_CHECKING:
    from dragoman_training.config import DataConfig, RunConfig
    from dragoman_training.steps.processes import Processes

log = logging.getLogger(__name__)

HELP = "train a model on parallel text"
EXTRA = "train"

_TEXT, _GENERAL = "text", "general-text"
"""Folders in that of the run, for a user's text without what is held out, and for that."""


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
    configure_own_text(parser)
    parser.add_argument(
        "--general-text",
        nargs=2,
        type=Path,
        metavar="FILE",
        help="the same, of what a model must not forget; shown as often as that of --text",
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
        metavar="MODEL",
        help=f"whose weights a new run begins with: {MODEL_HELP}",
    )
    configure_offline(parser)


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
        folder = _start_folder(arguments, processes)
        config = _settings(arguments, folder, processes.is_first)
        start = Start(folder, config.model) if folder else None
        config = _divided(config, arguments, processes)
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


def _start_folder(arguments: argparse.Namespace, processes: Processes) -> Path | None:
    """The checkpoint or bundle that a new run begins with; what is elsewhere is fetched first."""
    from dragoman_training.run.checkpoint import former_steps
    from dragoman_training.run.checkpoint_folder import CONFIG

    word: str | None = arguments.start_from
    if former_steps(arguments.out, arguments.resume) or word is None:
        return None
    path = Path(word)
    if (path / CONFIG).is_file() and "model_type" not in read_json(path / CONFIG):
        return path
    from dragoman_export.models.model_source import one_source

    source = one_source(word)
    if source.kind == "checkpoint":
        return path  # reading it tells what is wrong
    arguments.extra = "export"  # it is converted as for serving
    from dragoman_export.models.conversion import Converter
    from dragoman_export.models.model_cache import ModelCache

    # The others wait for the first process's lock, and find the model.
    with hub_progress(arguments.quiet or not processes.is_first) as told:
        return Converter(ModelCache(), told, arguments.offline).bundle(source)


def _settings(arguments: argparse.Namespace, start: Path | None, tell: bool) -> RunConfig:
    """The settings of the run."""
    from dragoman_training.config import RunConfig
    from dragoman_training.run.checkpoint import former_steps
    from dragoman_training.run.checkpoint_folder import CONFIG
    from dragoman_training.run.small_text import settings_for

    finished = former_steps(arguments.out, arguments.resume)
    saved = RunConfig.from_json(finished[-1] / CONFIG) if finished else None
    return settings_for(
        *(arguments.config, arguments.set, _own_data(arguments, saved), arguments.data_dir),
        saved=saved,
        start=RunConfig.from_json(start / CONFIG) if start else None,
        tell=tell,
    )


def _divided(config: RunConfig, arguments: argparse.Namespace, processes: Processes) -> RunConfig:
    """The settings after parts of a user's texts were held out for validation, if they are to be.

    Raises:
        UsageError: the text that is to be divided is not what is trained on.
    """
    for files, name in ((arguments.text, _TEXT), (arguments.general_text, _GENERAL)):
        folder = arguments.out.absolute() / name
        if files and _is_held_out(config.data, folder):
            config = _divided_text(config, files, folder, processes)
    return config


def _divided_text(
    config: RunConfig, files: Sequence[Path], folder: Path, processes: Processes
) -> RunConfig:
    """The settings with what is left of one text in its place."""
    from dragoman_training.text.holding_out import TRAIN, VALID, hold_out, number_held_out
    from dragoman_training.text.parallel_text import TextFiles, find_links

    prefix, languages = own_text(*files)
    train = config.data.train
    if prefix not in (corpus.prefix for corpus in train):
        raise UsageError("--text and data.train: give one of them")
    if processes.is_first:
        links = find_links(Path(prefix), languages) if config.alignment.weight else ()
        text = TextFiles(Path(prefix), languages, links=links)
        hold_out(text, folder)
        log.info(
            "%d of %d pairs are held out for validation, as %s; --valid-text names other text",
            *(number_held_out(text), len(text), folder / VALID),
        )
    processes.wait()
    divided = tuple(
        dataclasses.replace(corpus, prefix=str(folder / TRAIN))
        if corpus.prefix == prefix
        else corpus
        for corpus in train
    )
    return dataclasses.replace(config, data=dataclasses.replace(config.data, train=divided))


def _is_held_out(data: DataConfig, folder: Path) -> bool:
    """Whether a run validates on a part of its own text, which lies there."""
    from dragoman_training.text.holding_out import VALID

    return str(folder / VALID) in (corpus.prefix for corpus in data.valid)


def _own_data(arguments: argparse.Namespace, saved: RunConfig | None) -> dict[str, Any]:
    """Settings of the table `data` for a user's texts; without any to validate on, parts of them.

    A run that is resumed validates on what it did before.
    """
    data: dict[str, Any] = {}
    if arguments.text:
        prefix, languages = own_text(*arguments.text)
        # It takes the place of the recipe's, also where there is none to validate on.
        data = {"languages": languages, "train": [prefix], "valid": []}
        general = _general_data(arguments, prefix, languages)
        data["train"] += general
        out = arguments.out.absolute()
        parts = [(out / _TEXT, prefix), *((out / _GENERAL, one["prefix"]) for one in general)]
        data["valid"] = [part for one in parts for part in _valid_part(*one, languages, saved)]
    elif arguments.general_text:
        raise UsageError("--general-text: give --text too, which it is mixed with")
    if arguments.valid_text:
        prefix, languages = own_text(*arguments.valid_text)
        data["valid"] = [{"prefix": prefix, "languages": languages}]
        if data.get("languages", languages) != languages:
            raise UsageError(f"--text and --valid-text differ in their languages: {languages}")
    return data


def _general_data(
    arguments: argparse.Namespace, own: str, languages: list[str]
) -> list[dict[str, Any]]:
    """The corpus of `--general-text`, of which an epoch shows as many pairs as of a user's own."""
    from dragoman_training.text.parallel_text import TextFiles

    if not arguments.general_text:
        return []
    prefix, found = own_text(*arguments.general_text)
    if set(found) != set(languages):
        raise UsageError(f"--text and --general-text differ in their languages: {found}")
    if prefix == own:
        raise UsageError(f"--text and --general-text are the same: {prefix}")
    pairs = [len(TextFiles(Path(one), languages)) for one in (own, prefix)]
    return [{"prefix": prefix, "weight": pairs[0] / max(pairs[1], 1) or 1.0}]


def _valid_part(
    folder: Path, prefix: str, languages: list[str], saved: RunConfig | None
) -> list[str]:
    """The prefix of what is held out of a text, if that is to be done."""
    from dragoman_training.text.holding_out import VALID, number_held_out
    from dragoman_training.text.parallel_text import TextFiles

    if saved:
        holds_out = _is_held_out(saved.data, folder)
    else:
        holds_out = number_held_out(TextFiles(Path(prefix), languages)) > 0
    return [str(folder / VALID)] if holds_out else []


def _bound_kernel_caches() -> None:
    """Let PyTorch keep the CPU kernels of a step, not those of a thousand shapes.

    Each batch has a shape of its own; kernels that are kept for shapes that do not come again take
    gigabytes, and time (docs/lab-notebook.md). Both are read when torch is loaded.
    """
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
