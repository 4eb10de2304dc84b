"""`dragoman import-marian`: from an OPUS-MT model, or another of Marian's, to a checkpoint."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.folders import check_folder, configure_force
from dragoman.kernel.errors import UsageError

if TYPE_CHECKING:
    from dragoman_training.marian.hub import Hub
    from dragoman_training.marian.languages import Languages

log = logging.getLogger(__name__)

HELP = "make a checkpoint of an OPUS-MT model, or another of Marian's"
EXTRA = "train"
_ENDPOINT = "HF_ENDPOINT"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "model",
        help="folder of a model as transformers reads it, or a hub's name for one, such as "
        "Helsinki-NLP/opus-mt-en-de",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint to make")
    configure_force(parser)
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
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help=f"of the hub (default: ${_ENDPOINT}, or https://huggingface.co)",
    )
    parser.add_argument(
        "--revision", default="main", help="branch, tag or commit on the hub (default: main)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Import, and print the checkpoint's folder."""
    from dragoman_training.marian.hub import ENDPOINT, Hub, is_hub_name
    from dragoman_training.marian.importing import import_marian, own_files

    from dragoman.kernel import replacement

    check_folder("--out", arguments.out)
    replacement.check_folder(arguments.out, arguments.force, own_files)
    languages = _languages(arguments)
    if Path(arguments.model).is_dir():
        import_marian(Path(arguments.model), arguments.out, languages, force=arguments.force)
    elif is_hub_name(arguments.model):
        endpoint = arguments.endpoint or os.environ.get(_ENDPOINT) or ENDPOINT
        hub = Hub(endpoint, arguments.revision)
        with tempfile.TemporaryDirectory() as folder:
            commit = _fetch(hub, arguments.model, Path(folder), arguments.quiet)
            log.info("%s: --revision %s gives the same files again", arguments.model, commit)
            try:
                import_marian(
                    *(Path(folder), arguments.out, languages, arguments.model),
                    force=arguments.force,
                )
            except UsageError as error:  # of a file that will not be there any more
                raise UsageError(str(error).replace(folder, arguments.model)) from error
    else:
        raise UsageError(
            f"{arguments.model}: there is no such folder, and a hub's names read owner/model"
        )
    print(arguments.out)
    return 0


def _fetch(hub: Hub, name: str, folder: Path, quiet: bool) -> str:
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

        return hub.fetch(name, folder, told)


def _languages(arguments: argparse.Namespace) -> Languages:
    from dragoman_training.marian.languages import Languages

    targets = []
    for word in arguments.target:
        language, separator, tag = word.partition("=")
        targets.append((language, tag if separator else None))
    return Languages(tuple(arguments.source), tuple(targets))
