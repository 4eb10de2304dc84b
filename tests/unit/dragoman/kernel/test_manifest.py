from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME, Limits, Manifest

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def bundle(random_bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(random_bundle, tmp_path / "bundle"))


def change(bundle: Path, how: Change) -> None:
    values = json.loads((bundle / FILE_NAME).read_text())
    how(values)
    (bundle / FILE_NAME).write_text(json.dumps(values))


def test_a_manifest_is_read_as_it_was_written(bundle: Path) -> None:
    manifest = Manifest.load(bundle)
    manifest.write(bundle)
    assert Manifest.load(bundle) == manifest
    assert set(manifest.graphs) == {
        *("encoder", "encoder_int8", "decoder", "decoder_int8", "best_4"),
        *("best_8", "best_16", "reorder", "score", "attention"),
    }


def test_bundles_from_before_alignments_are_read(bundle: Path) -> None:
    change(bundle, lambda m: m.pop("alignment"))
    assert Manifest.load(bundle).alignment is None
    change(bundle, lambda m: m.update(alignment=heads([0, 1], [2, 3])))
    alignment = Manifest.load(bundle).alignment
    assert alignment is not None
    assert alignment.heads == ((0, 1), (2, 3))


def test_bundles_from_before_shortlists_are_read(bundle: Path) -> None:
    identity = Manifest.load(bundle).identity
    change(bundle, lambda m: m.pop("shortlist"))
    manifest = Manifest.load(bundle)
    assert manifest.shortlist is None
    assert manifest.identity == identity


def heads(*places: list[int]) -> dict[str, Any]:
    measured = {"criterion": "agreement", "value": 1, "count": 9, "text": "held"}
    return {"heads": places, "when_read": False, **measured}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda m: m.update(format_version=99), "format_version is 99, this program reads 2"),
        (lambda m: m.update(colour="red"), "unknown key 'colour'"),
        (lambda m: m.pop("languages"), "the key 'languages' is missing"),
        (lambda m: m["files"].update({"../x": "0"}), "'../x' leaves the bundle's folder"),
        (lambda m: m["files"].update({"/etc/passwd": "0"}), "'/etc/passwd' leaves the bundle"),
        (lambda m: m["files"].update({"none": "0"}), "none: cannot be read"),
        (lambda m: m["files"].update({m["tokenizer"]: "0"}), "SHA-256 differs"),
        (lambda m: m.update(tokenizer="other"), "'other' is used but not listed"),
        (lambda m: m.update(shortlist="other"), "'other' is used but not listed"),
        (lambda m: m["files"].update({"../bundle/config.json": "0"}), "leaves the bundle"),
        (lambda m: m["files"].update({"a\0b": "0"}), "leaves the bundle"),
        (lambda m: m["files"].pop("model.safetensors"), "'model.safetensors' is used but not"),
        (lambda m: m["limits"].update(top_k=4), "limits.top_k is 4: less than twice"),
        (lambda m: m["limits"].update(target_ratio=float("nan")), "limits.target_ratio is nan"),
        (lambda m: m["limits"].update(length_penalty=11), "limits.length_penalty is 11.0: give 0"),
        (lambda m: m["limits"].update(length_penalty=float("nan")), "length_penalty is nan"),
        (lambda m: m["special_ids"].update(end=5000), "a special id is not below vocab_size"),
        (lambda m: m["dimensions"].update(heads=5), "5 heads do not divide 64"),
        (lambda m: m["dimensions"].update(heads=0), "dimensions.heads is 0"),
        (lambda m: m["dimensions"].update(decoder="rnn"), "decoder is 'rnn': give one of"),
        (lambda m: m["dimensions"].update(norm_epsilon=0), "dimensions.norm_epsilon is 0"),
        (lambda m: m["dimensions"].update(position_rates=2), "position_rates is 2: give one of"),
        (
            lambda m: m["limits"].update(target_margin_tokens=0, target_ratio=0.5),
            "limits.target_margin_tokens is 0: give 1 or more, or 0 with",
        ),
        (lambda m: m.update(languages=["en", "fr"], directions=[]), "lack tags: ['fr']"),
        (lambda m: m.update(alignment=heads([3, 0])), "there is no head 0 in layer 3"),
        (lambda m: m.update(alignment=heads([0])), "alignment: [0] is not a layer and a head"),
        (lambda m: m.update(alignment=heads([0, -1])), "there is no head -1 in layer 0"),
        (lambda m: m.update(alignment=heads()), "alignment: names no heads"),
        (lambda m: m.update(alignment={}), "alignment: the key 'heads' is missing"),
        (lambda m: m.update(directions=[["en", "fr"]]), "['en', 'fr'] are not two languages"),
        (lambda m: m.update(directions=[["en"]]), "['en'] are not two languages"),
        (
            lambda m: m.update(directions=[["en", "de"]], languages=["en", "de", "fr"]),
            "directions: none from 'fr' or into it",
        ),
        (lambda m: m["special_ids"].update(tags={}), "lack tags: ['de', 'en']"),
        (lambda m: m["special_ids"]["tags"].update(de=5000), "a tag is not below"),
        (
            lambda m: m.update(alignment={**heads([0, 0]), "criterion": "luck"}),
            "alignment: criterion is 'luck': give one of 'agreement', 'anchors'",
        ),
    ],
)
def test_a_bundle_that_does_not_match_its_manifest_is_refused(
    bundle: Path, how: Change, message: str
) -> None:
    change(bundle, how)
    with pytest.raises(UsageError) as caught:
        Manifest.load(bundle)
    assert message in str(caught.value)


def test_links_out_of_the_bundle_are_refused(bundle: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (bundle / "encoder.onnx").rename(outside)
    (bundle / "encoder.onnx").symlink_to(outside)
    with pytest.raises(UsageError, match=r"'encoder\.onnx' leaves the bundle's folder"):
        Manifest.load(bundle)


def test_missing_and_broken_manifests_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"manifest\.json: cannot be read"):
        Manifest.load(tmp_path)
    for damaged in ("{", "[" * 100_000):
        (tmp_path / FILE_NAME).write_text(damaged)
        with pytest.raises(UsageError, match=r"manifest\.json: not valid JSON"):
            Manifest.load(tmp_path)


def test_target_limits_follow_the_source() -> None:
    limits = Limits(max_target_tokens=50, target_ratio=2.0, target_margin_tokens=10)
    assert [limits.target_tokens(length) for length in (1, 10, 100)] == [12, 30, 50]
    without_margin = replace(limits, target_margin_tokens=0)
    assert [without_margin.target_tokens(length) for length in (1, 10, 100)] == [2, 20, 50]
