"""`transformers` or CTranslate2 with a Marian model, in a separate process, used over pipes.

The input has ids of our bundle, which are mapped to theirs by the tokens' names. The time is that
of the translation alone, without the mapping.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.kernel.manifest import Manifest
from lab.peers.workers.ctranslate2_worker import add_options, open_translator
from lab.peers.workers.worker_protocol import (
    Answer,
    BatchSearch,
    Inputs,
    TokenIds,
    in_batches,
    serve,
)


class Transformers:
    """`generate`, with its KV cache, on all cores."""

    def __init__(self, folder: Path, threads: int) -> None:
        """Load a model, in fp32."""
        import torch
        from transformers import MarianMTModel

        torch.set_num_threads(threads)
        self._torch = torch
        self._model: Any = MarianMTModel.from_pretrained(folder).eval()
        pieces: dict[str, int] = json.loads((folder / "vocab.json").read_text("utf-8"))
        self._ids, self._names = pieces, list(pieces)

    def translate(
        self, sources: Sequence[Sequence[str]], max_tokens: int, search: BatchSearch
    ) -> list[list[str]]:
        """Translate a batch up to the token limit; all sources have the same length."""
        input_ids = self._torch.tensor(
            [[self._ids[piece] for piece in source] for source in sources]
        )
        outputs = self._model.generate(
            input_ids=input_ids,
            attention_mask=self._torch.ones_like(input_ids),
            num_beams=search.beam_width,
            length_penalty=search.length_penalty,
            do_sample=False,
            max_new_tokens=max_tokens,
            min_new_tokens=max_tokens,
        )
        return [[self._names[token] for token in row] for row in outputs[:, 1:].tolist()]


def main() -> None:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.peers.workers.imported_worker")
    parser.add_argument("--peer", choices=("transformers", "ctranslate2"), required=True)
    add_options(parser)
    arguments = parser.parse_args()
    tokenizer = Manifest.load(arguments.bundle).open_tokenizer(arguments.bundle)
    names = [tokenizer.piece(token) for token in range(tokenizer.vocab_size)]
    ids = {name: token for token, name in enumerate(names)}
    if arguments.peer == "transformers":
        translate = Transformers(arguments.model, arguments.intra_threads).translate
    else:
        translate = open_translator(arguments).translate

    def answer(inputs: Inputs, search: BatchSearch) -> Answer:
        assert isinstance(inputs, TokenIds)
        sources = [[names[token] for token in source] for source in inputs.sources]
        translated: list[list[str]] = []
        begin = time.perf_counter()
        for batch in in_batches(sources, search.batch_size):
            translated += translate(batch, inputs.max_tokens[0], search)
        elapsed_s = time.perf_counter() - begin
        of_ours = [[ids[piece] for piece in pieces] for pieces in translated]
        lengths = [len(of_output) for of_output in of_ours]
        return Answer(elapsed_s, lengths, [True] * len(lengths), ids=of_ours)

    serve(importlib.metadata.version(arguments.peer), answer)


if __name__ == "__main__":
    main()
