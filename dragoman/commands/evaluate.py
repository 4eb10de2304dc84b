"""`dragoman evaluate`: BLEU and chrF of a checkpoint or bundle on held-out text."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.commands.shared.folders import check_count, check_folder, configure_force
from dragoman.kernel.errors import UsageError, writing
from dragoman.kernel.replacement import check_file

if TYPE_CHECKING:
    from dragoman_training.text.parallel_text import Side

HELP = "measure BLEU and chrF of a checkpoint or bundle on held-out text"
EXTRA = "export"

_CHUNK = 256
"""Sentences per update of the progress bar."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint or a bundle")
    parser.add_argument(
        "--test",
        required=True,
        action="append",
        help="prefix of two text files, such as tatoeba-en-de/test; may be repeated",
    )
    parser.add_argument("--data-dir", type=Path, default=Path(), help="folder of the prefixes")
    parser.add_argument(
        "--direction",
        action="append",
        metavar="SRC-TGT",
        help="such as en-de; may be repeated (default: all that the model was trained for)",
    )
    parser.add_argument(
        "--runtime",
        choices=("torch", "engine"),
        default="torch",
        help="torch: the slow reference implementation in PyTorch; engine: the serving engine, "
        "with a bundle, which gives the same tokens (default: torch)",
    )
    parser.add_argument(
        "--precision",
        choices=("auto", "fp32", "int8"),
        default="auto",
        help="precision of the engine; auto: int8 if the CPU computes it exactly (default: auto)",
    )
    parser.add_argument("--beam-width", type=int, default=4, help="1: greedy search (default: 4)")
    parser.add_argument("--length-penalty", type=float, help="(default: the model's)")
    parser.add_argument(
        "--shortlist",
        action="store_true",
        help="use the bundle's lexical shortlists; needs --runtime engine",
    )
    parser.add_argument("--first", type=int, help="only the first N sentences of each direction")
    parser.add_argument(
        "--out", type=Path, help="folder for the translations, one file per direction"
    )
    configure_force(parser)
    parser.add_argument(
        "--record", action="store_true", help="write the scores into the bundle's manifest"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per direction")


@dataclasses.dataclass(frozen=True)
class _System:
    """A system that translates. `translate` also returns whether each translation is complete."""

    directions: Sequence[Sequence[str]]
    precision: str
    reason_against: Callable[[str, str], str | None]
    """The reason why it cannot translate a text into a language; None: it can."""
    translate: Callable[[Sequence[str], str, str], list[tuple[str, bool]]]


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each test set and direction."""
    from dragoman_training.text.parallel_text import read_directions

    check_count("--first", arguments.first)
    if arguments.out:
        check_folder("--out", arguments.out)
    if arguments.shortlist and arguments.runtime != "engine":
        raise UsageError("--shortlist: give --runtime engine too")
    if arguments.record:
        _refuse_partial_record(arguments)
    system = (_oracle if arguments.runtime == "torch" else _engine)(arguments)
    requested = _asked(arguments, system)
    tests = {
        prefix: read_directions(arguments.data_dir / prefix, requested, arguments.first)
        for prefix in arguments.test
    }
    for prefix, directions in tests.items():
        for src, tgt in directions:
            _check_texts(system, prefix, src, tgt.language)
            if arguments.out:
                check_file(_file(arguments.out, prefix, src, tgt), arguments.force)
    if arguments.out:
        with writing(f"--out {arguments.out}"):
            arguments.out.mkdir(parents=True, exist_ok=True)
    for prefix, directions in tests.items():
        for src, tgt in directions:
            _evaluate(arguments, system, prefix, src, tgt)
    return 0


def _refuse_partial_record(arguments: argparse.Namespace) -> None:
    """Refuse settings that a record does not name: it has only the test set and the beam width."""
    from dragoman.kernel.manifest import Manifest

    if arguments.shortlist:
        raise UsageError("--record: records scores of the whole vocabulary; leave out --shortlist")
    if arguments.first is not None:
        raise UsageError("--record: records scores of a whole test set; leave out --first")
    own = Manifest.load(arguments.checkpoint).limits.length_penalty
    if arguments.length_penalty not in (None, own):
        raise UsageError(
            f"--record: records scores with the model's own length penalty, {own}; "
            "leave out --length-penalty"
        )


def _asked(arguments: argparse.Namespace, system: _System) -> Sequence[Sequence[str]]:
    """The directions to evaluate."""
    if not arguments.direction:
        return system.directions
    known = {"-".join(direction): direction for direction in system.directions}
    for name in arguments.direction:
        if name not in known:
            raise UsageError(f"--direction {name}: the model knows {', '.join(known)}")
    return [known[name] for name in arguments.direction]


def _check_texts(system: _System, prefix: str, src: Side, target: str) -> None:
    for number, text in enumerate(src.texts, start=1):
        if reason := system.reason_against(text, target):
            raise UsageError(f"{prefix}: sentence {number} in {src.language!r} {reason}")


def _file(out: Path, prefix: str, src: Side, tgt: Side) -> Path:
    """Where the translations of a test set go."""
    name = ".".join(part for part in Path(prefix).parts if part not in ("/", ".."))
    return out / f"{name}.{src.language}-{tgt.language}.txt"


def _evaluate(
    arguments: argparse.Namespace, system: _System, prefix: str, src: Side, tgt: Side
) -> None:
    """One test set in one direction."""
    from dragoman_training.run.evaluation import measure
    from rich.console import Console
    from rich.progress import track

    from dragoman.kernel.manifest import Manifest

    direction = f"{src.language}-{tgt.language}"
    hypotheses: list[tuple[str, bool]] = []
    for chunk in track(
        [src.texts[i : i + _CHUNK] for i in range(0, len(src.texts), _CHUNK)],
        description=f"{prefix} {direction}",
        console=Console(stderr=True),
        disable=arguments.quiet or not sys.stderr.isatty(),
    ):
        hypotheses += system.translate(chunk, src.language, tgt.language)
    quality = measure([text for text, _ in hypotheses], tgt.texts)
    cut = sum(not complete for _, complete in hypotheses)
    if arguments.out:
        path = _file(arguments.out, prefix, src, tgt)
        with writing(f"--out {path}"):
            path.write_text("".join(f"{text}\n" for text, _ in hypotheses), "utf-8")
    if arguments.record:
        name = f"{prefix} {direction}, beam {arguments.beam_width}, {system.precision}"
        measured = {f"BLEU {name}": quality.bleu, f"chrF {name}": quality.chrf}
        Manifest.load(arguments.checkpoint).record(arguments.checkpoint, measured)
    if arguments.json:
        row = {"test": prefix, "direction": direction, "sentences": len(src.texts), "cut": cut}
        row["precision"] = system.precision
        print(json.dumps({**row, **dataclasses.asdict(quality)}), flush=True)
        return
    print(
        f"{prefix} {direction}: BLEU {quality.bleu:.1f} ({quality.bleu_signature}), "
        f"chrF {quality.chrf:.1f} ({quality.chrf_signature}), "
        f"{len(src.texts)} sentences, {cut} cut at the length limit, {system.precision}",
        flush=True,
    )


def _oracle(arguments: argparse.Namespace) -> _System:
    """PyTorch, with the reference search."""
    from dragoman_training.oracle.search import Translator
    from dragoman_training.run.checkpoint import load

    checkpoint = load(arguments.checkpoint)
    limits = checkpoint.limits
    if not 1 <= arguments.beam_width <= limits.max_beam_width:
        raise UsageError(f"--beam-width {arguments.beam_width}: give 1 to {limits.max_beam_width}")
    translator = Translator(
        checkpoint.model,
        checkpoint.tokenizer,
        limits,
        beam_width=arguments.beam_width,
        alpha=arguments.length_penalty,
    )

    def translate(texts: Sequence[str], _source: str, target: str) -> list[tuple[str, bool]]:
        hypotheses = translator.translate(texts, target)
        return [(checkpoint.tokenizer.target.decode(h.ids), h.complete) for h in hypotheses]

    return _System(checkpoint.config.directions, "fp32", lambda _text, _target: None, translate)


def _engine(arguments: argparse.Namespace) -> _System:
    """The serving engine with a bundle."""
    from dragoman_options.arguments import OptionArguments
    from dragoman_serving.engine.settings import EngineSettings
    from dragoman_serving.translation.translator import Translator

    settings = EngineSettings(precision=arguments.precision)
    translator = Translator(arguments.checkpoint, settings)
    tokenizer = translator.manifest.open_tokenizer(arguments.checkpoint)
    most = translator.manifest.limits.max_source_tokens

    def reason_against(text: str, target: str) -> str | None:
        if not tokenizer.encode(text):
            return "has no character that the model knows"
        tokens = len(tokenizer.encode_source(text, target))
        return f"has {tokens} tokens, more than the engine's {most}" if tokens > most else None

    def translate(texts: Sequence[str], source: str, target: str) -> list[tuple[str, bool]]:
        options = OptionArguments(
            source_language=source,
            target_language=target,
            beam_width=arguments.beam_width,
            length_penalty=arguments.length_penalty,
            split_sentences=False,  # a line is a sentence
            repair=False,  # measure the model itself
            shortlist=arguments.shortlist,
        )
        return [
            (translation.text, translation.complete)
            for translation in translator.translate(texts, options)
        ]

    precision = translator.layout.precision
    return _System(translator.manifest.all_directions, precision, reason_against, translate)
