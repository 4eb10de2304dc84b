"""CTranslate2 in a separate process, used over pipes.

It must not share a process with ONNX Runtime, where it runs at half its speed.

For texts, the time is from text to text, SentencePiece included but without the pipes, as in a
program that embeds CTranslate2. For ids, it is CTranslate2's alone; that its tokens are strings
costs nothing here.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import sentencepiece

from dragoman.kernel.manifest import Limits, Manifest
from dragoman.kernel.text import END_ID, language_tag
from lab.peers.worker_protocol import (
    Answer,
    Batching,
    BatchSearch,
    Inputs,
    Texts,
    TokenIds,
    in_batches,
    serve,
)

Tokens = Sequence[str]


class PieceTranslator:
    """CTranslate2 itself: subword tokens in, subword tokens out."""

    def __init__(
        self, translator: ctranslate2.Translator, inter_threads: int, endless: bool
    ) -> None:
        """Use a loaded model.

        Args:
            translator: the model.
            inter_threads: number of batches that it translates in parallel.
            endless: generate up to the limit in every translation, ignoring the end symbol.
        """
        self._translator = translator
        self._inter_threads = inter_threads
        self._endless = endless

    def translate(
        self, sources: Sequence[Tokens], max_tokens: int, search: BatchSearch
    ) -> list[list[str]]:
        """Translate one batch in one call, which has one token limit."""
        max_batch_size, batch_type = batch_parts(sources, self._inter_threads, search.batching)
        results = self._translator.translate_batch(
            sources,
            beam_size=search.beam_width,
            length_penalty=search.length_penalty,
            max_decoding_length=max_tokens,
            min_decoding_length=max_tokens if self._endless else 1,
            # Then CTranslate2 counts the end symbol in the length penalty, as we do, and a
            # translation without one was cut.
            return_end_token=True,
            max_batch_size=max_batch_size,
            batch_type=batch_type,
        )
        return [result.hypotheses[0] for result in results]


def batch_parts(
    sources: Sequence[Tokens], inter_threads: int, batching: Batching
) -> tuple[int, Batching]:
    """The size of a call's sub-batches, which run on several threads.

    Args:
        sources: the batch.
        inter_threads: number of threads for sub-batches.
        batching: what the size counts.

    Returns:
        `max_batch_size` and `batch_type` of CTranslate2; size 0 keeps the batch whole.
    """
    if inter_threads == 1:
        return 0, "examples"
    amount = len(sources) if batching == "examples" else sum(map(len, sources))
    return -(-amount // inter_threads), batching


class Worker:
    """CTranslate2 with the vocabulary and the limits of a bundle."""

    def __init__(self, translator: PieceTranslator, tokenizer: Path, limits: Limits) -> None:
        """Combine them.

        Args:
            translator: CTranslate2 with a model.
            tokenizer: the SentencePiece model.
            limits: those of the bundle.
        """
        self._translator = translator
        self._limits = limits
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
        self._end = self._pieces.IdToPiece(END_ID)

    def answer(self, inputs: Inputs, search: BatchSearch) -> Answer:
        """Translate, and report the time."""
        if isinstance(inputs, Texts):
            return self._answer_texts(inputs, search)
        return self._answer_ids(inputs, search)

    def _answer_texts(self, inputs: Texts, search: BatchSearch) -> Answer:
        found: list[list[str]] = []
        texts = []
        begin = time.perf_counter()
        tag = language_tag(inputs.target_language)
        for batch in in_batches(inputs.texts, search.batch_size):
            sources = [[tag, *self._pieces.EncodeAsPieces(text), self._end] for text in batch]
            # A call has one limit: that of its longest sentence.
            max_tokens = max(self._limits.target_tokens(len(source)) for source in sources)
            translations = self._translator.translate(sources, max_tokens, search)
            texts += [self._pieces.DecodePieces(tokens) for tokens in translations]
            found += translations
        return self._answer(time.perf_counter() - begin, found, texts)

    def _answer_ids(self, inputs: TokenIds, search: BatchSearch) -> Answer:
        sources = [[self._pieces.IdToPiece(index) for index in ids] for ids in inputs.sources]
        limited = list(zip(sources, inputs.max_tokens, strict=True))
        found: list[list[str]] = []
        begin = time.perf_counter()
        for batch in in_batches(limited, search.batch_size):
            max_tokens = max(limit for _, limit in batch)
            found += self._translator.translate([src for src, _ in batch], max_tokens, search)
        return self._answer(time.perf_counter() - begin, found, None)

    def _answer(self, elapsed_s: float, found: Sequence[Tokens], texts: list[str] | None) -> Answer:
        ids = [
            [self._pieces.PieceToId(token) for token in tokens if token != self._end]
            for tokens in found
        ]
        cut = [self._end not in tokens for tokens in found]
        return Answer(elapsed_s, [len(one) for one in ids], cut, texts, ids)


def main() -> int:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.peers.ctranslate2_worker")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--compute-type", default="float32")
    parser.add_argument("--intra-threads", type=int, required=True)
    parser.add_argument("--inter-threads", type=int, required=True)
    parser.add_argument("--endless", action="store_true")
    arguments = parser.parse_args()
    manifest = Manifest.load(arguments.bundle)
    translator = ctranslate2.Translator(
        str(arguments.model),
        device="cpu",
        compute_type=arguments.compute_type,
        intra_threads=arguments.intra_threads,
        inter_threads=arguments.inter_threads,
    )
    pieces = PieceTranslator(translator, arguments.inter_threads, arguments.endless)
    worker = Worker(pieces, arguments.bundle / manifest.tokenizer, manifest.limits)
    serve(ctranslate2.__version__, worker.answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
