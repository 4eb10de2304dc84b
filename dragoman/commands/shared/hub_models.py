"""Flags and download progress of the commands that take models of a hub."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman_export.models.model_source import ModelSource
    from dragoman_training.marian.hub import OnProgress
    from dragoman_training.marian.languages import Languages


MODEL_HELP = (
    "a bundle, a folder of bundles, a checkpoint, a folder of a Marian model, the name of a model "
    "on a hub, such as Helsinki-NLP/opus-mt-en-de or owner/model@revision, or Firefox's models, as "
    "firefox:en-de or firefox:en,de,fr"
)
OFFLINE_HELP = "download nothing, as with HF_HUB_OFFLINE=1"


def configure_offline(parser: argparse.ArgumentParser) -> None:
    """Declare the flag that forbids downloads."""
    parser.add_argument("--offline", action="store_true", help=OFFLINE_HELP)


def configure_languages(parser: argparse.ArgumentParser) -> None:
    """Declare the flags for the languages of a model."""
    parser.add_argument(
        "--source",
        nargs="+",
        default=(),
        metavar="LANGUAGE",
        help="source language, as requests name it (default: from the model's files)",
    )
    parser.add_argument(
        "--target",
        nargs="+",
        default=(),
        metavar="LANGUAGE",
        help="target language, as requests name it; for a model with several, the ones to keep. "
        "Add the tag if it differs from the name, zh=cmn_Hans, or is none, de= (default: all)",
    )


def given_languages(arguments: argparse.Namespace) -> Languages:
    """Returns the languages of `configure_languages`."""
    from dragoman_training.marian.languages import Languages

    targets = []
    for word in arguments.target:
        language, separator, tag = word.partition("=")
        targets.append((language, tag if separator else None))
    return Languages(tuple(arguments.source), tuple(targets))


@contextlib.contextmanager
def hub_progress(quiet: bool) -> Iterator[OnProgress]:
    """Yields a function that shows a progress bar for each download, on a terminal."""
    from rich.console import Console
    from rich.progress import DownloadColumn, Progress, TaskID

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), DownloadColumn())
    with Progress(*columns, console=console, disable=quiet or not sys.stderr.isatty()) as bar:
        tasks: dict[str, TaskID] = {}

        def on_progress(file: str, done: int, size: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=size)
            bar.update(tasks[file], completed=done)

        yield on_progress


def bundles_of(sources: Sequence[ModelSource], offline: bool, quiet: bool) -> list[Path]:
    """Returns checked bundles of models; missing ones are fetched and converted.

    Raises:
        UsageError: see `Converter.bundle`.
    """
    from dragoman_export.models.conversion import Converter
    from dragoman_export.models.model_cache import ModelCache

    with hub_progress(quiet) as on_progress:
        converter = Converter(ModelCache(), on_progress, offline)
        return [converter.bundle(source) for source in sources]
