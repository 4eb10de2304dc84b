"""`dragoman evaluate`: BLEU and chrF of a checkpoint on held-out text, with PyTorch."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from dragoman.errors import UsageError

HELP = "measure a checkpoint's BLEU and chrF on held-out text"

_CHUNK = 256
"""Sentences between two steps of the progress bar."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("checkpoint", type=Path, help="folder of a checkpoint or a bundle")
    parser.add_argument(
        "--test",
        required=True,
        action="append",
        help="prefix of two text files, such as tatoeba-en-de/test; may be given again",
    )
    parser.add_argument("--data-dir", type=Path, default=Path(), help="where the prefixes begin")
    parser.add_argument("--beam-width", type=int, default=4, help="1: greedy (default: 4)")
    parser.add_argument("--length-penalty", type=float, default=0.6, help="default: 0.6")
    parser.add_argument("--first", type=int, help="only so many sentences a direction")
    parser.add_argument("--out", type=Path, help="folder for the translations, a file a direction")
    parser.add_argument(
        "--record", action="store_true", help="write the scores into the bundle's manifest"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a direction")


def run(arguments: argparse.Namespace) -> int:
    """Print one line a test set and direction."""
    from rich.console import Console
    from rich.progress import track

    from dragoman.manifest import Limits, Manifest
    from training.checkpoint import load
    from training.data import read_pairs
    from training.evaluation import measure
    from training.search import Translator

    limits = Limits()
    if not 1 <= arguments.beam_width <= limits.max_beam_width:
        raise UsageError(f"--beam-width {arguments.beam_width}: give 1 to {limits.max_beam_width}")
    checkpoint = load(arguments.checkpoint)
    translator = Translator(
        *(checkpoint.model, checkpoint.tokenizer, limits),
        beam_width=arguments.beam_width,
        alpha=arguments.length_penalty,
    )
    languages = checkpoint.config.data.languages
    for prefix in arguments.test:
        pairs = read_pairs(arguments.data_dir / prefix, languages)[: arguments.first]
        for src in range(len(languages)):
            tgt = 1 - src
            direction = f"{languages[src]}-{languages[tgt]}"
            chunks = [pairs[i : i + _CHUNK] for i in range(0, len(pairs), _CHUNK)]
            hypotheses = []
            for chunk in track(
                chunks,
                description=f"{prefix} {direction}",
                console=Console(stderr=True),
                disable=arguments.quiet or not sys.stderr.isatty(),
            ):
                hypotheses += translator.translate([pair[src] for pair in chunk], languages[tgt])
            texts = [checkpoint.tokenizer.decode(h.ids) for h in hypotheses]
            quality = measure(texts, [pair[tgt] for pair in pairs])
            cut = sum(not hypothesis.complete for hypothesis in hypotheses)
            if arguments.out:
                arguments.out.mkdir(parents=True, exist_ok=True)
                name = f"{prefix.replace('/', '.')}.{direction}.txt"
                (arguments.out / name).write_text("".join(f"{t}\n" for t in texts), "utf-8")
            if arguments.record:
                name = f"{prefix} {direction}, beam {arguments.beam_width}"
                measured = {f"BLEU {name}": quality.bleu, f"chrF {name}": quality.chrf}
                Manifest.load(arguments.checkpoint).record(arguments.checkpoint, measured)
            if arguments.json:
                row = {"test": prefix, "direction": direction, "sentences": len(pairs)}
                print(json.dumps({**row, "cut": cut, **dataclasses.asdict(quality)}))
                continue
            print(
                f"{prefix} {direction}: BLEU {quality.bleu:.1f} ({quality.bleu_signature}), "
                f"chrF {quality.chrf:.1f} ({quality.chrf_signature}), "
                f"{len(pairs)} sentences, {cut} cut at the length limit"
            )
    return 0
