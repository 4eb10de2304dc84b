"""`dragoman score`: score given translations with a model, line by line."""

from __future__ import annotations

import argparse
import codecs
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dragoman.commands.shared.asking import (
    configure_server,
    one_line,
    open_translator,
    server_error,
)
from dragoman.commands.shared.options import configure_options, flag, given_options
from dragoman.kernel.errors import InvalidRequest, UsageError

if TYPE_CHECKING:
    from dragoman_client import PairScore
    from dragoman_options.arguments import ScoringArguments
    from dragoman_serving.scoring.assessment import Assessment

HELP = "score given translations with a bundle or a running server"
EXTRA = "serve"

_COLUMNS = 2
_SCORES = 3
"""Number of columns of the output: score, mean log-probability and perplexity."""
_log = logging.getLogger(__name__)


_Score = Callable[[Sequence[str], Sequence[str]], "list[PairScore]"]
"""Scores sources and targets as one batch."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "bundle", nargs="?", type=Path, help="folder of a bundle (default: the server at --url)"
    )
    texts = parser.add_argument_group("texts, one per line")
    texts.add_argument("--source", type=Path, metavar="FILE", help="source texts")
    texts.add_argument("--target", type=Path, metavar="FILE", help="their translations")
    texts.add_argument("--tsv", type=Path, metavar="FILE", help="both, separated by a tab")
    configure_options(parser, "score")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object per line, with token scores"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="pairs per batch (default: 32)")
    configure_server(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print score, mean log-probability and perplexity of each pair."""
    if arguments.batch_size < 1:
        raise UsageError(f"--batch-size {arguments.batch_size}: give at least 1")
    sources, targets = _read(arguments)
    by_server = arguments.bundle is None
    (_through_server if by_server else _by_bundle)(
        arguments, lambda score: _print_all(arguments, sources, targets, score)
    )
    empty = sum(_empty_side(*pair) is not None for pair in zip(sources, targets, strict=True))
    if empty:
        _log.error("%d of %d pairs have an empty side and were not scored", empty, len(sources))
    return 1 if empty else 0


def _print_all(
    arguments: argparse.Namespace, sources: Sequence[str], targets: Sequence[str], score: _Score
) -> None:
    from rich.console import Console
    from rich.progress import track

    size = arguments.batch_size
    for begin in track(
        range(0, len(sources), size),
        description="pairs",
        console=Console(stderr=True),
        disable=arguments.quiet or not sys.stderr.isatty() or sys.stdout.isatty(),
    ):
        rows = range(begin, min(begin + size, len(sources)))
        whole = [row for row in rows if _empty_side(sources[row], targets[row]) is None]
        try:
            scored = (
                score([sources[row] for row in whole], [targets[row] for row in whole])
                if whole
                else []
            )
        except InvalidRequest as error:
            raise UsageError(_by_line(error, whole)) from error
        scores = dict(zip(whole, scored, strict=True))
        for row in rows:
            line = _line(arguments, row + 1, sources[row], targets[row], scores.get(row))
            print(line, flush=size == 1)


def _empty_side(source: str, target: str) -> str | None:
    """The name of the side that is empty while the other is not."""
    if bool(source.strip()) == bool(target.strip()):
        return None
    return "target" if source.strip() else "source"


def _by_line(error: InvalidRequest, rows: Sequence[int]) -> str:
    """The message of a refused pair, which names its line instead of its index in the batch."""
    if (index := error.text_index) is None:
        return str(error)
    side = "target" if error.option == "target_input" else "text"
    return str(error).replace(f"{side} {index} ", f"line {rows[index] + 1}: {side} ", 1)


def _line(
    arguments: argparse.Namespace, number: int, source: str, target: str, score: PairScore | None
) -> str:
    from dragoman_client.files.line_formats import answer_as_json

    if score is None:
        reason = f"the {_empty_side(source, target)} is empty"
        _log.warning("line %d: %s, so it has no score", number, reason)
        if arguments.json:
            members = {"source": source, "target": target, "error": reason}
            return json.dumps(members, ensure_ascii=False)
        return "\t" * (_SCORES - 1)
    if arguments.json:
        row: dict[str, Any] = {"source": source, "target": target, "score": score.score}
        row |= {"confidence": score.confidence, "perplexity": score.perplexity}
        return json.dumps(row | answer_as_json(score), ensure_ascii=False)
    columns = [f"{score.score:.4f}", f"{score.confidence:.4f}", f"{score.perplexity:.4f}"]
    return "\t".join([*columns, *[str(score.alignments)] * (score.alignments is not None)])


def _options(arguments: argparse.Namespace) -> ScoringArguments:
    from dragoman_options.table import OPTIONS, SCORE, check

    given = given_options(arguments)
    if arguments.json and "return_token_scores" not in given:
        given["return_token_scores"] = True
    try:
        options = cast("ScoringArguments", check(given, SCORE))
    except ValueError as error:
        raise UsageError(one_line(error)) from error
    if arguments.json:
        return options
    for name in options:
        if OPTIONS[name].output not in (None, "alignments"):
            raise UsageError(f"{flag(name)}: only --json shows it")
    if options.get("return_alignments") == "soft":
        raise UsageError(f"{flag('return_alignments')} soft: only --json shows it")
    return options


def _by_bundle(arguments: argparse.Namespace, use: Callable[[_Score], None]) -> None:
    from dragoman_serving.translation.translator import Translator

    options = _options(arguments)
    translator = Translator(arguments.bundle)
    bundle = translator.manifest.identity

    def score(sources: Sequence[str], targets: Sequence[str]) -> list[PairScore]:
        begun = translator.score(sources, targets, options)
        alpha = begun.plan.alpha
        return [
            _pair_score(assessment, alpha, options, bundle) for assessment in begun.future.result()
        ]

    try:
        use(score)
    finally:
        translator.close()


def _pair_score(
    assessment: Assessment, alpha: float, options: ScoringArguments, bundle: str
) -> PairScore:
    """The scores of a pair with the requested outputs, as from the client."""
    from dragoman_client import PairScore
    from dragoman_options.table import OUTPUTS, requested_outputs
    from dragoman_serving.service.answers import OF_ASSESSMENTS

    fields: dict[str, Any] = {}
    for name in requested_outputs(options):
        if (value_of := OF_ASSESSMENTS.get(name)) is not None:
            codec = OUTPUTS[name].codec
            fields[OUTPUTS[name].field] = codec.parse(codec.element(value_of(assessment)), options)
    if "return_bundle" in options:
        fields["bundle"] = bundle
    return PairScore(score=assessment.score(alpha), confidence=assessment.confidence, **fields)


def _through_server(arguments: argparse.Namespace, use: Callable[[_Score], None]) -> None:
    from dragoman_client import TranslationError

    options = _options(arguments)
    translator = open_translator(arguments)

    def score(sources: Sequence[str], targets: Sequence[str]) -> list[PairScore]:
        try:
            return translator.score(sources, targets, **options)
        except TranslationError as error:
            raise server_error(arguments.url, error) from error
        except ValueError as error:
            raise UsageError(one_line(error)) from error

    with translator:
        use(score)


def _read(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Reads sources and targets."""
    source, target, tsv = arguments.source, arguments.target, arguments.tsv
    if (tsv is None) == (source is None) or (source is None) != (target is None):
        raise UsageError("give --source and --target, or --tsv")
    if tsv is None:
        sources, targets = _read_lines(source), _read_lines(target)
        if len(sources) != len(targets):
            raise UsageError(
                f"{source} has {len(sources)} lines, {target} {len(targets)}: "
                "give a translation for each"
            )
        return sources, targets
    rows = [line.split("\t") for line in _read_lines(tsv)]
    for number, row in enumerate(rows, start=1):
        if len(row) != _COLUMNS:
            raise UsageError(f"{tsv}: line {number} has {len(row)} columns: give 2")
    return [row[0] for row in rows], [row[1] for row in rows]


def _read_lines(path: Path) -> list[str]:
    try:
        lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").split(b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    decoded = []
    for number, line in enumerate(lines, start=1):
        try:
            decoded.append(line.decode("utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: line {number} is not UTF-8") from error
    return decoded
