"""What must survive a translation, and how much of it does.

Numbers by value, emoji and signs, placeholders, glossary terms, single words, with the cost of the
options that protect them: `--options` are those of all requests, `--without` those of the requests
that they are compared with. The model is a bundle in process, or a running server (`--bundle URL`),
or the shipped one in LibreTranslate (see `lab.fidelity.libretranslate`).

Example: python -m lab.fidelity --data-dir CORPORA --limit 400
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dragoman_client import InvalidRequest as Refused
from dragoman_client import Translator as Client
from dragoman_serving.fidelity.negations import negates
from dragoman_serving.translation.translator import Translator
from dragoman_training.run.evaluation import measure
from dragoman_training.text.parallel_text import find_file, read_pairs

from dragoman.kernel.errors import InvalidRequest, UsageError
from lab.fidelity import placeholders, terms
from lab.fidelity.bench import Bench, Pairs, Row, Translate
from lab.fidelity.cases import read_cases
from lab.fidelity.libretranslate import PREFIX as LIBRETRANSLATE
from lab.fidelity.libretranslate import libretranslate
from lab.fidelity.made_up import number_texts
from lab.measurement import (
    PROJECT,
    SHIPPED,
    Results,
    alternate,
    number,
    option,
    positive,
    program,
    ratios,
    seconds,
)
from lab.report import markdown_table, spread

DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en"))
SETS = ("ntrex128/test", "newstest/newstest2013.en-{}", "newstest/newstest2014.en-{}")
LABELS = tuple(f"{name}-en-{{}}/train" for name in ("apps", "apps2", "apps3", "homeassistant"))
TERMS = "terms-en-{}/train"
WORDS = 1250
"""Number of single words and labels in each direction."""
PARTS = ("numbers", "signs", "placeholders", "variations", "glossary", "words", "cost", "cases")
SHORT_PARTS = PARTS[:4]
AT_ONCE = 250
_TITLE = re.compile(r"[A-Z][a-z']+(?: [A-Z][a-z']+| (?:a|and|for|in|of|the|to))+\??")


@contextlib.contextmanager
def open_model(where: str) -> Iterator[Translate]:
    """A function that translates in batches, refused texts to nothing: of a bundle or a server."""
    is_server = "://" in where
    model: Any
    opened: contextlib.AbstractContextManager[Any]
    if where.startswith(LIBRETRANSLATE):
        opened = libretranslate(Path(where.removeprefix(LIBRETRANSLATE)), SHIPPED)
    else:
        opened = contextlib.closing(
            Client(where, timeout_s=600) if is_server else Translator(Path(where))
        )

    def translate(texts: Sequence[str], options: Mapping[str, Any]) -> list[Any]:
        if not texts:
            return []
        if len(texts) > AT_ONCE:
            return [*translate(texts[:AT_ONCE], options), *translate(texts[AT_ONCE:], options)]
        try:
            if is_server:
                return list(model.translate(list(texts), **options))
            return list(model.translate(list(texts), options))
        except (InvalidRequest, Refused):
            if len(texts) == 1:
                return [SimpleNamespace(text="", codes=None)]
            half = len(texts) // 2
            return [*translate(texts[:half], options), *translate(texts[half:], options)]

    with opened as model:
        yield translate


def read_set(corpora: Path, name: str, src: str, tgt: str) -> Pairs:
    """The pairs of a test set; none if it is absent."""
    prefix = corpora / name.format(tgt if src == "en" else src)
    return read_pairs(prefix, (src, tgt)) if find_file(prefix, src) else []


def cost(both: Mapping[str, Bench], corpora: Path, rounds: int) -> Iterator[list[str]]:
    """Speed and BLEU of two benches in turn, on texts with and without numbers and addresses."""
    for (src, tgt), has_any in itertools.product(DIRECTIONS, (False, True)):
        pairs = read_set(corpora, SETS[0], src, tgt)
        pairs = [pair for pair in pairs if bool(re.search(r"[\d@{<:/]", pair[0])) is has_any]
        pairs = next(iter(both.values())).some(pairs)
        texts, references = zip(*pairs, strict=True)
        translations: dict[str, list[str]] = {}

        def run(name: str, *translated: Any) -> None:
            translations[name] = both[name].translated(*translated)  # noqa: B023

        runs = {name: partial(seconds, partial(run, name, texts, src, tgt)) for name in both}
        taken = alternate(runs, rounds, warm_up=1)
        per_s = [f"{len(texts) / min(taken[name]):.0f}" for name in both]
        bleu = [f"{measure(translations[name], references).bleu:.1f}" for name in both]
        speed = spread(ratios(*taken.values()))
        what = "with numbers" if has_any else "plain"
        yield [what, f"{src}-{tgt}", str(len(texts)), *per_s, speed, *bleu]


def assignment(text: str) -> tuple[str, Any]:
    """The type of an option `name=value`; the value is JSON, or a text."""
    name, _, value = text.partition("=")
    with contextlib.suppress(json.JSONDecodeError):
        return name, json.loads(value)
    return name, value


assignment.__name__ = "name=value"  # argparse uses it in its message


def rows_of(part: str, bench: Bench, corpora: Path | None) -> Iterator[Row]:
    """The rows of a part in all directions."""
    by_kind: dict[str, Row] = {}
    for src, tgt in DIRECTIONS:
        if part == "signs":
            yield from bench.signs(src, tgt)
        elif part == "placeholders":
            yield from bench.placeholders(src, tgt, by_kind)
            if corpora is not None:
                texts = [pair for name in LABELS for pair in read_set(corpora, name, src, tgt)]
                counts = placeholders.counts(texts)
                yield bench.labels("placeholders of numbers", counts, src, tgt)
        elif part == "variations":
            bench.variations(src, tgt, by_kind)
        elif corpora is None:
            yield bench.numbers("made up", number_texts(src, 40), src, tgt)
        elif part == "numbers":
            for name in SETS:
                shown = name.partition("/")[2].partition(".")[0]
                pairs = read_set(corpora, name, src, tgt)
                yield bench.numbers(shown, pairs, src, tgt)
                yield bench.per_cent(shown, pairs, src, tgt)
                yield bench.days(shown, pairs, src, tgt)
                yield bench.negations(shown, pairs, src, tgt)
        elif part == "glossary":
            of_words = terms.invented(corpora, src, tgt, bench.limit or 500)
            yield bench.glossary("invented words", *of_words, src, tgt)
            pairs = [pair for name in SETS for pair in read_set(corpora, name, src, tgt)]
            of_terms = terms.terminology(corpora, src, tgt, pairs, bench.limit or 500)
            yield bench.glossary("terminology", *of_terms, src, tgt)
        else:
            pairs = [pair for name in LABELS for pair in read_set(corpora, name, src, tgt)]
            labels = {
                text for text, _ in pairs if len(text.split()) < 4 and re.search("[a-z]", text)
            }
            everyday = read_set(corpora, "tatoeba-en-{}/train", src, tgt)[:50_000]
            occurrences = Counter(
                word.lower() for text, _ in everyday for word in terms.words(text)
            )
            frequent = [word for word, _ in occurrences.most_common(WORDS // 2)]
            every = -(-2 * len(labels) // WORDS)
            yield bench.words("frequent words", bench.some(frequent), src, tgt)
            yield bench.words("labels", bench.some(sorted(labels)[::every]), src, tgt)
            entries = read_set(corpora, TERMS, src, tgt)
            short = sorted({pair for pair in entries if re.fullmatch("[A-Z][a-zà-ÿ]+", pair[0])})
            titles = sorted({pair for pair in pairs if _TITLE.fullmatch(pair[0])})
            yield bench.labels("single words", short, src, tgt)
            yield bench.labels("titles", titles, src, tgt)
            negative = [pair for pair in pairs if negates(pair[0], src)]
            yield bench.negations("labels with one", negative, src, tgt)
    yield from by_kind.values()


def print_cases(bench: Bench, path: Path) -> Iterator[dict[str, Any]]:
    """Print the cases that run in process, for a reader, and yield them."""
    for case in read_cases(path) if path.exists() else ():
        if (output := bench.case(case)) is not None:
            faults = list(case.faults(output))
            print(f"\n{case.section} {case.interface} -> {case.tgt}: {faults or 'no fault found'}")
            print(f"  input   {case.text!r}\n  output  {output!r}\n  right   {case.right}")
            yield {**asdict(case), "output": output, "faults": faults}


def print_table(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table at once: a part takes minutes."""
    print(f"\n{markdown_table(titles, cells)}", flush=True)


_TITLES = ("what", "direction", "number", "right", "beside")
_COST = ("texts", "direction", "number", "sent/s without", "with", "speed")
_OPTIONS: dict[str, Any] = {"type": assignment, "action": "append"}
_UNPROTECTED = {"keep_placeholders": False}


@program(
    option("--data-dir", type=Path, help="folder of the corpora; --short needs none"),
    option("--bundle", default=str(SHIPPED), help=f"or a server's URL (default: {SHIPPED})"),
    option("--options", **_OPTIONS, help="NAME=VALUE, of all requests"),
    option(
        "--without", **_OPTIONS, help="instead, for the cost (default: keep_placeholders=false)"
    ),
    option("--parts", nargs="+", choices=PARTS, default=PARTS),
    option("--limit", type=positive, help="number of texts in each row (default: all)"),
    option("--seed", type=int, default=0, help="of the variations (default: 0)"),
    option("--short", action="store_true", help="a few hundred made-up sentences"),
    option("--show", type=int, default=0, help="number of wrong translations of each row"),
    option("--cases", type=Path, default=PROJECT.parent / "shared/cases/fidelity.md"),
    number("--rounds", 3, "of the cost"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print the tables."""
    corpora, limit, parts = arguments.data_dir, arguments.limit, arguments.parts
    if arguments.short:
        corpora, limit, parts = None, limit or 40, [part for part in parts if part in SHORT_PARTS]
    elif corpora is None:
        raise UsageError("--data-dir: the folder of the corpora is required without --short")
    rows, cases, costs = list[Row](), list[dict[str, Any]](), list[list[str]]()
    with open_model(arguments.bundle) as translate:
        bench = Bench(translate, dict(arguments.options or ()), limit, arguments.seed)
        for part in parts:
            if part == "cases":
                cases += print_cases(bench, arguments.cases)
            elif part == "cost":
                without = Bench(translate, dict(arguments.without or _UNPROTECTED), limit)
                costs += cost({"without": without, "with": bench}, corpora, arguments.rounds)
                print_table((*_COST, "BLEU without", "with"), costs)
            else:
                part_rows = list(rows_of(part, bench, corpora))
                for row in part_rows:
                    for example in row.wrong[: arguments.show]:
                        print(f"{row.what} {row.direction}: {example}")
                print_table(_TITLES, [row.cells for row in part_rows])
                rows += part_rows
    return {"rows": [asdict(row) for row in rows], "cases": cases, "cost": costs}


if __name__ == "__main__":
    sys.exit(main())
