"""BLEU on altered test sets: lower case, emoji, placeholders, text to copy.

Each rule of `dragoman_training.text.alterations` alters those sentences of a test set that it
applies to. Their translations are compared with those of the unaltered sentences (in capitals, or
without the final mark, if the altered ones are), or, for text that must stay unchanged, with the
text itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from dragoman_options.arguments import OptionArguments
from dragoman_serving.fidelity.literals import known_literals, without
from dragoman_serving.translation.faults import REPETITION
from dragoman_serving.translation.translator import Translator
from dragoman_training.run.evaluation import measure
from dragoman_training.text.alterations import (
    FINAL_MARK,
    RULES,
    Example,
    applied,
    copied,
    no_final_mark,
    no_text,
    placeholder,
    upper_case,
)
from dragoman_training.text.cleaning import without_tags
from dragoman_training.text.parallel_text import read_directions

from lab.measurement import BEAM_WIDTH, BUNDLE, DATA_DIR, Results, number, program
from lab.report import markdown_table

TESTS = ("tatoeba-en-de/test", "tatoeba-en-fr/test", "flores200/devtest")
AT_ONCE = 250
JOINED = 3
"""Sentences joined to one text."""
STAY = (copied.__name__, no_text.__name__)
"""Rules whose text must stay unchanged."""


@dataclass(frozen=True)
class Case:
    """Altered texts, with the pairs that they were made from."""

    name: str
    groups: Sequence[Sequence[Example]]
    texts: Sequence[str]
    references: Sequence[str]


@dataclass(frozen=True)
class Result:
    """Result of a case in one direction."""

    direction: str
    case: str
    texts: int
    clean_bleu: float
    bleu: float
    exact: int
    """Number of translations that equal the text."""
    looping: int


def cases(examples: Sequence[Example]) -> Iterator[Case]:
    """The pairs altered by each rule, and joined."""
    for name, rule in RULES.items():
        altered_pairs = [
            (example, pair) for example in examples if (pair := applied(rule, example))
        ]
        texts, references = (
            [src for _, (src, _) in altered_pairs],
            [tgt for _, (_, tgt) in altered_pairs],
        )
        if altered_pairs:
            yield Case(name, [[example] for example, _ in altered_pairs], texts, references)
    whole = len(examples) - len(examples) % JOINED
    groups = [examples[begin : begin + JOINED] for begin in range(0, whole, JOINED)]
    texts = [" ".join(example.src for example in group) for group in groups]
    yield Case(
        "joined", groups, texts, [" ".join(example.tgt for example in group) for group in groups]
    )


class Bench:
    """Translates in one direction, as a request does."""

    def __init__(self, translator: Translator, src: str, tgt: str, beam_width: int) -> None:
        """Set the bundle and the options of the requests."""
        self._translator, self._direction = translator, f"{src}-{tgt}"
        self._src, self._tgt, self._beam_width = src, tgt, beam_width
        self._clean: dict[Example, str] = {}

    def measure(self, examples: Sequence[Example]) -> Iterator[Result]:
        """Translate the unaltered and the altered pairs."""
        translations, _ = self._translate([example.src for example in examples])
        self._clean = dict(zip(examples, translations, strict=True))
        yield from map(self._result, cases(examples))

    def _translate(self, texts: Sequence[str]) -> tuple[list[str], int]:
        """Translations, and how many of them have repetitions."""
        options = OptionArguments(
            source_language=self._src,
            target_language=self._tgt,
            beam_width=self._beam_width,
        )
        translations = [
            translation
            for begin in range(0, len(texts), AT_ONCE)
            for translation in self._translator.translate(texts[begin : begin + AT_ONCE], options)
        ]
        return [translation.text for translation in translations], sum(
            REPETITION in translation.warnings for translation in translations
        )

    def _result(self, case: Case) -> Result:
        translations, looping = self._translate(case.texts)
        exact = sum(
            text == translation for text, translation in zip(case.texts, translations, strict=True)
        )
        references = list(case.references)
        if case.name == placeholder.__name__:  # they are kept, so the text around them is compared
            translations, references = _around(translations), _around(references)
        clean = [" ".join(self._clean[example] for example in group) for group in case.groups]
        right = [" ".join(example.tgt for example in group) for group in case.groups]
        if case.name == no_final_mark.__name__:  # a right mark is one right word more
            clean, right = (
                [FINAL_MARK.sub("", text) for text in texts] for texts in (clean, right)
            )
        if case.name == upper_case.__name__:  # as are two words that differ only in their case
            clean, right = (list(map(str.upper, texts)) for texts in (clean, right))
        bleu = measure(translations, references).bleu
        numbers = (len(translations), measure(clean, right).bleu, bleu, exact, looping)
        return Result(self._direction, case.name, *numbers)


def _around(texts: Sequence[str]) -> list[str]:
    plain = map(without_tags, texts)
    return [without(text, [literal.span for literal in known_literals(text)]) for text in plain]


def _row(test: str, result: Result) -> list[str]:
    row = [test, result.direction, result.case, str(result.texts)]
    if result.case in STAY:
        row += ["", "", "", f"{result.exact / result.texts:.1%}"]
    else:
        difference = result.bleu - result.clean_bleu
        row += [f"{result.clean_bleu:.1f}", f"{result.bleu:.1f}", f"{difference:+.1f}", ""]
    return [*row, str(result.looping)]


@program(DATA_DIR, BUNDLE, BEAM_WIDTH, number("--first", 300, "lines of a test set"))
def main(arguments: argparse.Namespace) -> Results:
    """Print a table."""
    translator = Translator(arguments.bundle)
    directions = translator.manifest.all_directions
    rows, results = list[list[str]](), list[dict[str, object]]()
    for test in TESTS:
        sides = read_directions(arguments.data_dir / test, directions, arguments.first)
        for src, tgt in sides:
            pairs = zip(src.texts, tgt.texts, strict=True)
            examples = [Example(*pair, src.language, tgt.language) for pair in pairs]
            bench = Bench(translator, src.language, tgt.language, arguments.beam_width)
            for result in bench.measure(examples):
                rows.append(_row(test, result))
                results.append({"test": test, **asdict(result)})
    translator.close()
    titles = ["test", "direction", "altered", "texts", "BLEU before", "BLEU", "difference"]
    print(markdown_table([*titles, "stays", "loops"], rows))
    return {"results": results}


if __name__ == "__main__":
    sys.exit(main())
