"""CTranslate2 in a separate process, used over pipes.

It must not share a process with ONNX Runtime, where it runs at half its speed.

For texts, the time is from text to text, SentencePiece included but without the pipes, as in a
program that embeds CTranslate2. For ids, it is CTranslate2's alone; that its tokens are strings
costs nothing here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import sentencepiece

from dragoman.kernel.manifest import Limits, Manifest
from dragoman.kernel.text import END_ID, language_tag
from lab.peers.workers.worker_protocol import (
    Answer,
    Batching,
    BatchSearch,
    Inputs,
    Texts,
    in_batches,
    serve,
)

Tokens = Sequence[str]


class PieceTranslator:
    """CTranslate2 itself: subword tokens in, subword tokens out."""

    def __init__(
        self, translator: ctranslate2.Translator, inter_threads: int, endless: bool
    ) -> None:
        """Use a model that translates this many batches in parallel.

        If `endless`, it generates up to the limit in every translation.
        """
        self._translator, self._inter_threads, self._endless = translator, inter_threads, endless

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
    """The size of a call's sub-batches, which run on several threads, and what it counts.

    They are `max_batch_size` and `batch_type` of CTranslate2; size 0 keeps the batch whole.
    """
    if inter_threads == 1:
        return 0, "examples"
    amount = len(sources) if batching == "examples" else sum(map(len, sources))
    return -(-amount // inter_threads), batching


class Worker:
    """CTranslate2 with the vocabulary and the limits of a bundle."""

    def __init__(self, translator: PieceTranslator, tokenizer: Path, limits: Limits) -> None:
        """Combine a model with a SentencePiece model and a bundle's limits."""
        self._translator = translator
        self._limits = limits
        self._pieces = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
        self._end = self._pieces.IdToPiece(END_ID)

    def answer(self, inputs: Inputs, search: BatchSearch) -> Answer:
        """Translate, and report the time."""
        translated: list[list[str]] = []
        texts: list[str] | None = None
        if isinstance(inputs, Texts):
            texts = []
            begin = time.perf_counter()
            tag = language_tag(inputs.target_language)
            for batch in in_batches(inputs.texts, search.batch_size):
                sources = [[tag, *self._pieces.EncodeAsPieces(text), self._end] for text in batch]
                # A call has one limit: that of its longest sentence.
                max_tokens = max(self._limits.target_tokens(len(source)) for source in sources)
                of_batch = self._translator.translate(sources, max_tokens, search)
                texts += [self._pieces.DecodePieces(tokens) for tokens in of_batch]
                translated += of_batch
        else:
            sources = [[self._pieces.IdToPiece(index) for index in ids] for ids in inputs.sources]
            limited = list(zip(sources, inputs.max_tokens, strict=True))
            begin = time.perf_counter()
            for pairs in in_batches(limited, search.batch_size):
                max_tokens = max(limit for _, limit in pairs)
                of_pairs = [source for source, _ in pairs]
                translated += self._translator.translate(of_pairs, max_tokens, search)
        elapsed_s = time.perf_counter() - begin
        ids = [
            [self._pieces.PieceToId(token) for token in tokens if token != self._end]
            for tokens in translated
        ]
        cut = [self._end not in tokens for tokens in translated]
        return Answer(elapsed_s, [len(of_output) for of_output in ids], cut, texts, ids)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `lab.peers.processes.peer_words`."""
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--compute-type", required=True)
    parser.add_argument("--intra-threads", type=int, required=True)
    parser.add_argument("--inter-threads", type=int, required=True)
    parser.add_argument("--endless", action="store_true")


def open_translator(arguments: argparse.Namespace) -> PieceTranslator:
    """CTranslate2's model with the options of the command line."""
    translator = ctranslate2.Translator(
        str(arguments.model),
        device="cpu",
        compute_type=arguments.compute_type,
        intra_threads=arguments.intra_threads,
        inter_threads=arguments.inter_threads,
    )
    return PieceTranslator(translator, arguments.inter_threads, arguments.endless)


def main() -> None:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.peers.workers.ctranslate2_worker")
    add_options(parser)
    arguments = parser.parse_args()
    manifest = Manifest.load(arguments.bundle)
    tokenizer = arguments.bundle / manifest.tokenizer
    worker = Worker(open_translator(arguments), tokenizer, manifest.limits)
    serve(ctranslate2.__version__, worker.answer)


if __name__ == "__main__":
    main()
