"""`dragoman distill`: write a teacher's translations, as training text for a student model."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.commands.shared.folders import check_count, check_folder, configure_force
from dragoman.commands.shared.hub_models import MODEL_HELP, bundles_of, configure_offline

if TYPE_CHECKING:
    from dragoman_training.text.distillation import Task

HELP = "translate a recipe's sources with a teacher, as training text for a student"
EXTRA = "export"

_MOST_CHARACTERS = 3500
"""Maximum length of a source. A chunk of sources of this length fits into one request."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--teacher", required=True, metavar="MODEL", help=MODEL_HELP)
    configure_offline(parser)
    parser.add_argument(
        "--config", type=Path, required=True, help="the recipe that names the corpora"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="override one setting"
    )
    parser.add_argument(
        "--data-dir", type=Path, default=Path(), help="folder of the prefixes in the settings"
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the text; may be --data-dir"
    )
    configure_force(parser)
    parser.add_argument("--beam-width", type=int, default=4, help="1: greedy search (default: 4)")
    parser.add_argument("--length-penalty", type=float, help="(default: the teacher's)")
    parser.add_argument(
        "--best-of",
        type=int,
        default=1,
        metavar="N",
        help="use that of the N best translations which is closest to the reference (default: 1)",
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "int8"),
        default="auto",
        help="auto: int8 if the CPU computes it exactly (default: auto)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per corpus and direction"
    )


class _Engine:
    """A bundle on the serving engine, as a teacher."""

    def __init__(self, bundle: Path, arguments: argparse.Namespace) -> None:
        from dragoman_serving.engine.settings import EngineSettings
        from dragoman_serving.request.plan import plan_request
        from dragoman_serving.translation.translator import Translator

        settings = EngineSettings(precision=arguments.precision)
        self._translator = Translator(bundle, settings)
        manifest = self._translator.manifest
        self._tokenizer = manifest.open_tokenizer(bundle)
        self._most_tokens = manifest.limits.max_source_tokens
        self.directions = manifest.all_directions
        self.candidates: int = arguments.best_of
        self._search: dict[str, Any] = {
            "beam_width": arguments.beam_width,
            "length_penalty": arguments.length_penalty,
            "split_sentences": False,  # a line is a sentence
        }
        # Options that are refused must not be saved in the state that a run resumes from.
        plan = plan_request(self._options(*self.directions[0]), manifest.limits, self._tokenizer)
        files = (manifest.weights, manifest.tokenizer, manifest.tgt_tokenizer)
        self.settings: Mapping[str, object] = {
            "teacher": [manifest.files[name] for name in files if name is not None],
            "precision": self._translator.layout.precision,
            "best_of": self.candidates,
            "beam_width": plan.width,
            "length_penalty": plan.alpha,
        }

    def reason_against(self, text: str, target: str) -> str | None:
        from dragoman_training.text.distillation import TOO_LONG, UNKNOWN

        if len(text) > _MOST_CHARACTERS:
            return TOO_LONG
        # A text without any character of the vocabulary cannot be translated.
        if not self._tokenizer.encode(text):
            return UNKNOWN
        ids = self._tokenizer.encode_source(text, target)
        return TOO_LONG if len(ids) > self._most_tokens else None

    def begin(
        self, texts: Sequence[str], source: str, target: str
    ) -> Callable[[], list[tuple[str, ...]]]:
        begun = self._translator.submit(texts, self._options(source, target)).future

        def wait() -> list[tuple[str, ...]]:
            return [
                tuple(candidate.text for candidate in (best, *best.others) if candidate.complete)
                for best in begun.result()
            ]

        return wait

    def _options(self, source: str, target: str) -> Mapping[str, Any]:
        return {
            "source_language": source,
            "target_language": target,
            "num_return_sequences": self.candidates,
            **self._search,
        }


def run(arguments: argparse.Namespace) -> int:
    """Write the text, and print the counts for each corpus and direction."""
    from dragoman_export.models.model_source import one_source
    from dragoman_training.config import resolve
    from dragoman_training.text.distillation import tasks

    check_folder("--out", arguments.out)
    check_count("--best-of", arguments.best_of)
    config = resolve(arguments.config, arguments.set)
    source = one_source(arguments.teacher)
    (bundle,) = bundles_of([source], arguments.offline, arguments.quiet)
    teacher = _Engine(bundle, arguments)
    for task in tasks(config, arguments.data_dir, arguments.out, teacher.directions):
        counts = _distil(arguments, task, teacher)
        name = str(task.written.relative_to(arguments.out))
        if arguments.json:
            print(json.dumps({"prefix": name, "pairs": counts}), flush=True)
        else:
            summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            print(f"{name}: {summary}", flush=True)
    return 0


def _distil(arguments: argparse.Namespace, task: Task, teacher: _Engine) -> dict[str, int]:
    """Distil one corpus in one direction, with a progress bar."""
    from dragoman_training.text.distillation import distil
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    quiet = arguments.quiet or not sys.stderr.isatty()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeRemainingColumn(), console=Console(stderr=True), disable=quiet
    ) as progress:
        # Counting reads the whole text, so it is done only for a progress bar.
        bar = progress.add_task(task.written.name, total=None if quiet else task.count())
        return distil(
            task=task,
            teacher=teacher,
            watch=lambda sources: progress.update(bar, completed=sources),
            force=arguments.force,
        )
