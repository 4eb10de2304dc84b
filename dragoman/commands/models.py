"""`dragoman models`: manage the cache of models that `dragoman serve` fetched and converted."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dragoman.commands.shared.hub_models import (
    MODEL_HELP,
    configure_languages,
    configure_offline,
    given_languages,
    hub_progress,
)
from dragoman.kernel.errors import CheckFailed

if TYPE_CHECKING:
    from dragoman_export.models.model_cache import CachedModel

HELP = "list, add, remove and verify the cached models of dragoman serve"
EXTRA = "import"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="KIND")
    what = "list the cached models, with their directions"
    listed = kinds.add_parser("list", help=what, description=what)
    listed.add_argument("--json", action="store_true", help="print a JSON array, not a table")
    what = "fetch and convert models without serving them; update them if a hub has newer ones"
    added = kinds.add_parser("add", help=what, description=what)
    added.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"{MODEL_HELP} (default: $DRAGOMAN_MODELS)"
    )
    configure_languages(added)
    configure_offline(added)
    what = "remove models from the cache"
    removed = kinds.add_parser("remove", help=what, description=what)
    removed.add_argument("models", nargs="+", metavar="MODEL", help="name, as it was added")
    what = "check cached models again, and record the result"
    verified = kinds.add_parser("verify", help=what, description=what)
    verified.add_argument(
        "models", nargs="*", metavar="MODEL", help="name, as it was added (default: all)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the subcommand."""
    kinds = {"list": _list, "add": _add, "remove": _remove, "verify": _verify}
    kinds[arguments.kind](arguments)
    return 0


def _list(arguments: argparse.Namespace) -> None:
    from dragoman_export.models.model_cache import ModelCache

    rows = [_described(model) for model in ModelCache().models()]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    if not rows:
        print("no cached models; add one with dragoman models add NAME", file=sys.stderr)
    for row in rows:
        directions = " ".join(row["directions"])
        commit = (row["commit"] or "")[:12]
        size = f"{row['size_bytes'] / 1e6:.0f} MB"
        failed = ", ".join(f"{name} failed" for name in row["failed_precisions"]) or "checked"
        licence = row["licence"] or "see its page"
        print("\t".join((row["model"], directions, size, commit, failed, licence)))


def _described(model: CachedModel) -> dict[str, Any]:
    from dragoman.kernel.manifest import CheckedPrecision, Manifest

    manifest = Manifest.read(model.bundle)  # the cache has checked its files
    precisions: tuple[CheckedPrecision, ...] = ("int8", "fp32")
    return {
        "model": model.record.model,
        "directions": ["-".join(direction) for direction in manifest.all_directions],
        "size_bytes": model.size_bytes,
        "commit": model.record.commit,
        "licence": model.record.licence,
        "checked_against": model.record.reference,
        "failed_precisions": [name for name in precisions if manifest.failed_checks(name)],
        "bundle": str(model.bundle),
    }


def _add(arguments: argparse.Namespace) -> None:
    from dragoman_export.models.conversion import Converter
    from dragoman_export.models.model_cache import ModelCache
    from dragoman_export.models.model_source import find_sources

    sources = [source for word in _given(arguments.models) for source in find_sources(word)]
    languages = given_languages(arguments)
    with hub_progress(arguments.quiet) as on_progress:
        converter = Converter(ModelCache(), on_progress, arguments.offline, languages)
        for source in sources:
            print(converter.add(source), flush=True)


def _given(words: list[str]) -> list[str]:
    """The models of the command line, or else of the environment, which may name none."""
    return words or os.environ.get("DRAGOMAN_MODELS", "").split()


def _remove(arguments: argparse.Namespace) -> None:
    from dragoman_export.models.model_cache import ModelCache
    from dragoman_export.models.model_source import kept_sources

    for word in arguments.models:
        for source in kept_sources(word):
            ModelCache().remove(source)


def _verify(arguments: argparse.Namespace) -> None:
    from dragoman_export.models.conversion import verify_cached
    from dragoman_export.models.model_cache import ModelCache
    from dragoman_export.models.model_source import kept_sources
    from dragoman_serving.engine.compiled.cpu import exact_int8_products

    cache = ModelCache()
    named = [source for word in arguments.models for source in kept_sources(word)]
    models = list(map(cache.need, named)) or cache.models()
    failed = 0
    for model in models:
        report = verify_cached(model, exact_int8_products())
        failed += bool(report.failures)
        for outcome in report.outcomes:
            print(replace(outcome, check=f"{model.record.model}: {outcome.check}"), flush=True)
    if failed:
        raise CheckFailed(f"{failed} of {len(models)} models failed a check")
