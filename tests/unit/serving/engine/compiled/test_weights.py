"""Quantized weights: the same block however it is made, once for a bundle, in little memory."""

from __future__ import annotations

import hashlib
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dragoman_export.bundle import export_bundle
from dragoman_serving.engine.compiled import coding, library, weights
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.compiled.weights import load_weights
from safetensors.numpy import load_file, save_file

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Dimensions, Manifest, sha256
from dragoman.kernel.replacement import KEPT_PREFIX
from tests.conftest import MakeBundle
from tests.unit.serving.engine.compiled.test_native import EVERYONE, native_scores

SIZES = Dimensions(200, 64, 128, 4, 1, 2, src_vocab_size=130)
SSRU_SIZES = replace(SIZES, decoder="ssru", norm_epsilon=1e-6, position_rates="inclusive")
BLOCK_DIGESTS = {
    3: (
        "037f1c904201466157fa9e11cb859d5394d52b4e3cfeb5fb2426de25e35973de",
        "1bce18c115318ef112d9779f416c3faa279aaa603c8d73290356fc326343ce98",
    )
}
"""Digests of `elaborate_weights` of both kinds of decoder, by `coding.CODING_VERSION`."""


@pytest.fixture(scope="module")
def exported(random_checkpoint: MakeBundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights") / "bundle"
    export_bundle(random_checkpoint("post"), folder)
    return folder


@pytest.fixture
def bundle(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy without cached codes, and an empty user cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "bundle"
    shutil.copytree(exported, folder)
    return folder


def kept(folder: Path) -> list[Path]:
    return sorted(folder.rglob(f"{KEPT_PREFIX}*"))


def refuse_to_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_block(*_: object) -> None:
        raise AssertionError("the weights are coded again")

    monkeypatch.setattr(weights, "write_block", write_block)


def write_elaborate_weights(path: Path, sizes: Dimensions = SIZES) -> None:
    """All tensors that a checkpoint may have, with numbers that are the same everywhere."""
    e, f = sizes.model_size, sizes.feed_forward_size
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.weight": (sizes.vocab_size, e),
        "own_output.weight": (sizes.vocab_size, e),
        "output_bias": (sizes.vocab_size,),
    }
    if sizes.src_vocab_size:
        shapes["src_embedding.weight"] = (sizes.src_vocab_size, e)
    of_decoder = (
        ("cross_attention",) if sizes.is_recurrent else ("self_attention", "cross_attention")
    )
    for side, layers, attentions in (
        ("encoder", sizes.encoder_layers, ("self_attention",)),
        ("decoder", sizes.decoder_layers, of_decoder),
    ):
        norms = [f"{side}_norm"]
        for name in (f"{side}_layers.{i}" for i in range(layers)):
            norms += [f"{name}.{part}_norm" for part in (*attentions, "feed_forward")]
            linears = {f"{name}.feed_forward.inner": (f, e), f"{name}.feed_forward.outer": (e, f)}
            for attention in attentions:
                for part, outputs in (("query", e), ("key_value", 2 * e), ("output", e)):
                    linears[f"{name}.{attention}.{part}"] = (outputs, e)
            if sizes.is_recurrent and side == "decoder":
                norms.append(f"{name}.ssru_norm")
                linears[f"{name}.ssru.forget"] = (e, e)
                shapes[f"{name}.ssru.candidate.weight"] = (e, e)
            for linear, shape in linears.items():
                shapes |= {f"{linear}.weight": shape, f"{linear}.bias": shape[:1]}
        for norm in norms:
            shapes |= {f"{norm}.weight": (e,), f"{norm}.bias": (e,)}
    generator = np.random.default_rng(7)
    # Only integers: the generators of other distributions use functions of the C library.
    tensors = {
        name: (generator.integers(-1000, 1001, shape) / 1024).astype(np.float32)
        for name, shape in shapes.items()
    }
    save_file(tensors, path)


def test_cached_codes_give_the_same_scores(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = Manifest.load(bundle)
    vocab_size = manifest.dimensions.vocab_size
    path, longest = bundle / manifest.weights, manifest.limits.max_target_tokens
    in_memory = load_weights(path, manifest.dimensions, longest, manifest.activation)
    assert not kept(bundle.parent)
    made = NativeNetwork(bundle, manifest)
    assert kept(bundle.parent) == kept(bundle) != []
    refuse_to_code(monkeypatch)
    mapped = NativeNetwork(bundle, Manifest.load(bundle))
    assert np.array_equal(mapped._weights.block, in_memory.block)
    of_made, of_mapped = (
        native_scores(network, vocab_size, EVERYONE) for network in (made, mapped)
    )
    assert np.array_equal(of_made, of_mapped)


def test_other_limits_and_weights_replace_cached_codes(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    NativeNetwork(bundle, manifest)
    (first,) = kept(bundle)
    limits = replace(manifest.limits, max_target_tokens=manifest.limits.max_target_tokens + 64)
    NativeNetwork(bundle, replace(manifest, limits=limits))
    (second,) = kept(bundle)
    assert first != second
    path = bundle / manifest.weights
    tensors = load_file(path)
    save_file({**tensors, "more": np.zeros(1, np.float32)}, path)
    files = {**manifest.files, manifest.weights: sha256(path)}
    NativeNetwork(bundle, replace(manifest, files=files))
    (third,) = kept(bundle)
    assert third not in (first, second)


def test_weights_that_were_replaced_after_the_check_are_not_kept(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    path = bundle / manifest.weights
    save_file({**load_file(path), "more": np.zeros(1, np.float32)}, path)
    with pytest.raises(UsageError, match="was changed while it was loaded: load it again"):
        NativeNetwork(bundle, manifest)
    assert not kept(bundle.parent)


def test_weights_that_are_replaced_while_they_are_coded_are_not_kept(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest.load(bundle)
    path = bundle / manifest.weights
    content, real = path.read_bytes(), coding.write_block

    def write_block(*arguments: Any) -> None:
        real(*arguments)
        path.unlink()
        path.write_bytes(content)

    monkeypatch.setattr(weights, "write_block", write_block)
    with pytest.raises(UsageError, match="was changed while it was loaded: load it again"):
        NativeNetwork(bundle, manifest)
    assert not kept(bundle.parent)


def test_codes_of_another_version_are_made_again(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest.load(bundle)
    NativeNetwork(bundle, manifest)
    (first,) = kept(bundle)
    monkeypatch.setattr(weights, "CODING_VERSION", coding.CODING_VERSION + 1)
    NativeNetwork(bundle, manifest)
    (second,) = kept(bundle)
    assert first != second


def test_the_version_changes_with_the_block(tmp_path: Path) -> None:
    """If this fails, raise `CODING_VERSION` and record its digest here."""
    path = tmp_path / "model.safetensors"
    hashes = []
    for sizes in (SIZES, SSRU_SIZES):
        write_elaborate_weights(path, sizes)
        block = load_weights(path, sizes, 40, "silu").block
        hashes.append(hashlib.sha256(block.tobytes()).hexdigest())
    assert tuple(hashes) == BLOCK_DIGESTS[coding.CODING_VERSION]


def test_large_weights_are_coded_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    write_elaborate_weights(path)
    whole = load_weights(path, SIZES, 40).block
    monkeypatch.setattr(coding, "_PIECE_ROWS", library.PANEL)
    assert np.array_equal(load_weights(path, SIZES, 40).block, whole)


def test_coding_needs_memory_for_only_one_part(tmp_path: Path) -> None:
    path, sizes = tmp_path / "model.safetensors", replace(SIZES, vocab_size=50_000)
    write_elaborate_weights(path, sizes)
    piece_bytes = coding._PIECE_ROWS * sizes.model_size
    digest = sha256(path)
    load_weights(path, sizes, 40, sha256=digest)
    (file,) = kept(tmp_path)
    file.unlink()
    tracemalloc.start()
    try:
        load_weights(path, sizes, 40, sha256=digest)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 16 * piece_bytes < 4 * sizes.model_size * sizes.vocab_size / 3


def test_tensors_of_other_sizes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    write_elaborate_weights(path)
    for vocab_size in (SIZES.vocab_size - 100, SIZES.vocab_size + 100):
        sizes = replace(SIZES, vocab_size=vocab_size)
        for digest in (None, sha256(path)):
            with pytest.raises(UsageError, match="not of the sizes that the manifest lists"):
                load_weights(path, sizes, 40, sha256=digest)
    assert not kept(tmp_path)
