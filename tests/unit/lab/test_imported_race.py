"""The benchmark of imported models: its model, its peers, its results."""

from __future__ import annotations

from pathlib import Path

import pytest
from dragoman_training.marian.importing import import_marian
from dragoman_training.oracle.search import greedy_search
from dragoman_training.run import checkpoint

from lab.peers.imported import OURS, PLAIN, SMALL, Case
from lab.peers.models.imported_model import write_random_model
from lab.peers.workers.imported_worker import Transformers
from lab.peers.workers.worker_protocol import BatchSearch, Sample

TOKENS = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("imported") / "opus-mt-en-de"
    write_random_model(folder, SMALL)
    return folder


def test_all_contenders_translate_the_same(folder: Path, tmp_path: Path) -> None:
    import ctranslate2
    from ctranslate2.converters import TransformersConverter

    from lab.peers.workers.ctranslate2_worker import PieceTranslator

    import_marian(folder, tmp_path / "checkpoint")
    ours = checkpoint.load(tmp_path / "checkpoint")
    names = [ours.tokenizer.piece(token) for token in range(ours.tokenizer.vocab_size)]
    sources = [[50, 60, 70, 3], [81, 900, 1500, 3]]
    limits = [TOKENS] * len(sources)
    right = [
        [names[token] for token in hypothesis.ids]
        for hypothesis in greedy_search(ours.model, sources, limits)
    ]
    assert all(len(tokens) == TOKENS for tokens in right)
    TransformersConverter(str(folder)).convert(str(tmp_path / "model"))
    # One thread: CTranslate2's setting also applies to PyTorch, and to all later tests.
    translator = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    peers = (Transformers(folder, threads=1), PieceTranslator(translator, 1, endless=True))
    for peer in peers:
        translated = peer.translate(
            [[names[token] for token in source] for source in sources],
            TOKENS,
            BatchSearch(1, len(sources), 0.0),
        )
        assert translated == right


def test_ratios_are_of_the_same_round() -> None:
    def samples(*seconds: float) -> tuple[Sample, ...]:
        return tuple(Sample(took_s, 64, 2) for took_s in seconds)

    timed = {OURS: samples(1.0, 2.0), "peer": samples(3.0, 4.0), PLAIN: samples(10.0, 40.0)}
    case = Case(4, 2, 2, "peer", timed)
    assert case.ratios("peer") == [3.0, 2.0]
    assert case.cells() == [
        *("beam 4", "2", "43", "2.50 (2.00..3.00)", "15.00 (10.00..20.00)", "peer")
    ]
