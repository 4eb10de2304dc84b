"""The graph of all heads compared with PyTorch, and in bundles of earlier versions."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dragoman_export.bundle import add_attention_graph, export_bundle
from dragoman_export.checks import TOLERANCE
from dragoman_serving.engine.runtimes.onnx_session import load_graph
from dragoman_serving.scoring.score_graphs import AttentionGraph
from dragoman_serving.scoring.token_pair import TokenPair
from dragoman_training.network.attention_weights import look
from dragoman_training.run import checkpoint

from dragoman.cli import main
from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.tensors import ATTENTION_GRAPH, ATTENTION_NAMES
from tests.conftest import REPOSITORY, CommandLine, MakeBundle
from tests.tiny_models import tiny_model

SHIPPED = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"


@pytest.fixture
def old_bundle(random_bundle: Path, tmp_path: Path) -> Path:
    """A bundle without the graph, as older releases wrote it."""
    path = tmp_path / "old"
    shutil.copytree(random_bundle, path)
    manifest = Manifest.load(path)
    file = manifest.graphs[ATTENTION_GRAPH].file
    (path / file).unlink()
    replace(
        manifest,
        graphs={name: graph for name, graph in manifest.graphs.items() if name != ATTENTION_GRAPH},
        files={name: digest for name, digest in manifest.files.items() if name != file},
    ).write(path)
    return path


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_weights_equal_pytorchs(norm: str, random_checkpoint: MakeBundle, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    manifest = export_bundle(random_checkpoint(norm), bundle)
    random = np.random.default_rng(3)
    src_ids, tgt_ids = random.integers(6, 300, (4, 11)), random.integers(6, 300, (4, 7))
    lengths = np.array([11, 8, 3, 1])
    weights = load_graph(bundle, manifest, ATTENTION_GRAPH).run(
        ATTENTION_NAMES, {"input_ids": src_ids, "src_lengths": lengths, "tgt_in_ids": tgt_ids}
    )
    keep = torch.arange(11) < torch.from_numpy(lengths)[:, None]
    right = look(tiny_model(norm), torch.from_numpy(src_ids), keep, torch.from_numpy(tgt_ids))
    for name, array, expected in zip(ATTENTION_NAMES, weights, right, strict=True):
        assert array.shape == expected.shape
        # The queries at padding are never read.
        rows = keep[:, None, None, :, None] if name == "encoder_attention" else torch.tensor(True)
        difference = (torch.from_numpy(array) - expected).abs() * rows
        assert difference.max() < TOLERANCE["fp32"], name
        np.testing.assert_allclose(array.sum(-1), 1.0, atol=1e-5)
    encoder, decoder, cross = weights
    assert not np.triu(decoder, 1).any()
    for sentence, length in enumerate(lengths):
        assert not encoder[sentence, ..., length:].any()
        assert not cross[sentence, ..., length:].any()


def test_the_shipped_models_weights_equal_pytorchs() -> None:
    loaded = checkpoint.load(SHIPPED)
    src_ids = loaded.tokenizer.encode_source("The animal didn't cross the street.", "de")
    tgt_ids = loaded.tokenizer.encode("Das Tier überquerte die Straße nicht.")
    weights = AttentionGraph(SHIPPED, Manifest.load(SHIPPED)).run(
        TokenPair(tuple(src_ids), tuple(tgt_ids))
    )
    src = torch.tensor([src_ids])
    read = torch.tensor([[2, *tgt_ids]])
    right = look(loaded.model, src, torch.ones_like(src, dtype=torch.bool), read)
    for array, expected in zip(weights, right, strict=True):
        assert np.abs(array - expected[0].numpy()).max() < TOLERANCE["fp32"]


def test_an_older_bundle_gets_the_graph_and_nothing_else_changes(
    old_bundle: Path, random_bundle: Path, cli: CommandLine
) -> None:
    before = {path.name: path.read_bytes() for path in old_bundle.iterdir()}
    assert cli.prints("export", "attention", old_bundle) == f"{old_bundle / 'attention.onnx'}\n"
    after = {path.name: path.read_bytes() for path in old_bundle.iterdir()}
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"attention.onnx", "manifest.json"}
    assert after["attention.onnx"] == (random_bundle / "attention.onnx").read_bytes()
    assert Manifest.load(old_bundle).graphs == Manifest.load(random_bundle).graphs
    assert "already has the graph 'attention'" in cli.refuses("export", "attention", old_bundle)


def test_an_older_bundle_is_served_but_not_drawn(
    old_bundle: Path, tmp_path: Path, cli: CommandLine
) -> None:
    drawing = ["attention", "red", "--model", str(old_bundle), "--out", str(tmp_path / "a.html")]
    for words in ([], ["--translation", "blue"]):
        stderr = cli.refuses(*drawing, *words)
        assert stderr.count("\n") == 1
        assert "the bundle has no graph 'attention'" in stderr
        assert "dragoman export attention BUNDLE" in stderr
    assert main(["export", "attention", str(old_bundle)]) == 0
    assert main(drawing) == 0
    assert "▁red" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_folder_without_a_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"manifest\.json: cannot be read"):
        add_attention_graph(tmp_path)
