"""Marian (`bergamot` 0.4.5) or slimt 0.1.0 with a Firefox model, in an environment of its own.

slimt is licensed under the GPL: it is only measured here, in a process of its own. Neither may be
imported by its package, which downloads a list from the web.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from lab.peers.workers.worker_protocol import Answer, BatchSearch, Inputs, Texts, in_batches, serve
from tests.bergamot_program import load_extension, settings_of

_BATCH_TOKENS = 2048
"""Marian's batches: 64 sentences of the measurement are one batch."""


class Bergamot:
    """Marian, with one thread."""

    def __init__(self, folder: Path, beam: int) -> None:
        """Load a model."""
        self._package = load_extension()
        config = self._package.ServiceConfig(numWorkers=1, cacheSize=0, logLevel="off")
        self._service = self._package.Service(config)
        self._model = self._service.modelFromConfig(
            settings_of(folder, beam, "int8shiftAlphaAll", True, 1.0, _BATCH_TOKENS)
        )

    def translate(self, texts: list[str]) -> list[str]:
        """Translate a batch."""
        options = self._package.ResponseOptions()
        answers = self._service.translate(self._model, self._package.VectorString(texts), options)
        return [answer.target.text for answer in answers]


class Slimt:
    """slimt, with one thread; greedy search only."""

    def __init__(self, folder: Path, layers: tuple[int, int]) -> None:
        """Load a model with this number of encoder and decoder layers."""
        package: Any = load_extension("slimt")
        config = package.Config()
        config.split_mode = "sentence"
        config.encoder_layers, config.decoder_layers = layers
        paths = {
            name: str(next(folder.glob(pattern)))
            for name, pattern in (
                ("model", "model*.bin"),
                ("vocabulary", "vocab*.spm"),
                ("shortlist", "lex*.bin"),
            )
        }
        self._service = package.Service(workers=1, cache_size=0)
        self._model = package.Model(config, package.Package(**paths))

    def translate(self, texts: list[str]) -> list[str]:
        """Translate a batch."""
        return [answer.target.text for answer in self._service.translate(self._model, texts)]


def main() -> None:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.peers.workers.firefox_worker")
    parser.add_argument("peer", choices=("bergamot", "slimt"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beam-width", type=int, default=1)
    parser.add_argument("--layers", type=int, nargs=2)
    arguments = parser.parse_args()
    if arguments.peer == "bergamot":
        translate = Bergamot(arguments.folder, arguments.beam_width).translate
    else:
        translate = Slimt(arguments.folder, arguments.layers).translate

    def answer(inputs: Inputs, search: BatchSearch) -> Answer:
        assert isinstance(inputs, Texts)
        texts: list[str] = []
        begin = time.perf_counter()
        for batch in in_batches(inputs.texts, search.batch_size):
            texts += translate(list(batch))
        elapsed_s = time.perf_counter() - begin
        lengths = [len(text.split()) for text in texts]
        return Answer(elapsed_s, lengths, [True] * len(lengths), texts)

    serve(arguments.peer, answer)


if __name__ == "__main__":
    main()
