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
from dragoman_serving.request.literals import known_literals, without
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
        found = [(one, pair) for one in examples if (pair := applied(rule, one))]
        texts, references = [src for _, (src, _) in found], [tgt for _, (_, tgt) in found]
        if found:
            yield Case(name, [[one] for one, _ in found], texts, references)
    whole = len(examples) - len(examples) % JOINED
    groups = [examples[begin : begin + JOINED] for begin in range(0, whole, JOINED)]
    texts = [" ".join(one.src for one in group) for group in groups]
    yield Case("joined", groups, texts, [" ".join(one.tgt for one in group) for group in groups])


class Bench:
    """Translates in one direction, as a request does."""

    def __init__(self, translator: Translator, src: str, tgt: str, beam_width: int) -> None:
        """Set the bundle and the options of the requests."""
        self._translator, self._direction = translator, f"{src}-{tgt}"
        self._src, self._tgt, self._beam_width = src, tgt, beam_width
        self._clean: dict[Example, str] = {}

    def measure(self, examples: Sequence[Example]) -> Iterator[Result]:
        """Translate the unaltered and the altered pairs."""
        found, _ = self._translate([one.src for one in examples])
        self._clean = dict(zip(examples, found, strict=True))
        yield from map(self._result, cases(examples))

    def _translate(self, texts: Sequence[str]) -> tuple[list[str], int]:
        """Translations, and how many of them have repetitions."""
        options = OptionArguments(
            source_language=self._src,
            target_language=self._tgt,
            beam_width=self._beam_width,
        )
        found = [
            one
            for begin in range(0, len(texts), AT_ONCE)
            for one in self._translator.translate(texts[begin : begin + AT_ONCE], options)
        ]
        return [one.text for one in found], sum(REPETITION in one.warnings for one in found)

    def _result(self, case: Case) -> Result:
        found, looping = self._translate(case.texts)
        exact = sum(text == one for text, one in zip(case.texts, found, strict=True))
        references = list(case.references)
        if case.name == placeholder.__name__:  # they are kept, so the text around them is compared
            found, references = _around(found), _around(references)
        clean = [" ".join(self._clean[one] for one in group) for group in case.groups]
        right = [" ".join(one.tgt for one in group) for group in case.groups]
        if case.name == no_final_mark.__name__:  # a right mark is one right word more
            clean, right = ([FINAL_MARK.sub("", one) for one in texts] for texts in (clean, right))
        if case.name == upper_case.__name__:  # as are two words that differ only in their case
            clean, right = (list(map(str.upper, texts)) for texts in (clean, right))
        bleu = measure(found, references).bleu
        numbers = (len(found), measure(clean, right).bleu, bleu, exact, looping)
        return Result(self._direction, case.name, *numbers)


def _around(texts: Sequence[str]) -> list[str]:
    return [without(text, [one.span for one in known_literals(text)]) for text in texts]


def _row(test: str, one: Result) -> list[str]:
    row = [test, one.direction, one.case, str(one.texts)]
    if one.case in STAY:
        row += ["", "", "", f"{one.exact / one.texts:.1%}"]
    else:
        difference = one.bleu - one.clean_bleu
        row += [f"{one.clean_bleu:.1f}", f"{one.bleu:.1f}", f"{difference:+.1f}", ""]
    return [*row, str(one.looping)]


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
