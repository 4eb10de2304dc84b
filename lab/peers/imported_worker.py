"""`transformers` or CTranslate2 with a Marian model, in a separate process, used over pipes.

The input has ids of our bundle, which are mapped to theirs by the tokens' names. The time is that
of the translation alone, without the mapping.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from dragoman.kernel.manifest import Manifest
from lab.peers.worker_protocol import (
    Answer,
    BatchSearch,
    Inputs,
    TokenIds,
    in_batches,
    serve,
)


class Peer(Protocol):
    """Translates batches of subword tokens, each up to the token limit."""

    def translate(
        self, sources: Sequence[Sequence[str]], max_tokens: int, search: BatchSearch
    ) -> list[list[str]]:
        """The subword tokens of each translation."""
        ...


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
        """See `Peer`; all sources have the same length."""
        input_ids = self._torch.tensor([[self._ids[piece] for piece in one] for one in sources])
        found = self._model.generate(
            input_ids=input_ids,
            attention_mask=self._torch.ones_like(input_ids),
            num_beams=search.beam_width,
            length_penalty=search.length_penalty,
            do_sample=False,
            max_new_tokens=max_tokens,
            min_new_tokens=max_tokens,
        )
        return [[self._names[token] for token in row] for row in found[:, 1:].tolist()]


def _ctranslate2(arguments: argparse.Namespace) -> Peer:
    import ctranslate2

    from lab.peers.ctranslate2_worker import PieceTranslator

    translator = ctranslate2.Translator(
        str(arguments.model),
        device="cpu",
        compute_type=arguments.compute_type,
        intra_threads=arguments.intra_threads,
        inter_threads=arguments.inter_threads,
    )
    return PieceTranslator(translator, arguments.inter_threads, endless=True)


def main() -> int:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.peers.imported_worker")
    parser.add_argument("--peer", choices=("transformers", "ctranslate2"), required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--compute-type", default="float32")
    parser.add_argument("--intra-threads", type=int, default=1)
    parser.add_argument("--inter-threads", type=int, default=1)
    arguments = parser.parse_args()
    tokenizer = Manifest.load(arguments.bundle).open_tokenizer(arguments.bundle)
    names = [tokenizer.piece(token) for token in range(tokenizer.vocab_size)]
    ids = {name: token for token, name in enumerate(names)}
    peer: Peer
    if arguments.peer == "transformers":
        peer = Transformers(arguments.model, arguments.intra_threads)
    else:
        peer = _ctranslate2(arguments)

    def answer(inputs: Inputs, search: BatchSearch) -> Answer:
        assert isinstance(inputs, TokenIds)
        sources = [[names[token] for token in source] for source in inputs.sources]
        found: list[list[str]] = []
        begin = time.perf_counter()
        for batch in in_batches(sources, search.batch_size):
            found += peer.translate(batch, inputs.max_tokens[0], search)
        elapsed_s = time.perf_counter() - begin
        translated = [[ids[piece] for piece in pieces] for pieces in found]
        return Answer(
            elapsed_s, [len(one) for one in translated], [True] * len(found), ids=translated
        )

    serve(importlib.metadata.version(arguments.peer), answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
