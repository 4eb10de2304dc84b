"""The compiled code compared with plain NumPy and with ONNX Runtime."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from dragoman_export.bundle import export_bundle
from dragoman_serving.engine.arrays import Floats, Ids
from dragoman_serving.engine.cache import Cache
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.compiled_decoding import MOST_STEPS, NativeDecoding
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.weights import load_weights, sizes_obstacle
from dragoman_serving.engine.runtimes.onnx_session import OnnxSession
from dragoman_serving.engine.sentence import SearchOptions, Sentence

from dragoman.kernel.errors import UsageError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Dimensions, Manifest, SpecialIds
from tests.conftest import MakeBundle

LENGTHS = np.array([3, 17, 9, 33, 1])
EVERYONE = range(len(LENGTHS))
STEPS = 20
GREEDY = SearchOptions(1, 0.0)


@pytest.fixture(scope="module", params=["pre", "post", "ssru"])
def bundle(
    request: pytest.FixtureRequest,
    random_checkpoint: MakeBundle,
    ssru_bundle: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    if request.param == "ssru":
        return ssru_bundle
    folder = tmp_path_factory.mktemp("native") / "bundle"
    export_bundle(random_checkpoint(request.param), folder)
    return folder


def source(vocab_size: int) -> Ids:
    generator = np.random.default_rng(3)
    ids = generator.integers(6, vocab_size, (len(LENGTHS), LENGTHS.max()))
    return np.where(np.arange(LENGTHS.max()) < LENGTHS[:, None], ids, 0)


def sentences(
    vocab_size: int, chosen: Sequence[int], options: SearchOptions = GREEDY, limit: int = 90
) -> list[Sentence]:
    """The sources as input of the engine."""
    ids = source(vocab_size)
    return [
        Sentence(tuple(ids[index, : LENGTHS[index]].tolist()), limit, options) for index in chosen
    ]


def begin(network: NativeNetwork, width: int = 1, end_id: int = -1) -> NativeDecoding:
    """A batch with nothing in flight; without an end symbol, no sentence ends by itself."""
    return network.begin(width, SpecialIds(tags={}, end=end_id), slots=8)


def forced_tokens(vocab_size: int, chosen: Sequence[int]) -> Ids:
    """[steps, R]"""
    tokens = np.random.default_rng(4).integers(6, vocab_size, (STEPS, len(LENGTHS)))
    return tokens[:, list(chosen)]


def native_scores(network: NativeNetwork, vocab_size: int, chosen: Sequence[int]) -> Floats:
    """Logits [steps, R, V] of some of the sentences, after random tokens."""
    decoding = begin(network)
    decoding.join(sentences(vocab_size, chosen))
    scores = []
    for tokens in forced_tokens(vocab_size, chosen):
        decoding.ids[:] = tokens
        decoding.step()
        scores.append(decoding.scores.copy())
    return np.array(scores)


def onnx_scores(session: OnnxSession, vocab_size: int, chosen: Sequence[int]) -> Floats:
    """See `native_scores`."""
    lengths = LENGTHS[list(chosen)]
    cache = Cache(session.cache_shape, 1, 8)
    cache.join(session.encode(source(vocab_size)[list(chosen)], lengths), lengths)
    scores = []
    for position, tokens in enumerate(forced_tokens(vocab_size, chosen)):
        cache.fit(position + 1)
        logits = session.step(cache, tokens, np.full(len(chosen), position))
        scores.append(logits.copy())
    return np.array(scores)


def test_results_equal_those_of_onnx_runtime(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    vocab_size = manifest.dimensions.vocab_size
    right = onnx_scores(OnnxSession(bundle, manifest, "fp32"), vocab_size, EVERYONE)
    scores = native_scores(NativeNetwork(bundle, manifest), vocab_size, EVERYONE)
    spread = right.std(axis=-1).mean()
    assert np.abs(scores - right).mean() < 0.03 * spread
    assert np.abs(scores - right).max() < 0.3 * spread


@pytest.mark.parametrize("chosen", [[0], [3], [4, 1], [2, 3, 0, 1], [1] * 5 + [3] * 8])
def test_a_row_does_not_depend_on_its_neighbours(bundle: Path, chosen: list[int]) -> None:
    manifest = Manifest.load(bundle)
    network, vocab_size = NativeNetwork(bundle, manifest), manifest.dimensions.vocab_size
    together = native_scores(network, vocab_size, EVERYONE)
    assert np.array_equal(native_scores(network, vocab_size, chosen), together[:, chosen])


def test_rows_without_a_hypothesis_are_not_computed(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    network, width = NativeNetwork(bundle, manifest), 3
    vocab_size, options = manifest.dimensions.vocab_size, SearchOptions(width, 0.6)
    early, late = EVERYONE[:2], EVERYONE[2:]
    twice = [index for index in EVERYONE for _ in range(width)]
    beams, alone = begin(network, width), begin(network)
    beams.join(sentences(vocab_size, early, options))
    assert np.array_equal(beams.ids >= 0, [True, False, False] * len(early))
    beams.step()
    of_early = beams.scores[::width].copy()
    assert (beams.ids >= 0).all()
    beams.join(sentences(vocab_size, late, options))
    alone.join(sentences(vocab_size, twice))
    alone.step()
    first = alone.scores.copy()
    assert np.array_equal(of_early, first[: len(early) * width : width])
    alone.ids[:] = np.maximum(beams.ids, 0)  # also for late ones, which are not read
    beams.step()
    scores, rows = beams.scores.copy(), len(early) * width
    alone.step()
    assert np.array_equal(scores[:rows], alone.scores[:rows])
    assert np.array_equal(scores[rows::width], first[rows::width])


def test_a_beam_has_the_score_of_its_tokens(bundle: Path) -> None:
    """Its tokens may come from different rows, while other sentences join and leave."""
    manifest = Manifest.load(bundle)
    network, vocab_size = NativeNetwork(bundle, manifest), manifest.dimensions.vocab_size
    batch = [
        sentence
        for limit, index in zip((7, 25, 70, 4, 12), EVERYONE, strict=True)
        for sentence in sentences(vocab_size, [index], SearchOptions(4, 0.0), limit)
    ]
    decoding = begin(network, 4)
    waiting, in_flight, finished = [*batch, *batch], list[Sentence](), []
    while waiting or in_flight:
        joining, waiting = waiting[:2], waiting[2:]
        if joining:
            decoding.join(joining)
            in_flight += joining
        _, done = decoding.step()
        finished += [(in_flight[slot], decoding.found.result(slot)) for slot in done]
        decoding.leave(done)
        for slot in reversed(done):
            in_flight[slot] = in_flight[-1]
            in_flight.pop()
    assert len(finished) == 2 * len(batch)
    for sentence, hypothesis in finished:
        assert len(hypothesis.ids) == sentence.max_tokens
        right = log_prob(network, sentence, hypothesis)
        assert hypothesis.log_prob == pytest.approx(right, abs=1e-3)


@pytest.mark.parametrize("width", [1, 4])
def test_helping_threads_change_nothing(bundle: Path, width: int) -> None:
    manifest = Manifest.load(bundle)
    vocab_size = manifest.dimensions.vocab_size
    of_threads = []
    for threads in (1, 2, 4):
        decoding = begin(NativeNetwork(bundle, manifest, threads), width)
        batch = sentences(vocab_size, [*EVERYONE] * 8, SearchOptions(width, 0.6))
        decoding.join(batch, alone=True)
        decoding.step(alone=True)  # computes one row of each sentence
        scores = []
        for _ in range(STEPS):
            decoding.step(alone=True)
            scores.append(decoding.scores.copy())
        of_threads.append(np.array(scores)[:, decoding.ids >= 0])
    assert of_threads[0].size
    assert np.array_equal(of_threads[0], of_threads[1])
    assert np.array_equal(of_threads[0], of_threads[2])


def test_several_steps_end_when_a_sentence_is_finished_or_another_one_waits(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    network, pending = NativeNetwork(bundle, manifest), ctypes.c_int64()
    limit = 2 * MOST_STEPS + 3
    batch = sentences(manifest.dimensions.vocab_size, EVERYONE[:2], limit=limit)
    decoding, begun = begin(network), begin(network)
    decoding.join(batch)
    assert decoding.step(pending=pending) == (MOST_STEPS, [])
    pending.value = 1
    assert decoding.step(pending=pending) == (1, [])
    assert decoding.step() == (1, [])
    pending.value = 0
    assert decoding.step(pending=pending) == (MOST_STEPS, [])
    assert decoding.step(pending=pending) == (1, [0, 1])
    begun.join(batch)
    for _ in range(limit):
        begun.step()
    for slot in range(2):
        assert decoding.found.result(slot) == begun.found.result(slot)


def log_prob(network: NativeNetwork, sentence: Sentence, hypothesis: Hypothesis) -> float:
    """Scores of a hypothesis, generated token by token."""
    decoding, total = begin(network), 0.0
    decoding.join([dataclasses.replace(sentence, max_tokens=90)])
    for token in hypothesis.ids:
        decoding.step()
        total += float((decoding.scores - log_sum(decoding.scores))[0, token])
        decoding.ids[:] = token
    return total


def test_the_best_tokens_are_found(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    network = NativeNetwork(bundle, manifest)
    rows, vocab_size = len(LENGTHS), manifest.dimensions.vocab_size
    decoding = begin(network)
    decoding.join(sentences(vocab_size, EVERYONE))
    decoding.step()
    logits = decoding.scores
    assert np.array_equal(decoding.ids, logits.argmax(axis=1))
    log_probs, best = np.empty((rows, 8), np.float32), np.empty((rows, 8), np.int64)
    library.load().best(
        logits.ctypes.data,
        rows,
        -(-vocab_size // library.PANEL),
        8,
        log_probs.ctypes.data,
        best.ctypes.data,
    )
    in_order = np.argsort(-logits, axis=1, kind="stable")[:, :8]
    assert np.array_equal(best, in_order)
    right = np.take_along_axis(logits - log_sum(logits), in_order, axis=1)
    assert np.allclose(log_probs, right, atol=1e-5)


def log_sum(logits: Floats) -> npt.NDArray[np.float64]:
    most = logits.max(axis=1, keepdims=True).astype(np.float64)
    total: npt.NDArray[np.float64] = most + np.log(np.exp(logits - most).sum(1, keepdims=True))
    return total


def test_a_vocabulary_need_not_fill_its_last_panel() -> None:
    """Padding columns are never chosen, even if all scores are low."""
    lib, rows, vocab_size, panels = library.load(), 3, 70, 2
    generator = np.random.default_rng(6)
    memory = np.full((rows, panels * (library.PANEL + 1)), -np.inf, np.float32)
    memory[:, :vocab_size] = -1000 - generator.random((rows, vocab_size), np.float32)
    by_panel = memory[:, : panels * library.PANEL].reshape(rows, panels, library.PANEL)
    memory[:, panels * library.PANEL :] = by_panel.max(axis=2)
    log_probs, ids = np.empty((rows, 16), np.float32), np.empty((rows, 16), np.int64)
    lib.best(
        memory.ctypes.data,
        rows,
        panels,
        16,
        log_probs.ctypes.data,
        ids.ctypes.data,
    )
    right = np.argsort(-memory[:, :vocab_size], axis=1, kind="stable")[:, :16]
    assert np.array_equal(ids, right)
    assert np.exp(log_probs).sum(axis=1) == pytest.approx(16 / vocab_size, rel=0.5)


@pytest.mark.parametrize(("model_size", "heads", "name"), [(96, 2, "model_size"), (64, 8, "head")])
def test_sizes_that_do_not_fit_are_named(model_size: int, heads: int, name: str) -> None:
    sizes = Dimensions(100, model_size, 128, heads, 1, 1)
    assert name in str(sizes_obstacle(sizes))


def test_weights_that_are_missing_or_damaged_are_named(bundle: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(bundle)
    sizes = manifest.dimensions
    with pytest.raises(UsageError, match="cannot be read"):
        load_weights(tmp_path / "model.safetensors", sizes, 8)
    (tmp_path / "model.safetensors").write_bytes(b"\x08" + bytes(40))
    with pytest.raises(UsageError, match="cannot be read"):
        load_weights(tmp_path / "model.safetensors", sizes, 8)
    more = dataclasses.replace(sizes, encoder_layers=9)
    with pytest.raises(UsageError, match=r"has no tensor 'encoder_layers.2"):
        load_weights(bundle / manifest.weights, more, 8)


def test_nothing_outside_the_model_is_read(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    network, vocab_size = NativeNetwork(bundle, manifest), manifest.dimensions.vocab_size
    for ids in ((vocab_size,), (-1,), (5,) * 2000):
        with pytest.raises(ValueError, match="source ids"):
            begin(network).join([Sentence(ids, 5, GREEDY)])
    decoding = begin(network)
    decoding.join([Sentence((5, 3), 2000, GREEDY)])
    for _ in range(manifest.limits.max_target_tokens):
        decoding.step()
    with pytest.raises(ValueError, match="321 tokens, more than the model can have"):
        decoding.step()


def test_a_library_from_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = library._path(str(library.choose_instruction_set()))
    library.Library(path)
    monkeypatch.setattr(library, "SECTIONS", (*library.SECTIONS, "more"))
    with pytest.raises(UsageError, match="was compiled from other sources: install Dragoman"):
        library.Library(path)
