"""Quality of the word alignments from the model's attention, compared with a statistical aligner.

`--eflomal` is the path of `eflomal-align`, which the package eflomal installs, in a separate
environment.

The alignments are of a test set's reference translations, teacher-forced. eflomal is trained on the
training text plus the test set, in lower case and with punctuation separated; its links are then
mapped to the words of `str.split`. Links in both of its directions count as sure, links in one
direction as possible, and the alignment error rate is computed from them. This measures agreement
with eflomal, which makes errors too.

Source: Och and Ney 2003, https://aclanthology.org/J03-1002/, for the alignment error rate.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from dragoman_serving.scoring.alignment import Linked, Words, word_links
from dragoman_serving.scoring.score_graphs import ScoreGraph, mean_of_heads
from dragoman_serving.scoring.token_pair import TokenPair, attention_of_tokens
from dragoman_training.text.parallel_text import Side, read_directions, read_pairs
from dragoman_training.text.word_aligner import Links, align, turned
from dragoman_training.text.word_links import find_words, read_links

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from lab.measurement import (
    BUNDLE,
    DATA_DIR,
    Results,
    number,
    option,
    program,
    progress,
)
from lab.report import markdown_table

_TOGETHER = 16


@dataclass(frozen=True)
class Agreement:
    """Agreement of links with the sure and the possible links."""

    precision: float
    recall: float
    error_rate: float

    @classmethod
    def of(
        cls, links: Sequence[Links], sure: Sequence[Links], possible: Sequence[Links]
    ) -> Agreement:
        """Total over all sentences."""
        total, all_sure = sum(map(len, links)), sum(map(len, sure))
        in_sure = sum(len(a & s) for a, s in zip(links, sure, strict=True))
        in_possible = sum(len(a & p) for a, p in zip(links, possible, strict=True))
        error_rate = 1 - (in_sure + in_possible) / (total + all_sure)
        return cls(in_possible / total, in_sure / all_sure, error_rate)


@program(
    DATA_DIR,
    option("--eflomal", type=Path, required=True, metavar="PATH", help="the program"),
    BUNDLE,
    option("--test", default="tatoeba-en-de/test"),
    option("--train", default="tatoeba-en-de/train"),
    number("--train-pairs", 200_000),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print a table."""
    manifest = Manifest.load(arguments.bundle)
    if manifest.alignment is None:
        raise UsageError(f"{arguments.bundle}: no heads; choose them with: dragoman align-heads")
    directions = read_directions(arguments.data_dir / arguments.test, manifest.all_directions)
    languages = list(dict.fromkeys(side.language for sides in directions for side in sides))
    if len(languages) != 2:
        raise UsageError(f"{arguments.test}: is in {', '.join(languages)}; give text in two")
    pairs = read_pairs(arguments.data_dir / arguments.test, languages)
    train = read_pairs(arguments.data_dir / arguments.train, languages)
    forward, reverse = eflomal_links(
        arguments.eflomal, [*train[: arguments.train_pairs], *pairs], len(pairs)
    )
    rows, results = [], []
    for src, tgt in directions:
        as_read = src.language == languages[0]
        both = [links if as_read else list(map(turned, links)) for links in (forward, reverse)]
        sure = [
            forward_links & reverse_links
            for forward_links, reverse_links in zip(*both, strict=True)
        ]
        possible = [
            forward_links | reverse_links
            for forward_links, reverse_links in zip(*both, strict=True)
        ]
        name = f"{src.language}-{tgt.language}"
        for method, linked in model_links(arguments.bundle, manifest, src, tgt):
            agreement = Agreement.of(linked, sure, possible)
            shares = (f"{agreement.precision:.1%}", f"{agreement.recall:.1%}")
            rows.append([name, method, *shares, f"{agreement.error_rate:.3f}"])
            results.append({"direction": name, "links": method, **dataclasses.asdict(agreement)})
    print(markdown_table(["direction", "links", "precision", "recall", "error rate"], rows))
    return {"results": results}


def model_links(
    bundle: Path, manifest: Manifest, src_side: Side, tgt_side: Side
) -> Iterator[tuple[str, list[Links]]]:
    """Links by the chosen heads, by all heads, and by the diagonal."""
    tokenizer, graph = manifest.open_tokenizer(bundle), ScoreGraph(bundle, manifest)
    vocabulary = tokenizer.target
    chosen, sizes = manifest.alignment, manifest.dimensions
    assert chosen is not None
    every = tuple(product(range(sizes.decoder_layers), range(sizes.heads)))
    methods = {
        "chosen heads": chosen,
        "all heads": dataclasses.replace(chosen, heads=every),
        "diagonal": None,
    }
    by_method: dict[str, list[Links]] = {name: [] for name in methods}
    language, pairs = tgt_side.language, list(zip(src_side.texts, tgt_side.texts, strict=True))
    with progress(len(pairs)) as advance:
        for begin in range(0, len(pairs), _TOGETHER):
            texts = pairs[begin : begin + _TOGETHER]
            given = [
                TokenPair(tuple(tokenizer.encode_source(s, language)), tuple(vocabulary.encode(t)))
                for s, t in texts
            ]
            _, attention = graph.run_all(given)
            for (source, target), of_pair in zip(texts, attention, strict=True):
                src, tgt = tokenizer.pieces(source), vocabulary.pieces(target)
                for name, heads in methods.items():
                    if heads is None:
                        weights = np.zeros((len(tgt), len(src)), np.float32)
                        at = (np.arange(len(tgt)) + 0.5) / len(tgt) * len(src)
                        weights[np.arange(len(tgt)), at.astype(int)] = 1
                    else:
                        mean = mean_of_heads(of_pair, heads)
                        weights = attention_of_tokens(mean, heads, len(mean) - 1)
                        weights = weights[:, tokenizer.tags : -1]
                    links = word_links(source, target, [Linked(src, tgt, weights)])
                    by_method[name].append(set(read_links(str(links))))
                advance(language)
    yield from by_method.items()


def eflomal_links(
    program: Path, pairs: Sequence[Sequence[str]], last: int
) -> tuple[list[Links], list[Links]]:
    """Word links of the last pairs, in both directions."""
    linked = list(align(program, pairs))[-last:]
    forward, reverse = (
        [_of_words(pair, both[side]) for pair, both in zip(pairs[-last:], linked, strict=True)]
        for side in (0, 1)
    )
    return forward, reverse


def _of_words(pair: Sequence[str], links: Links) -> Links:
    """Map links between the aligner's words to the words of `str.split`."""
    source, target = map(Words, pair)
    src_words, tgt_words = map(find_words, pair)
    mapped = set()
    for src, tgt in links:
        src_word, tgt_word = source.at(src_words[src].start()), target.at(tgt_words[tgt].start())
        assert src_word is not None  # every aligner word is within a word of `str.split`
        assert tgt_word is not None
        mapped.add((src_word, tgt_word))
    return mapped


if __name__ == "__main__":
    sys.exit(main())
