"""Records a server's responses for every kind of option, to compare two versions byte by byte.

Run it once for each version, while `dragoman serve` runs:

    python -m lab.served.answers --data-dir CORPORA --url grpc://localhost:8001 --out FILE

The file has one line per response, with every number at full precision; two versions translate
identically if their files are equal (`cmp`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from dragoman_client import InvalidRequest, Translation, Translator
from dragoman_client.files.isolation import isolate
from dragoman_client.transports.blocking import run
from dragoman_options.arguments import OptionArguments
from dragoman_training.text.parallel_text import read_lines

from lab.measurement import DATA_DIR, number, option, program

_FILES = (*("flores200/devtest", "newstest/newstest2014.en-de", "tatoeba-en-de/test"),)
_BATCH = 50
_GREEDY: OptionArguments = {"target_language": "de", "beam_width": 1}
_BEAM: OptionArguments = {"target_language": "de", "beam_width": 4}
CASES: dict[str, OptionArguments] = {
    "greedy": _GREEDY,
    "beam": _BEAM,
    "n-best": {**_BEAM, "num_return_sequences": 4, "return_scores": True},
    "sampled": {**_GREEDY, "temperature": 0.8, "seed": 7},
    "top-k": {**_GREEDY, "top_k": 10, "top_p": 0.9, "seed": 3, "return_scores": True},
    "prefix": {**_BEAM, "prefix": "Die", "num_return_sequences": 2, "return_alternatives": True},
    "glossary": {**_BEAM, "glossary": {"the": "dem", "time": "Frist"}},
    "rules": {
        **_BEAM,
        "suppress": ["und", "die"],
        "no_repeat_ngram_size": 3,
        "repetition_penalty": 1.2,
        "min_tokens": 5,
        "max_length_ratio": 1.5,
    },
    "patience": {**_BEAM, "patience": 2.0, "early_stopping": False, "length_penalty": 1.1},
    "coverage": {**_BEAM, "coverage_penalty": 0.3, "return_confidence": True},
    "sentences": {**_BEAM, "split_sentences": True, "max_sentence_tokens": 30},
    "assessed": {
        **_GREEDY,
        "return_token_scores": True,
        "return_alignments": "soft",
        "return_confidence": True,
    },
}
"""Options of the translations, by name."""


def read_texts(data_dir: Path, count: int) -> list[str]:
    """The first lines of each file in turn, `count` in total."""
    share = -(-count // len(_FILES))
    texts = [line.strip() for name in _FILES for line in read_lines(data_dir / name, "en")[:share]]
    return texts[:count]


def answers(translator: Translator, texts: Sequence[str]) -> Iterator[str]:
    """One line per response: every case, then streams, then scores of given translations."""
    batches = [list(texts[begin : begin + _BATCH]) for begin in range(0, len(texts), _BATCH)]
    with ThreadPoolExecutor(2) as pool:
        for name, options in CASES.items():
            done = pool.map(partial(_translated, translator, options), batches)
            yield from (f"{name}\t{line}" for batch in done for line in batch)
    for text in texts[::20]:
        *_, last = translator.translate_stream(text, **_BEAM)
        yield f"stream\t{last.text!r}"
    for batch in batches[::10]:
        given = translator.translate(batch, **_GREEDY)
        pairs = translator.score(
            batch, [translation.text for translation in given], target_language="de"
        )
        yield from (f"score\t{pair.score!r}\t{pair.confidence!r}" for pair in pairs)


def _translated(translator: Translator, options: OptionArguments, batch: list[str]) -> list[str]:
    async def send(part: range) -> list[Translation]:
        return translator.translate(batch[part.start : part.stop], **options)

    def blame(error: Exception, _texts: int) -> None:
        if not isinstance(error, InvalidRequest):
            raise error

    results = run(isolate(len(batch), send, blame))
    return [
        repr(str(outcome)) if isinstance(outcome, Exception) else _told(outcome)
        for outcome in results
    ]


def _told(translation: Translation) -> str:
    """Everything in a response except its time."""
    alternatives = tuple(replace(other, elapsed_s=0.0) for other in translation.alternatives)
    return repr(replace(translation, elapsed_s=0.0, alternatives=alternatives))


@program(
    DATA_DIR,
    option("--url", required=True, help="of the server, such as grpc://localhost:8001"),
    number("--sentences", 2000),
    option("--out", type=Path, required=True, help="file for the responses"),
    measures=False,
)
def main(arguments: argparse.Namespace) -> None:
    """Record."""
    texts = read_texts(arguments.data_dir, arguments.sentences)
    with (
        Translator(arguments.url, timeout_s=600) as translator,
        arguments.out.open("w", encoding="utf-8") as file,
    ):
        for line in answers(translator, texts):
            print(line, file=file)


if __name__ == "__main__":
    sys.exit(main())
