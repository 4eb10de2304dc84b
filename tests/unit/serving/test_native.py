"""The compiled code against plain NumPy and against ONNX Runtime."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dragoman.errors import UsageError
from dragoman.manifest import Dimensions, Manifest
from export.bundle import export_bundle
from serving.engine.cache import Cache, Floats, Ids
from serving.engine.native import library
from serving.engine.native.session import NativeSession, native_obstacle
from serving.engine.native.weights import load_weights, sizes_obstacle
from serving.engine.onnx_session import OnnxSession
from serving.engine.session import Session
from tests.conftest import MakeBundle

LENGTHS = np.array([3, 17, 9, 33, 1])
STEPS = 20

pytestmark = pytest.mark.skipif(
    library.obstacle() is not None, reason=f"native: {library.obstacle()}"
)


@pytest.fixture(scope="module", params=["pre", "post"])
def bundle(
    request: pytest.FixtureRequest,
    random_checkpoint: MakeBundle,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("native") / "bundle"
    export_bundle(random_checkpoint(request.param), folder)
    return folder


def source(vocab_size: int) -> Ids:
    generator = np.random.default_rng(3)
    ids = generator.integers(6, vocab_size, (len(LENGTHS), LENGTHS.max()))
    return np.where(np.arange(LENGTHS.max()) < LENGTHS[:, None], ids, 0)


def scores(session: Session, chosen: list[int], vocab_size: int) -> Floats:
    """Logits [steps, R, V] of some of the sentences, after random tokens."""
    ids = source(vocab_size)[chosen]
    cache = Cache(session.cache_shape, 1)
    cache.join(session.encode(ids, LENGTHS[chosen]), LENGTHS[chosen])
    tokens = np.random.default_rng(4).integers(6, vocab_size, (STEPS, len(LENGTHS)))[:, chosen]
    found = []
    for position in range(STEPS):
        cache.fit(position + 1)
        logits = session.step(cache, tokens[position], np.full(len(chosen), position))
        found.append(logits.copy())
    return np.array(found)


def test_it_computes_what_onnx_runtime_computes(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    vocab_size, everyone = manifest.dimensions.vocab_size, list(range(len(LENGTHS)))
    right = scores(OnnxSession(bundle, manifest, "fp32"), everyone, vocab_size)
    found = scores(NativeSession(bundle, manifest), everyone, vocab_size)
    spread = right.std(axis=-1).mean()
    assert np.abs(found - right).mean() < 0.03 * spread
    assert np.abs(found - right).max() < 0.3 * spread


@pytest.mark.parametrize("chosen", [[0], [3], [4, 1], [2, 3, 0, 1], [1] * 5 + [3] * 8])
def test_a_row_does_not_depend_on_its_neighbours(bundle: Path, chosen: list[int]) -> None:
    manifest = Manifest.load(bundle)
    session, vocab_size = NativeSession(bundle, manifest), manifest.dimensions.vocab_size
    together = scores(session, list(range(len(LENGTHS))), vocab_size)
    assert np.array_equal(scores(session, chosen, vocab_size), together[:, chosen])


def test_rows_that_begin_are_computed_once_and_come_to_the_same(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    session, width = NativeSession(bundle, manifest), 3
    ids = source(manifest.dimensions.vocab_size)
    generator = np.random.default_rng(7)
    said = generator.integers(6, manifest.dimensions.vocab_size, (3, len(LENGTHS), width))
    said[0] = said[1, 2:] = 2  # each sentence's first; the last ones join after a step
    together, alone = Cache(session.cache_shape, width), Cache(session.cache_shape, 1)
    twice = [row for row in range(len(LENGTHS)) for _ in range(width)]
    alone.join(session.encode(ids[twice], LENGTHS[twice]), LENGTHS[twice])
    positions = np.zeros(len(twice), np.int64)
    early = 2 * width
    for step in range(3):
        if step < 2:
            joining = slice(0, 2) if step == 0 else slice(2, None)
            together.join(session.encode(ids[joining], LENGTHS[joining]), LENGTHS[joining])
        rows = early if step == 0 else len(twice)
        tokens = said[step].reshape(-1)
        found = session.step(together, tokens[:rows], positions[:rows]).copy()
        if step == 0:  # the late ones' first step is yet to come
            tokens = np.where(np.arange(len(tokens)) < early, tokens, 2)
        expected = session.step(alone, tokens, positions)[:rows]
        assert np.array_equal(found, expected)
        positions[:rows] += 1


def test_the_best_are_the_best(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    session = NativeSession(bundle, manifest)
    cache, width = Cache(session.cache_shape, 4), 4
    ids = source(manifest.dimensions.vocab_size)
    cache.join(session.encode(ids, LENGTHS), LENGTHS)
    rows = len(LENGTHS) * width
    tokens = np.random.default_rng(5).integers(6, manifest.dimensions.vocab_size, len(LENGTHS))
    tokens = np.repeat(tokens, width)
    logits = session.step(cache, tokens, np.zeros(rows, np.int64))
    assert np.array_equal(session.likeliest(logits), logits.argmax(axis=1))
    log_probs, best = session.best(logits, 8)
    in_order = np.argsort(-logits, axis=1, kind="stable")[:, :8]
    assert np.array_equal(best, in_order)
    right = np.take_along_axis(logits - log_sum(logits), in_order, axis=1)
    assert np.allclose(log_probs, right, atol=1e-5)


def log_sum(logits: Floats) -> npt.NDArray[np.float64]:
    most = logits.max(axis=1, keepdims=True).astype(np.float64)
    total: npt.NDArray[np.float64] = most + np.log(np.exp(logits - most).sum(1, keepdims=True))
    return total


def test_a_vocabulary_need_not_fill_its_last_panel() -> None:
    """The columns that fill it up are never chosen, whatever the scores."""
    lib, rows, vocab_size, panels = library.load(), 3, 70, 2
    generator = np.random.default_rng(6)
    memory = np.full((rows, panels * (library.PANEL + 1)), -np.inf, np.float32)
    memory[:, :vocab_size] = -1000 - generator.random((rows, vocab_size), np.float32)
    by_panel = memory[:, : panels * library.PANEL].reshape(rows, panels, library.PANEL)
    memory[:, panels * library.PANEL :] = by_panel.max(axis=2)
    log_probs, ids = np.empty((rows, 16), np.float32), np.empty((rows, 16), np.int64)
    lib.best(
        *(memory.ctypes.data, rows, panels, 16),
        *(log_probs.ctypes.data, ids.ctypes.data),
    )
    right = np.argsort(-memory[:, :vocab_size], axis=1, kind="stable")[:, :16]
    assert np.array_equal(ids, right)
    assert np.exp(log_probs).sum(axis=1) == pytest.approx(16 / vocab_size, rel=0.5)


@pytest.mark.parametrize(("model_size", "heads", "name"), [(96, 2, "model_size"), (64, 8, "head")])
def test_sizes_that_do_not_fit_are_named(model_size: int, heads: int, name: str) -> None:
    sizes = Dimensions(100, model_size, 128, heads, 1, 1)
    assert name in str(sizes_obstacle(sizes))
    assert name in str(native_obstacle(sizes))


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


def test_what_lies_outside_the_model_is_never_read(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    session, vocab_size = NativeSession(bundle, manifest), manifest.dimensions.vocab_size
    for ids in ([[vocab_size]], [[-1]], [[5] * 2000]):
        with pytest.raises(ValueError, match="source ids"):
            session.encode(np.array(ids), np.array([len(ids[0])]))
    cache = Cache(session.cache_shape, 1)
    cache.join(session.encode(np.array([[5, 3]]), np.array([2])), np.array([2]))
    cache.fit(2000)
    with pytest.raises(ValueError, match="2048 tokens"):
        session.step(cache, np.array([5]), np.array([1999]))


def test_a_library_from_other_sources_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = library._find()
    assert path is not None
    library.Library(path)
    monkeypatch.setattr(library, "SECTIONS", (*library.SECTIONS, "more"))
    with pytest.raises(UsageError, match="was compiled from other sources: install Dragoman"):
        library.Library(path)


def test_more_candidates_than_the_code_ranks_are_refused(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    limits = dataclasses.replace(manifest.limits, top_k=library.MOST_BEST + 1)
    with pytest.raises(UsageError, match=r"limits.top_k is 1025, more than 1024"):
        NativeSession(bundle, dataclasses.replace(manifest, limits=limits))
