"""An SSRU decoder gives the same bits with every instruction set."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.scoring.compiled_scoring import NativeScoring
from dragoman_serving.scoring.token_pair import TokenPair

from dragoman.kernel.manifest import AlignmentHeads, Manifest
from tests.conftest import REPOSITORY
from tests.unit.serving.engine.compiled.test_native import EVERYONE, native_scores

HEADS = AlignmentHeads(((2, 0),), False, "anchors", 1.0, 1, "nothing")


def digest(bundle: Path) -> str:
    """Of scores step by step, of beams with their attention, and of given translations."""
    manifest = replace(Manifest.load(bundle), alignment=HEADS)
    network, digest = NativeNetwork(bundle, manifest), hashlib.sha256()
    digest.update(native_scores(network, manifest.dimensions.vocab_size, EVERYONE).tobytes())
    options = SearchOptions(4, 0.6, 4, token_scores=True, alignment=True)
    sources = np.random.default_rng(5).integers(6, 300, (12, 14)).tolist()
    sentences = [Sentence(tuple(ids), 30, options) for ids in sources]
    engine = Engine(network, manifest.special_ids, workers=2)
    hypotheses = [future.result() for future in engine.submit(sentences)]
    engine.close()
    for hypothesis in (each for first in hypotheses for each in (first, *first.others)):
        digest.update(
            repr((hypothesis.ids, hypothesis.log_prob, hypothesis.token_log_probs)).encode()
        )
        assert hypothesis.attention is not None
        digest.update(hypothesis.attention.tobytes())
    scoring = NativeScoring(network, manifest.special_ids, HEADS)
    pairs = [TokenPair(tuple(ids), tuple(ids[::-1]), attention=True) for ids in sources]
    for scored in scoring.run(pairs):
        assert scored.attention is not None
        digest.update(repr(scored.log_probs).encode() + scored.attention.tobytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def right(ssru_bundle: Path) -> str:
    return digest(ssru_bundle)


@pytest.mark.parametrize("name", library.usable_instruction_sets())
def test_every_instruction_set_gives_the_same_bits(
    name: str, ssru_bundle: Path, right: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", __name__, str(ssru_bundle)],
        cwd=REPOSITORY,
        env={**os.environ, library.VARIABLE: name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == [name, right], done.stderr


if __name__ == "__main__":
    print(library.choose_instruction_set(), digest(Path(sys.argv[1])))
