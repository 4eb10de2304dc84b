"""`dragoman import-marian`: convert an OPUS-MT, Firefox or other Marian model to a checkpoint."""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path

from dragoman.commands.shared.folders import check_folder, configure_force
from dragoman.commands.shared.hub_models import (
    configure_languages,
    configure_offline,
    given_languages,
    hub_progress,
)
from dragoman.kernel.errors import UsageError

log = logging.getLogger(__name__)

HELP = "convert an OPUS-MT, Firefox or other Marian model to a checkpoint"
EXTRA = "train"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "model",
        help="folder of a model in the format of transformers or of Firefox, or its name on a hub, "
        "such as Helsinki-NLP/opus-mt-en-de",
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
    from dragoman_export.models.model_source import is_firefox_name
    from dragoman_training.firefox.student_importing import import_student, is_student
    from dragoman_training.marian.hub import is_hub_name
    from dragoman_training.marian.importing import import_marian, own_files
    from dragoman_training.marian.settings import refuse_own_format

    from dragoman.kernel import replacement

    check_folder("--out", arguments.out)
    replacement.check_folder(arguments.out, arguments.force, own_files)
    languages = given_languages(arguments)
    path = Path(arguments.model)
    if path.is_file():
        refuse_own_format(path)
    if path.is_dir() and is_student(path):
        import_student(path, arguments.out, languages, force=arguments.force)
    elif path.is_dir():
        import_marian(path, arguments.out, languages, force=arguments.force)
    elif is_hub_name(arguments.model) or is_firefox_name(arguments.model):
        with tempfile.TemporaryDirectory() as folder:
            try:
                _import_downloaded(arguments, Path(folder))
            except UsageError as error:  # it may name the temporary folder
                raise UsageError(str(error).replace(folder, arguments.model)) from error
    else:
        raise UsageError(
            f"{arguments.model}: no such folder, and a hub's names have the form owner/model, "
            "Firefox's firefox:en-de"
        )
    print(arguments.out)
    return 0


def _import_downloaded(arguments: argparse.Namespace, folder: Path) -> None:
    """Download a model into a folder, and import it."""
    from dragoman_export.models.model_source import is_firefox_name, one_source
    from dragoman_training.firefox.mozilla import Mozilla
    from dragoman_training.firefox.student_importing import import_student
    from dragoman_training.marian.hub import Hub
    from dragoman_training.marian.importing import import_marian
    from dragoman_training.marian.languages import Languages

    name, out, force = arguments.model, arguments.out, arguments.force
    if not is_firefox_name(name):
        hub = Hub.of_environment(arguments.revision, arguments.endpoint, arguments.offline)
        with hub_progress(arguments.quiet) as on_progress:
            commit = hub.fetch(name, folder, on_progress).commit
        log.info("%s: --revision %s gives the same files again", name, commit)
        import_marian(folder, out, given_languages(arguments), name, force)
        return
    source = one_source(name)
    assert source.pair is not None
    mozilla = Mozilla.of_environment(arguments.offline)
    offer = mozilla.find(name, source.pair, source.architecture, folder)
    with hub_progress(arguments.quiet) as on_progress:
        files = mozilla.fetch(name, offer, folder, on_progress).folder
    languages = Languages(source.pair[:1], ((source.pair[1], None),))
    import_student(files, out, languages, source.name, force)
