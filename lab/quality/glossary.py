"""How often translations contain a glossary's terms, and the effect on other sentences.

Run from the project's folder:

    python -m lab.quality.glossary --data-dir CORPORA

Terms are extracted from the training text: for each word that occurs in several sentences of the
test set, the word of the other language that co-occurs with it most (Dice's coefficient). So they
are usually correct, but not always in the form that a sentence needs, like a user's terms. For
comparison there are terms that nobody would choose: a made-up name for each of the same words.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman_options.arguments import OptionArguments
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.translation.translator import Translator
from dragoman_training.run.evaluation import measure
from dragoman_training.text.parallel_text import read_pairs

from lab.console import positive
from lab.report import markdown_table

SHIPPED = Path("model_repository/translate/1/bundle")
_WORD = re.compile(r"[^\W\d_]{4,}")
_FEWEST_SENTENCES = 3
_LEAST_DICE = 0.3


def learn_terms(
    training: Sequence[tuple[str, ...]], texts: Sequence[str], count: int
) -> dict[str, str]:
    """Terms for the most frequent words of the texts, extracted from training text."""
    seen = Counter(word for text in texts for word in set(_words(text.lower())))
    wanted = {word for word, number in seen.items() if number >= _FEWEST_SENTENCES}
    sources: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for source, target in training:
        of_target = set(_words(target))
        targets.update(of_target)
        for word in wanted & set(_words(source.lower())):
            sources[word] += 1
            together.update((word, other) for other in of_target)
    best: dict[str, tuple[float, str]] = {}
    for (word, other), number in together.items():
        dice = 2 * number / (sources[word] + targets[other])
        best[word] = max(best.get(word, (_LEAST_DICE, "")), (dice, other))
    found = {word: other for word, (_, other) in best.items() if other}
    return dict(sorted(found.items(), key=lambda term: -seen[term[0]])[:count])


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


@dataclass(frozen=True)
class Outcome:
    """Sentences with a term, number of terms, and number of terms in the translations."""

    carrying: tuple[int, ...]
    terms: int
    held: int
    whole: int
    """Number of sentences that contain all their terms."""


def outcome(
    terms: Sequence[Mapping[str, str]], texts: Sequence[str], found: Sequence[str]
) -> Outcome:
    """Count each text's terms; a term counts if the translation contains it as a separate word."""
    carrying: list[int] = []
    wanted_in_all = held = whole = 0
    for index, (of_text, text, translation) in enumerate(zip(terms, texts, found, strict=True)):
        if not (wanted := Glossary(of_text).targets_of(text)):
            continue
        there = [bool(re.search(rf"(?<!\w){re.escape(one)}(?!\w)", translation)) for one in wanted]
        carrying.append(index)
        wanted_in_all += len(wanted)
        held += sum(there)
        whole += all(there)
    return Outcome(tuple(carrying), wanted_in_all, held, whole)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, default=SHIPPED)
    parser.add_argument("--sentences", type=positive, default=2000)
    parser.add_argument("--terms", type=positive, default=300)
    arguments = parser.parse_args()
    training = read_pairs(arguments.data_dir / "tatoeba-en-de/train", ("en", "de"))
    pairs = read_pairs(arguments.data_dir / "tatoeba-en-de/test", ("en", "de"))
    texts, references = (list(side) for side in zip(*pairs[: arguments.sentences], strict=True))
    found = learn_terms(training, texts, arguments.terms)
    of_references = [
        {word: term for word, term in found.items() if term in _words(reference)}
        for reference in references
    ]
    ways: dict[str, list[Mapping[str, str]]] = {
        "found": [found] * len(texts),
        "made up": [{word: f"Zorb{word[:3]}ix" for word in found}] * len(texts),
        "found, and in the reference": list(of_references),
    }
    translator = Translator(arguments.bundle)
    plain = _translate(translator, texts, [{}] * len(texts))
    rows, results = [], []
    for name, terms in ways.items():
        guided = _translate(translator, texts, terms)
        before, after = outcome(terms, texts, plain), outcome(terms, texts, guided)
        if not after.carrying:
            raise SystemExit("no sentence holds a term: give more --sentences or --terms")
        bleu = [_bleu(found, references, after.carrying) for found in (plain, guided)]
        others = sorted(set(range(len(texts))) - set(after.carrying))
        rows.append(
            (
                name,
                f"{len(after.carrying)}",
                f"{before.whole / len(after.carrying):.1%}",
                f"{after.whole / len(after.carrying):.1%}",
                *(f"{value:.1f}" for value in bleu),
                f"{sum(plain[i] == guided[i] for i in others)} of {len(others)}",
            )
        )
        results.append({"terms": name, "before": vars(before), "after": vars(after), "bleu": bleu})
    translator.close()
    header = (
        *("terms", "sentences with some", "hold all, without", "hold all, with"),
        *("their BLEU without", "with", "others unchanged"),
    )
    print(markdown_table(header, rows))
    print(json.dumps([{**one, "sentences": len(texts)} for one in results]))


def _bleu(found: Sequence[str], references: Sequence[str], chosen: Sequence[int]) -> float:
    return measure([found[i] for i in chosen], [references[i] for i in chosen]).bleu


def _translate(
    translator: Translator, texts: Sequence[str], terms: Sequence[Mapping[str, str]]
) -> list[str]:
    """Translate each text with its own terms."""
    futures = [
        translator.submit(
            [text], OptionArguments(target_language="de", glossary=dict(of_text))
        ).future
        for text, of_text in zip(texts, terms, strict=True)
    ]
    return [future.result()[0].text for future in futures]


if __name__ == "__main__":
    main()
