"""What commands that take models of a hub share: their flags, and the progress of downloads."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman_export.models.model_source import ModelSource
    from dragoman_training.marian.hub import Told
    from dragoman_training.marian.languages import Languages


MODEL_HELP = (
    "a bundle, a folder of bundles, a checkpoint, a folder of a Marian model, or a hub's name of "
    "one, such as Helsinki-NLP/opus-mt-en-de or owner/model@revision"
)
OFFLINE_HELP = "fetch nothing, as with HF_HUB_OFFLINE=1"


def configure_offline(parser: argparse.ArgumentParser) -> None:
    """Declare the flag that forbids to fetch models."""
    parser.add_argument("--offline", action="store_true", help=OFFLINE_HELP)


def configure_languages(parser: argparse.ArgumentParser) -> None:
    """Declare the flags that say which languages a model has."""
    parser.add_argument(
        "--source",
        nargs="+",
        default=(),
        metavar="LANGUAGE",
        help="what requests call the source language (default: what the model's files say)",
    )
    parser.add_argument(
        "--target",
        nargs="+",
        default=(),
        metavar="LANGUAGE",
        help="the same of the target language; of a model with several, those to keep, each with "
        "its tag where that has another name, zh=cmn_Hans, or none, de= (default: all)",
    )


def given_languages(arguments: argparse.Namespace) -> Languages:
    """The languages of `configure_languages`."""
    from dragoman_training.marian.languages import Languages

    targets = []
    for word in arguments.target:
        language, separator, tag = word.partition("=")
        targets.append((language, tag if separator else None))
    return Languages(tuple(arguments.source), tuple(targets))


@contextlib.contextmanager
def hub_progress(quiet: bool) -> Iterator[Told]:
    """A bar for each file that is fetched, on a terminal."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TaskID

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), DownloadColumn())
    with Progress(*columns, console=console, disable=quiet or not sys.stderr.isatty()) as bar:
        tasks: dict[str, TaskID] = {}

        def told(file: str, done: int, size: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=size)
            bar.update(tasks[file], completed=done)

        yield told


def bundles_of(sources: Sequence[ModelSource], offline: bool, quiet: bool) -> list[Path]:
    """The checked bundles of models; what is missing is fetched and converted.

    Raises:
        UsageError: see `Converter.bundle`.
    """
    from dragoman_export.models.conversion import Converter
    from dragoman_export.models.model_cache import ModelCache

    with hub_progress(quiet) as told:
        converter = Converter(ModelCache(), told, offline)
        return [converter.bundle(source) for source in sources]
