"""`dragoman import-marian`: convert an OPUS-MT or other Marian model to a checkpoint."""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path

from dragoman.commands.folders import check_folder, configure_force
from dragoman.commands.hub_models import (
    configure_languages,
    configure_offline,
    given_languages,
    hub_progress,
)
from dragoman.kernel.errors import UsageError

log = logging.getLogger(__name__)

HELP = "convert an OPUS-MT or other Marian model to a checkpoint"
EXTRA = "train"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "model",
        help="folder of a model in the format of transformers, or its name on a hub, such as "
        "Helsinki-NLP/opus-mt-en-de",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint to make")
    configure_force(parser)
    configure_languages(parser)
    configure_offline(parser)
    parser.add_argument(
        "--endpoint",
        metavar="URL",
        help="URL of the hub (default: $HF_ENDPOINT, or https://huggingface.co)",
    )
    parser.add_argument(
        "--revision", default="main", help="branch, tag or commit on the hub (default: main)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Import, and print the checkpoint's folder."""
    from dragoman_training.marian.hub import Hub, is_hub_name
    from dragoman_training.marian.importing import import_marian, own_files
    from dragoman_training.marian.settings import refuse_own_format

    from dragoman.kernel import replacement

    check_folder("--out", arguments.out)
    replacement.check_folder(arguments.out, arguments.force, own_files)
    languages = given_languages(arguments)
    path = Path(arguments.model)
    if path.is_file():
        refuse_own_format(path)
    if path.is_dir():
        import_marian(path, arguments.out, languages, force=arguments.force)
    elif is_hub_name(arguments.model):
        hub = Hub.of_environment(arguments.revision, arguments.endpoint, arguments.offline)
        with tempfile.TemporaryDirectory() as folder:
            with hub_progress(arguments.quiet) as told:
                commit = hub.fetch(arguments.model, Path(folder), told).commit
            log.info("%s: --revision %s gives the same files again", arguments.model, commit)
            try:
                import_marian(
                    *(Path(folder), arguments.out, languages, arguments.model),
                    force=arguments.force,
                )
            except UsageError as error:  # it may name the temporary folder
                raise UsageError(str(error).replace(folder, arguments.model)) from error
    else:
        raise UsageError(
            f"{arguments.model}: no such folder, and a hub's names have the form owner/model"
        )
    print(arguments.out)
    return 0
