from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dragoman.cli import main
from dragoman.errors import UsageError
from dragoman.manifest import Manifest
from dragoman.text import Tokenizer
from export.alignment_heads import Anchors, accuracy_of, anchors_of, choose_heads, find_anchors
from serving.scoring import Pair, ScoreGraph
from tests.toy import reverse_pairs, write_pairs


def spelt(source: str, target: str) -> list[tuple[str, str]]:
    return [(one[0], other[0]) for one, other in anchors_of(source, target)]


def test_anchors_stand_once_on_each_side_and_are_spelt_alike() -> None:
    assert spelt("Tom's 3 dogs", "TOM hat 3 Hunde") == [("Tom", "TOM"), ("3", "3")]
    assert spelt("Tom and Tom", "Tom und Maria") == []
    assert spelt("Mary", "Maria, Mary und mary") == []
    assert spelt("- _ !", "- _ !") == []


def synthetic(number: int = 400) -> Anchors:
    """Heads of two layers: one in the second knows a half, another the other half."""
    random = np.random.default_rng(0)
    right = np.zeros((number, 6), bool)
    places = random.integers(0, 6, number)
    right[np.arange(number), places] = True
    said = random.random((number, 2, 3, 6)).astype(np.float32)
    half = np.arange(number) % 2 == 0
    said[half, 1, 2] += 9 * right[half]
    said[~half, 1, 0] += 9 * right[~half]
    said[:40, 0, 1] += 2 * right[:40]
    said[:, 0, 0] += 20 * np.roll(right, 1, axis=1)  # wrong, and sure of it
    return Anchors(said, random.random(said.shape).astype(np.float32), right, np.zeros_like(places))


def test_heads_are_added_while_they_help() -> None:
    anchors = synthetic()
    choice = choose_heads(anchors, "synthetic")
    assert set(choice.heads.heads) == {(1, 0), (1, 2)}
    assert not choice.heads.when_read
    assert choice.heads.accuracy == 1.0
    assert (choice.heads.anchors, choice.heads.text) == (400, "synthetic")
    assert choice.all_heads < 0.5
    assert choice.diagonal == pytest.approx(anchors.right[:, 0].mean())


def test_the_step_is_chosen_too() -> None:
    anchors = synthetic()
    turned = Anchors(anchors.read, anchors.said, anchors.right, anchors.places)
    assert choose_heads(turned, "turned").heads.when_read


def test_anchors_are_looked_up_in_the_graph(random_bundle: Path) -> None:
    pairs = reverse_pairs(80, seed=4)
    anchors = find_anchors(random_bundle, pairs)
    assert anchors.said.shape == anchors.read.shape
    assert anchors.said.shape[:3] == (len(anchors.right), 3, 4)
    assert anchors.right.any(axis=1).all()
    # One pair by itself, word by word.
    manifest = Manifest.load(random_bundle)
    tokenizer = Tokenizer(random_bundle / manifest.tokenizer)
    source, target = next((s, t) for s, t in pairs if len(set(s.split())) == len(s.split()) == 3)
    src, tgt = tokenizer.encode_source(source, "de"), tokenizer.encode(target)
    _, (attention,) = ScoreGraph(random_bundle, manifest).run([Pair(tuple(src), tuple(tgt))])
    for piece in range(len(tgt)):
        expected = attention[:, :, piece, 1:-1]
        width = expected.shape[-1]
        near = np.abs(anchors.said[..., :width] - expected).max(axis=(1, 2, 3)) < 1e-4
        assert near.any(), piece
        assert not anchors.right[near][:, width:].any()


def test_too_few_anchors_are_no_ground_for_a_choice(random_bundle: Path) -> None:
    with pytest.raises(UsageError, match=r"the text has \d+ anchors.*less than 50"):
        find_anchors(random_bundle, reverse_pairs(2, seed=4))


def test_accuracy_is_that_of_the_largest_weight() -> None:
    weights = np.array([[0.1, 0.9], [0.8, 0.2]], np.float32)
    assert accuracy_of(weights, np.array([[False, True], [False, True]])) == 0.5


def test_the_command_writes_into_the_manifest(
    random_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = Path(shutil.copytree(random_bundle, tmp_path / "bundle"))
    write_pairs(tmp_path / "held", reverse_pairs(100, seed=6), ("en", "de"))
    words = ["align-heads", str(bundle), "--text", "held", "--data-dir", str(tmp_path)]
    assert main([*words, "--dry-run"]) == 0
    assert Manifest.load(bundle).alignment is None
    assert main(words) == 0
    chosen = Manifest.load(bundle).alignment
    assert chosen is not None
    assert chosen.text == "held"
    out = capsys.readouterr().out.splitlines()
    assert out[0] == out[1]
    assert f"{chosen.accuracy:.1%} of {chosen.anchors} anchors right on held" in out[0]
    assert main([*words, "--pairs", "0"]) == 2
    assert "--pairs 0: give at least 1" in capsys.readouterr().err


def test_an_export_chooses_heads_too(
    random_checkpoint: Callable[[str], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pairs(tmp_path / "held", reverse_pairs(100, seed=6), ("en", "de"))
    words = ["export", "onnx", str(random_checkpoint("post")), "--data-dir", str(tmp_path)]
    assert main([*words, "--out", str(tmp_path / "one"), "--alignment-text", "held"]) == 0
    assert Manifest.load(tmp_path / "one").alignment is not None
    assert main([*words, "--out", str(tmp_path / "two"), "--alignment-text", "nowhere"]) == 2
    printed = capsys.readouterr().err
    assert "nowhere.en: no such file" in printed
    assert f"the bundle is made; choose with: dragoman align-heads {tmp_path / 'two'}" in printed
    assert Manifest.load(tmp_path / "two").alignment is None
