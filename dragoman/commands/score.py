"""`dragoman score`: what a model thinks of given translations, line by line."""

from __future__ import annotations

import argparse
import codecs
import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.commands.asking import configure_server, one_line, open_translator
from dragoman.kernel.errors import DragomanError, UsageError

if TYPE_CHECKING:
    from dragoman_client.pair_scoring import ScoringArguments

HELP = "score given translations, by a bundle or through a running server"

_COLUMNS = 2
_OF_A_PAIR = re.compile(r"(text|target) (\d+) ")
"""How a refusal begins when one pair, and not an option, is at fault."""


@dataclasses.dataclass(frozen=True)
class _Scored:
    """A pair's line of output."""

    score: float
    confidence: float
    token_scores: dict[str, Any] | None
    alignments: str | None

    @property
    def perplexity(self) -> float:
        try:
            return math.exp(-self.confidence)
        except OverflowError:
            return math.inf


_Score = Callable[[Sequence[str], Sequence[str]], list[_Scored]]
"""Scores pairs together."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "bundle", nargs="?", type=Path, help="folder of a bundle; none: the server at --url"
    )
    texts = parser.add_argument_group("texts, a line each")
    texts.add_argument("--source", type=Path, metavar="FILE", help="what was translated")
    texts.add_argument("--target", type=Path, metavar="FILE", help="the translations")
    texts.add_argument("--tsv", type=Path, metavar="FILE", help="both, with a tab between them")
    parser.add_argument("--from", dest="source_language", metavar="LANGUAGE", help="such as en")
    parser.add_argument("--to", dest="target_language", metavar="LANGUAGE", help="such as de")
    parser.add_argument("--length-penalty", type=float, help="of the score (default: the model's)")
    parser.add_argument("--alignments", action="store_true", help="pairs of words, such as 0-0 1-2")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line, with the scores of tokens"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="pairs at once (default: 32)")
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
    return 0


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
        src, tgt = sources[begin : begin + size], targets[begin : begin + size]
        try:
            found = score(src, tgt)
        except DragomanError as error:
            raise type(error)(_by_line(str(error), begin)) from error
        for source, target, one in zip(src, tgt, found, strict=True):
            print(_line(arguments, source, target, one), flush=size == 1)


def _by_line(message: str, begin: int) -> str:
    """A refusal that names a pair by its line."""
    return _OF_A_PAIR.sub(lambda at: f"line {begin + int(at[2]) + 1}: {at[1]} ", message, count=1)


def _line(arguments: argparse.Namespace, source: str, target: str, found: _Scored) -> str:
    if arguments.json:
        row: dict[str, Any] = {"source": source, "target": target, "score": found.score}
        row |= {"confidence": found.confidence, "perplexity": found.perplexity}
        row |= {"token_scores": found.token_scores}
        if found.alignments is not None:
            row["alignments"] = found.alignments
        return json.dumps(row, ensure_ascii=False)
    columns = [f"{found.score:.4f}", f"{found.confidence:.4f}", f"{found.perplexity:.4f}"]
    return "\t".join(columns if found.alignments is None else [*columns, found.alignments])


def _options(arguments: argparse.Namespace) -> ScoringArguments:
    return {
        "source_language": arguments.source_language,
        "target_language": arguments.target_language,
        "length_penalty": arguments.length_penalty,
        "return_token_scores": True if arguments.json else None,
        "return_alignments": "hard" if arguments.alignments else None,
    }


def _by_bundle(arguments: argparse.Namespace, use: Callable[[_Score], None]) -> None:
    from dragoman_serving.request.options import RequestOptions
    from dragoman_serving.translation.translator import Translator

    given = {name: value for name, value in _options(arguments).items() if value is not None}
    options = RequestOptions.from_mapping(given)
    translator = Translator(arguments.bundle)

    def score(sources: Sequence[str], targets: Sequence[str]) -> list[_Scored]:
        begun = translator.score(sources, targets, options)
        return [
            _Scored(
                one.score(begun.plan.alpha),
                one.confidence,
                json.loads(one.token_scores) if arguments.json else None,
                one.alignment,
            )
            for one in begun.future.result()
        ]

    try:
        use(score)
    finally:
        translator.close()


def _through_server(arguments: argparse.Namespace, use: Callable[[_Score], None]) -> None:
    from dragoman_client import InvalidRequest, TranslationError

    options = _options(arguments)
    translator = open_translator(arguments)

    def score(sources: Sequence[str], targets: Sequence[str]) -> list[_Scored]:
        try:
            found = translator.score(sources, targets, **options)
        except TranslationError as error:
            kind = UsageError if isinstance(error, InvalidRequest) else DragomanError
            raise kind(f"{arguments.url}: {one_line(error)}") from error
        except ValueError as error:
            raise UsageError(one_line(error)) from error
        return [
            _Scored(
                one.score,
                one.confidence,
                dataclasses.asdict(one.token_scores) if one.token_scores else None,
                None if one.alignments is None else str(one.alignments),
            )
            for one in found
        ]

    with translator:
        use(score)


def _read(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Sources and targets."""
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
