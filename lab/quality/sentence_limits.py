"""BLEU and chrF when sentences longer than a limit are split (`max_sentence_tokens`).

A model that was trained on short sentences may do better on the pieces of a long one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from dragoman_options.arguments import OptionArguments
from dragoman_serving.translation.translator import Translator
from dragoman_training.run.evaluation import measure
from dragoman_training.text.parallel_text import read_pairs

from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.cutting import cut_sentence
from dragoman.kernel.texts.sentences import split_sentences
from lab.measurement import BEAM_WIDTH, BUNDLE, DATA_DIR, Results, option, program
from lab.report import markdown_table

TESTS = ("newstest/newstest2013.en-de",)
LIMITS = (30, 40, 60, 80)

Cut = Callable[[str], list[tuple[str, str]]]
"""Maps a text to pairs of a piece and the separator that follows it."""


def ways_to_cut(
    tokenizer: Tokenizer, language: str, limits: Sequence[int]
) -> list[tuple[str, Cut]]:
    """Each way to split with its name: not at all, into sentences, and these with each limit."""

    def at_most(limit: int) -> Cut:
        def cut_text(text: str) -> list[tuple[str, str]]:
            parts: list[tuple[str, str]] = []
            for sentence, kept in split_sentences(text, language):
                *pieces, (last, space) = cut_sentence(sentence, limit, language, tokenizer)
                parts += [*pieces, (last, space + kept)]
            return parts

        return cut_text

    cuts: list[tuple[str, Cut]] = [("whole lines", lambda text: [(text, "")])]
    cuts.append(("sentences", lambda text: split_sentences(text, language)))
    return cuts + [(f"at most {limit} tokens", at_most(limit)) for limit in limits]


def translate(
    translator: Translator, texts: Sequence[str], cut: Cut, options: OptionArguments
) -> tuple[list[str], int]:
    """Translations joined from those of the pieces, and the number of pieces."""
    of_texts = [cut(text) for text in texts]
    pieces = [piece for of_text in of_texts for piece, _ in of_text if piece]
    translated = iter(
        translation.text
        for begin in range(0, len(pieces), 256)
        for translation in translator.translate(pieces[begin : begin + 256], options)
    )
    joined = [
        "".join((next(translated) if piece else "") + kept for piece, kept in of_text)
        for of_text in of_texts
    ]
    return joined, len(pieces)


@program(
    DATA_DIR,
    BUNDLE,
    option("--test", action="append", help=f"default: {', '.join(TESTS)}"),
    option("--limit", action="append", type=int, help=f"default: {LIMITS}"),
    BEAM_WIDTH,
    option("--first", type=int, help="only the first lines of a test set"),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print a table for each test set and direction."""
    translator = Translator(arguments.bundle)
    tokenizer = translator.manifest.open_tokenizer(arguments.bundle)
    results = []
    for test in arguments.test or TESTS:
        pairs = read_pairs(arguments.data_dir / test, ("en", "de"))[: arguments.first]
        for src, tgt in (("en", "de"), ("de", "en")):
            texts, references = zip(*(p if src == "en" else p[::-1] for p in pairs), strict=True)
            options = OptionArguments(
                source_language=src,
                target_language=tgt,
                beam_width=arguments.beam_width,
                split_sentences=False,  # this study does it
            )
            rows = []
            for name, cut in ways_to_cut(tokenizer, src, arguments.limit or LIMITS):
                translated, pieces = translate(translator, texts, cut, options)
                quality = measure(translated, references)
                rows.append((name, f"{quality.bleu:.2f}", f"{quality.chrf:.2f}", str(pieces)))
                result = {"test": test, "direction": f"{src}-{tgt}", "cut": name, "pieces": pieces}
                results.append({**result, "bleu": quality.bleu, "chrf": quality.chrf})
            print(f"\n{test}, {src} to {tgt}, {len(texts)} lines, beam {arguments.beam_width}\n")
            print(markdown_table(["cut", "BLEU", "chrF", "pieces"], rows), flush=True)
    translator.close()
    return {"results": results}


if __name__ == "__main__":
    sys.exit(main())
