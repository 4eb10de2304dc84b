"""Which of the most frequent everyday phrases a bundle translates correctly."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator
from dragoman_training.text.cleaning import folded, write_pairs

from lab.measurement import BUNDLE, Results, option, program
from lab.report import markdown_table

PHRASES = Path(__file__).with_suffix(".txt")
LANGUAGES = ("en", "de", "fr")
DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
_ALTERNATIVES = re.compile(r"\(([^()]*)\)")


@dataclass(frozen=True)
class Phrase:
    """A phrase in every language, each with all its forms, the usual one first."""

    forms: dict[str, list[str]]

    def accepts(self, translation: str, language: str) -> bool:
        """Whether a translation is one of its forms, ignoring case, punctuation and spaces."""
        return folded(translation) in set(map(folded, self.forms[language]))


def read_phrases(lines: Iterable[str]) -> list[Phrase]:
    """Read phrases, one per line: languages separated by " | ", forms by " / "."""
    phrases = []
    for line in lines:
        if line.strip() and not line.startswith("#"):
            columns = zip(LANGUAGES, line.strip().split(" | "), strict=True)
            phrases.append(Phrase({name: _forms(column, name) for name, column in columns}))
    return phrases


def _forms(column: str, language: str) -> list[str]:
    """All forms, without the spaces around omitted parts."""
    marks = r"\s+(?=[.,])" if language == "fr" else r"\s+(?=[.,?!])"
    forms = (form for written in column.split(" / ") for form in expanded(written))
    return [re.sub(marks, "", " ".join(form.split())) for form in forms]


def expanded(form: str) -> Iterator[str]:
    """All expansions of a form with alternatives `(a|b)`; optional parts are first omitted."""
    match = _ALTERNATIVES.search(form)
    if match is None:
        yield form
        return
    begin, end = match.span()
    for alternative in sorted(match[1].split("|"), key=bool):
        yield from expanded(form[:begin] + alternative + form[end:])


def wrong_translations(
    translator: Translator, phrases: list[Phrase], src: str, tgt: str
) -> list[tuple[Phrase, str]]:
    """The phrases with a translation that is not one of their forms, and that translation."""
    options = OptionArguments(source_language=src, target_language=tgt)
    translations = translator.translate([phrase.forms[src][0] for phrase in phrases], options)
    translated = zip(phrases, (translation.text for translation in translations), strict=True)
    return [(phrase, text) for phrase, text in translated if not phrase.accepts(text, tgt)]


def write_text(phrases: list[Phrase], folder: Path) -> None:
    """Write the usual forms as the corpora `everyday-phrases-en-de` and `-en-fr`."""
    for languages in (("en", "de"), ("en", "fr")):
        pairs = [[phrase.forms[language][0] for language in languages] for phrase in phrases]
        write_pairs(folder / f"everyday-phrases-{'-'.join(languages)}/train", languages, pairs)


@program(
    BUNDLE,
    option("--write", type=Path, metavar="CORPORA", help="only write the phrases as training text"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print wrong translations and a table of correct ones."""
    phrases = read_phrases(PHRASES.read_text("utf-8").splitlines())
    if arguments.write:
        write_text(phrases, arguments.write)
        return {}
    translator, right = Translator(arguments.bundle), dict[str, int]()
    for src, tgt in DIRECTIONS:
        wrong = wrong_translations(translator, phrases, src, tgt)
        right[f"{src}-{tgt}"] = len(phrases) - len(wrong)
        for phrase, text in wrong:
            print(f"{src}-{tgt}: {phrase.forms[src][0]} -> {text} ({phrase.forms[tgt][0]})")
    translator.close()
    rows = [[name, str(count), str(len(phrases))] for name, count in right.items()]
    print(markdown_table(["direction", "right", "phrases"], rows))
    return {"phrases": len(phrases), "right": right}


if __name__ == "__main__":
    sys.exit(main())
