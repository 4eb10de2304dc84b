"""CTranslate2 in a process of its own: texts in, translations out, as JSON lines over pipes.

It must not share a process with ONNX Runtime: there it runs at half its speed. The first line out
says which version it is; then each line in is a `Request`, answered by one line.

The clock runs from text to text, SentencePiece included, but not over the pipes: what a program
that embeds CTranslate2 would see.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2
import sentencepiece

from dragoman.manifest import Limits, Manifest
from dragoman.text import END_ID, language_tag


@dataclass(frozen=True)
class Request:
    """What to translate and how; `batch_size` texts go into one call."""

    texts: list[str]
    target_language: str
    beam_width: int
    batch_size: int
    length_penalty: float


class TextTranslator:
    """CTranslate2 with the vocabulary and the limits of a bundle."""

    def __init__(
        self, model: Path, tokenizer: Path, limits: Limits, intra_threads: int, inter_threads: int
    ) -> None:
        """Load a model.

        Args:
            model: folder written by `benchmarks.ctranslate2_model`.
            tokenizer: the SentencePiece model.
            limits: those of the bundle.
            intra_threads: threads of one batch.
            inter_threads: batches at once.
        """
        self._limits = limits
        self._inter_threads = inter_threads
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
        self._end = self._pieces.IdToPiece(END_ID)
        self._translator = ctranslate2.Translator(
            str(model),
            device="cpu",
            compute_type="float32",
            intra_threads=intra_threads,
            inter_threads=inter_threads,
        )

    def answer(self, request: Request) -> dict[str, Any]:
        """Translate, and say how long it took.

        Returns:
            `elapsed_s`, and a list under each of `texts`, `ids` (token ids without the end symbol)
            and `cut` (whether the limit of tokens ended the translation).
        """
        begin = time.perf_counter()
        found = list(self._translate(request))
        elapsed_s = time.perf_counter() - begin
        return {
            "elapsed_s": elapsed_s,
            "texts": [text for text, _ in found],
            "ids": [
                [self._pieces.PieceToId(token) for token in tokens if token != self._end]
                for _, tokens in found
            ],
            "cut": [self._end not in tokens for _, tokens in found],
        }

    def _translate(self, request: Request) -> Iterator[tuple[str, list[str]]]:
        for start in range(0, len(request.texts), request.batch_size):
            batch = request.texts[start : start + request.batch_size]
            for tokens in self._translate_batch(batch, request):
                yield self._pieces.DecodePieces(tokens), tokens

    def _translate_batch(self, texts: Sequence[str], request: Request) -> list[list[str]]:
        tag = language_tag(request.target_language)
        src = [[tag, *self._pieces.EncodeAsPieces(text), self._end] for text in texts]
        share = -(-len(src) // self._inter_threads)
        results = self._translator.translate_batch(
            src,
            beam_size=request.beam_width,
            length_penalty=request.length_penalty,
            # One limit a call: the longest sentence's.
            max_decoding_length=max(self._limits.target_tokens(len(tokens)) for tokens in src),
            # With the end symbol in the hypothesis, CTranslate2 counts it in the length that it
            # divides by, as we do, and a translation without one was cut.
            return_end_token=True,
            # Parts of a call that are batches of their own are what runs on several threads.
            max_batch_size=share if self._inter_threads > 1 else 0,
        )
        return [result.hypotheses[0] for result in results]


def main() -> int:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ctranslate2_worker")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--intra-threads", type=int, required=True)
    parser.add_argument("--inter-threads", type=int, required=True)
    arguments = parser.parse_args()
    manifest = Manifest.load(arguments.bundle)
    translator = TextTranslator(
        arguments.model,
        arguments.bundle / manifest.tokenizer,
        manifest.limits,
        arguments.intra_threads,
        arguments.inter_threads,
    )
    print(json.dumps({"version": ctranslate2.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(translator.answer(Request(**json.loads(line)))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
