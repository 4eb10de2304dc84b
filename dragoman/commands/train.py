"""`dragoman train`: train a model on parallel text."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.commands.shared.folders import check_folder
from dragoman.commands.shared.hub_models import MODEL_HELP, bundles_of, configure_offline
from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_training.config import RunConfig
    from dragoman_training.run.own_text import OwnText

HELP = "train a model on parallel text"
EXTRA = "train"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--config",
        type=Path,
        help="TOML file with settings, such as training/dragoman_training/recipes/tatoeba.toml",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="override one setting"
    )
    parser.add_argument(
        "--text",
        nargs=2,
        type=Path,
        metavar="FILE",
        help="two text files with a sentence and its translation on the same line; their "
        "extensions are the languages: my.en my.de",
    )
    parser.add_argument(
        "--general-text",
        nargs=2,
        type=Path,
        metavar="FILE",
        help="two text files of general text, so that the model stays good at it; mixed with "
        "--text, half and half",
    )
    parser.add_argument(
        "--valid-text", nargs=2, type=Path, metavar="FILE", help="two text files for validation"
    )
    parser.add_argument(
        "--data-dir", type=Path, default=Path(), help="folder of the prefixes in the settings"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="resume from the newest checkpoint")
    parser.add_argument(
        "--start-from",
        metavar="MODEL",
        help=f"model to fine-tune; a new run starts from its weights: {MODEL_HELP}",
    )
    configure_offline(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train, together with other processes of `torchrun`, if any, and print the final model."""
    _bound_kernel_caches()
    from dragoman_training.run.start import Start
    from dragoman_training.run.trainer import Trainer
    from dragoman_training.steps.processes import LostProcess, join

    check_folder("--out", arguments.out)
    processes = join()
    if not processes.is_first:
        logging.getLogger().setLevel(logging.WARNING)
    try:
        texts = _own_texts(arguments)
        folder = _start_folder(arguments, processes.is_first)
        config = _settings(arguments, texts, folder, processes.is_first)
        start = Start(folder, config.model) if folder else None
        for text in texts:
            if text.is_held_out(config.data):
                config = text.hold_out(config, processes)
        options = (config, arguments.data_dir, arguments.out, arguments.resume, processes)
        final = Trainer(*options, start).train()
        if processes.is_first:
            print(final)
    except LostProcess:
        if processes.is_first:
            raise
        return LostProcess.exit_code  # the first process reports the error
    finally:
        processes.leave()
    return 0


def _start_folder(arguments: argparse.Namespace, is_first: bool) -> Path | None:
    """The checkpoint or bundle that a new run starts from; any other model is converted first."""
    from dragoman_export.models.model_source import one_source
    from dragoman_training.run.checkpoint import former_steps

    if arguments.start_from is None or former_steps(arguments.out, arguments.resume):
        return None
    source = one_source(arguments.start_from)
    if source.kind in ("bundle", "checkpoint"):
        return source.path
    arguments.extra = "export"  # converting needs more packages than training
    # Other processes wait for the lock of the first one, and then find the model.
    return bundles_of([source], arguments.offline, arguments.quiet or not is_first)[0]


def _settings(
    arguments: argparse.Namespace, texts: Sequence[OwnText], start: Path | None, tell: bool
) -> RunConfig:
    """The settings of the run."""
    from dragoman_training.config import RunConfig
    from dragoman_training.run.checkpoint import former_steps
    from dragoman_training.run.checkpoint_folder import CONFIG
    from dragoman_training.run.small_text import settings_for

    finished = former_steps(arguments.out, arguments.resume)
    saved = RunConfig.from_json(finished[-1] / CONFIG) if finished else None
    data = _own_data(texts, arguments.valid_text, saved)
    return settings_for(
        recipe=arguments.config,
        words=arguments.set,
        data=data,
        data_dir=arguments.data_dir,
        saved=saved,
        start=RunConfig.from_json(start / CONFIG) if start else None,
        tell=tell,
    )


def _own_texts(arguments: argparse.Namespace) -> list[OwnText]:
    """Returns the user's own text, and then the general text, if they were given."""
    from dragoman_training.run.own_text import OwnText
    from dragoman_training.text.parallel_text import named_files

    given = {"text": arguments.text, "general-text": arguments.general_text}
    if given["general-text"] and not given["text"]:
        raise UsageError("--general-text: give --text too; the two are mixed")
    texts = [
        OwnText(named_files(*files), arguments.out.absolute() / name)
        for name, files in given.items()
        if files
    ]
    if len({frozenset(text.files.languages) for text in texts}) > 1:
        first, second = (" and ".join(text.files.languages) for text in texts)
        raise UsageError(
            f"--text is in {first}, --general-text in {second}: give both in the same languages"
        )
    if len({text.prefix for text in texts}) < len(texts):
        raise UsageError(f"--text and --general-text are the same: {texts[0].prefix}")
    return texts


def _own_data(
    texts: Sequence[OwnText], valid_text: Sequence[Path] | None, saved: RunConfig | None
) -> dict[str, Any]:
    """Returns settings of the table `data` for the user's texts.

    Without a validation text, a part of each text is held out for it. A resumed run keeps its
    validation text.
    """
    from dragoman_training.text.parallel_text import named_files

    data: dict[str, Any] = {}
    if texts:
        # An epoch has as many pairs of the general text as of the user's own text.
        pairs = [max(1, len(text.files)) for text in texts]
        # This replaces the recipe's validation text, even with an empty list.
        data = {
            "languages": list(texts[0].files.languages),
            "train": [
                {"prefix": text.prefix, "weight": pairs[0] / number}
                for text, number in zip(texts, pairs, strict=True)
            ],
            "valid": [text.valid_prefix for text in _held_out(texts, saved)],
        }
    if valid_text:
        files = named_files(*valid_text)
        languages = list(files.languages)
        data["valid"] = [{"prefix": str(files.prefix), "languages": languages}]
        if data.get("languages", languages) != languages:
            raise UsageError(f"--text and --valid-text differ in their languages: {languages}")
    return data


def _held_out(texts: Sequence[OwnText], saved: RunConfig | None) -> Sequence[OwnText]:
    """The texts to hold out a part of: none if the user's own text is too small for that.

    Validation on general text alone would choose the model that was fine-tuned least.
    """
    held_out = [
        text for text in texts if (text.is_held_out(saved.data) if saved else text.has_enough())
    ]
    return held_out if held_out[:1] == texts[:1] else []


def _bound_kernel_caches() -> None:
    """Limit PyTorch's caches of CPU kernels.

    Each batch has a shape of its own. Kernels that are cached for shapes which do not recur take
    gigabytes, and time (docs/lab-notebook.md, "Attention and kernels on a CPU"). PyTorch reads both
    variables when it is loaded.
    """
    for name in ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY"):
        os.environ.setdefault(name, "64")
