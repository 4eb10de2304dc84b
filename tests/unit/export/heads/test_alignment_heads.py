from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.cli import main
from dragoman.kernel.manifest import Manifest
from tests.conftest import CommandLine
from tests.toy import reverse_pairs, write_pairs


def give_directions(bundle: Path, *directions: tuple[str, str]) -> None:
    """Add a third language and these directions to a bundle's manifest."""
    manifest = Manifest.load(bundle)
    ids = dataclasses.replace(manifest.special_ids, tags={**manifest.special_ids.tags, "fr": 0})
    dataclasses.replace(
        manifest, languages=("fr", "en", "de"), special_ids=ids, directions=directions
    ).write(bundle)


@pytest.fixture
def bundle(random_bundle: Path, tmp_path: Path) -> Path:
    """A copy of a bundle, beside the text `held`."""
    write_pairs(tmp_path / "held", reverse_pairs(100, seed=6), ("en", "de"))
    return Path(shutil.copytree(random_bundle, tmp_path / "bundle"))


def align_heads(bundle: Path) -> list[str]:
    """The command for a bundle and the text beside it."""
    return ["align-heads", str(bundle), "--text", "held", "--data-dir", str(bundle.parent)]


def test_the_command_writes_into_the_manifest(bundle: Path, cli: CommandLine) -> None:
    words = align_heads(bundle)
    first = cli.prints(*words, "--dry-run")
    assert Manifest.load(bundle).alignment is None
    assert cli.prints(*words) == first
    chosen = Manifest.load(bundle).alignment
    assert chosen is not None
    # Heads of random weights get most anchors wrong, whatever they agree on.
    assert (chosen.criterion, chosen.text) == ("anchors", "held")
    lines = first.splitlines()
    assert lines[0].startswith("by anchors, layer.head ")
    assert lines[2].startswith("by agreement, layer.head ")
    assert lines[4::2] == ["all heads:", "diagonal:", "chosen by anchors on held"]
    assert lines[7].startswith("  agreement 0.000 beyond position (100.0% of links, 100.0% by ")
    assert "--pairs 0: give at least 1" in cli.refusal(*words, "--pairs", "0")


def test_a_text_without_anchors_has_the_agreement_of_both_directions(
    bundle: Path, cli: CommandLine
) -> None:
    pairs = [(source, target.upper()[::-1]) for source, target in reverse_pairs(100, seed=6)]
    write_pairs(bundle.parent / "held", pairs, ("en", "de"))
    words = align_heads(bundle)
    printed = cli.prints(*words)
    chosen = Manifest.load(bundle).alignment
    assert chosen is not None
    assert (chosen.criterion, chosen.text) == ("agreement", "held")
    assert "by anchors" not in printed
    assert printed.splitlines()[1].startswith(f"  agreement {chosen.value:.3f} beyond position (")
    give_directions(bundle, ("en", "de"), ("de", "fr"), ("fr", "en"))
    assert "the text has 0 anchors" in cli.refusal(*words)


def test_one_direction_falls_back_to_anchors(bundle: Path, cli: CommandLine) -> None:
    values = []
    for ring in (("en", "de", "fr"), ("de", "en", "fr")):
        give_directions(bundle, *zip(ring, (*ring[1:], ring[0]), strict=True))
        printed = cli.prints(*align_heads(bundle))
        chosen = Manifest.load(bundle).alignment
        assert chosen is not None
        assert chosen.criterion == "anchors"
        assert "agreement" not in printed
        expected = f"  {chosen.value:.1%} of {chosen.count} anchors right"
        assert printed.splitlines()[1] == expected
        values.append(chosen.value)
    assert values[0] != values[1]  # it uses the direction of translation


def test_a_text_in_two_of_three_languages_is_enough(bundle: Path, cli: CommandLine) -> None:
    words = align_heads(bundle)
    printed = cli.prints(*words)
    give_directions(bundle, *itertools.permutations(("en", "de", "fr"), 2))
    assert cli.prints(*words) == printed
    give_directions(bundle, ("en", "fr"), ("fr", "en"), ("de", "fr"), ("fr", "de"))
    assert "--text held: the model translates nothing between [" in cli.refuses(*words)


def test_an_export_chooses_heads_too(
    random_checkpoint: Callable[[str], Path], tmp_path: Path, cli: CommandLine
) -> None:
    write_pairs(tmp_path / "held", reverse_pairs(100, seed=6), ("en", "de"))
    words = ["export", "onnx", str(random_checkpoint("post")), "--data-dir", str(tmp_path)]
    assert main([*words, "--out", str(tmp_path / "one"), "--alignment-text", "held"]) == 0
    assert Manifest.load(tmp_path / "one").alignment is not None
    printed = cli.refuses(*words, "--out", tmp_path / "two", "--alignment-text", "nowhere")
    assert "nowhere.de, ...: give the name without the language" in printed
    choose = f"choose heads with: dragoman align-heads {tmp_path / 'two'}"
    assert f"the bundle is complete; {choose}" in printed
    assert Manifest.load(tmp_path / "two").alignment is None
