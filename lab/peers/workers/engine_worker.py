"""Our engine in a separate process, used over pipes.

For texts, the time is from text to text, tokenization included; for ids, it is the engine's alone.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

from dragoman_options.arguments import OptionArguments
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.loading import open_engine
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator

from dragoman import __version__
from dragoman.kernel.errors import DragomanError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Manifest
from lab.peers.workers.worker_protocol import (
    Answer,
    Answerer,
    BatchSearch,
    Inputs,
    Texts,
    TokenIds,
    in_batches,
    serve,
)

_NO_ID = -1
"""An end symbol that the model never generates."""


def translate_texts(translator: Translator, inputs: Inputs, search: BatchSearch) -> Answer:
    """Translate with the tokenizer."""
    assert isinstance(inputs, Texts)
    options = OptionArguments(
        target_language=inputs.target_language,
        beam_width=search.beam_width,
        length_penalty=search.length_penalty,
        split_sentences=False,  # as for the peer
        repair=False,
    )
    options |= cast("OptionArguments", search.options)
    outputs: list[Translation] = []
    begin = time.perf_counter()
    for batch in in_batches(inputs.texts, search.batch_size):
        outputs += translator.translate(batch, options)
    elapsed_s = time.perf_counter() - begin
    tokens = [output.output_tokens for output in outputs]
    cut = [not output.complete for output in outputs]
    return Answer(elapsed_s, tokens, cut, texts=[output.text for output in outputs])


def translate_ids(engine: Engine, inputs: Inputs, search: BatchSearch) -> Answer:
    """Translate with the engine alone."""
    assert isinstance(inputs, TokenIds)
    options = SearchOptions(search.beam_width, search.length_penalty)
    sentences = [
        Sentence(tuple(ids), max_tokens, options)
        for ids, max_tokens in zip(inputs.sources, inputs.max_tokens, strict=True)
    ]
    outputs: list[Hypothesis] = []
    begin = time.perf_counter()
    for batch in in_batches(sentences, search.batch_size):
        outputs += [future.result() for future in engine.submit(batch)]
    elapsed_s = time.perf_counter() - begin
    ids = [list(output.ids) for output in outputs]
    cut = [not output.complete for output in outputs]
    return Answer(elapsed_s, [len(of_output) for of_output in ids], cut, ids=ids)


@contextlib.contextmanager
def opened(arguments: argparse.Namespace) -> Iterator[tuple[Answerer, str | None]]:
    """The translator that the command line selects, closed at the end, and its instruction set.

    Raises:
        DragomanError: the bundle cannot be loaded.
    """
    settings = EngineSettings(precision=arguments.precision)
    if arguments.input == "texts":
        with contextlib.closing(Translator(arguments.bundle, settings)) as translator:
            yield partial(translate_texts, translator), translator.layout.instruction_set
        return
    manifest = Manifest.load(arguments.bundle)
    ids = replace(manifest.special_ids, end=_NO_ID) if arguments.endless else None
    loaded = open_engine(arguments.bundle, manifest, settings, ids)
    with contextlib.closing(loaded.engine) as engine:
        yield partial(translate_ids, engine), loaded.layout.instruction_set


def main() -> int:
    """Answer requests until the input ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.peers.workers.engine_worker")
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument("--precision", choices=("fp32", "int8"), required=True)
    parser.add_argument("--input", choices=("texts", "ids"), required=True)
    parser.add_argument("--endless", action="store_true", help="only for ids: never end early")
    arguments = parser.parse_args()
    try:
        with opened(arguments) as (answer, instruction_set):
            gc.collect()  # as in the served model
            gc.freeze()
            serve(__version__, answer, instruction_set)
    except DragomanError as error:
        print(f"lab.peers.workers.engine_worker: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
