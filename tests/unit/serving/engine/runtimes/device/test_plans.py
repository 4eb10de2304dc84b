"""Which TensorRT plans fit a machine; plans themselves are not loaded here."""

from __future__ import annotations

import dataclasses
import platform
from pathlib import Path

import pytest
from dragoman_serving.engine.runtimes.device.plans import (
    Target,
    cache_lengths,
    fitting_plans,
    fitting_profile,
    most_rows,
)

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest, PlanEntry, Profile, sha256

HERE = Target("tensorrt_rtx", "1.7.1", "8.9", "fp16")
GREEDY: Profile = {"input_ids": ((1,), (32,), (64,)), "src_lengths": ((1,), (32,), (64,))}
BEAMS: Profile = {"input_ids": ((1,), (32,), (256,)), "src_lengths": ((1,), (4,), (32,))}


PLANS: tuple[tuple[str, int | None], ...] = (
    *(("encoder", None), ("decoder", 64), ("decoder", 320), ("reorder", None)),
    *(("best_4", None), ("best_8", None), ("best_16", None)),
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def manifest(bundle: Path, random_bundle: Path) -> Manifest:
    """A manifest with plans whose files only contain their names."""
    manifest = Manifest.load(random_bundle)
    for graph, tokens in PLANS:
        file = bundle / f"{graph}_{tokens}.plan"
        file.write_text(file.name)
        manifest = manifest.with_plan(
            PlanEntry(
                graph=graph,
                file=file.name,
                sha256=sha256(file),
                precision="fp16",
                cache_tokens=tokens,
                library=HERE.library,
                version=HERE.version,
                compute_capability=HERE.compute_capability,
                platform=f"{platform.system()}-{platform.machine()}".lower(),
                profiles=(GREEDY, BEAMS),
                built_from={manifest.weights: manifest.files[manifest.weights]},
            )
        )
    return manifest


def test_plans_of_this_machine_fit(bundle: Path, manifest: Manifest) -> None:
    plans = fitting_plans(bundle, manifest, HERE)
    assert set(plans) == set(PLANS)
    assert cache_lengths(plans) == (64, 320)
    assert most_rows(plans) == 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "1.8.0"}, "tensorrt_rtx version: built for 1.7.1, here is 1.8.0"),
        ({"library": "tensorrt"}, "library: built for tensorrt_rtx, here is tensorrt"),
        ({"compute_capability": "9.0"}, "GPU's compute capability: built for 8.9, here is 9.0"),
        ({"precision": "bf16"}, "precision: built for fp16, here is bf16"),
    ],
)
def test_the_reason_is_reported_if_none_fits(
    bundle: Path, manifest: Manifest, change: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match="run dragoman export tensorrt") as caught:
        fitting_plans(bundle, manifest, dataclasses.replace(HERE, **change))
    assert message in str(caught.value)


def test_a_bundle_without_plans_is_refused(bundle: Path, random_bundle: Path) -> None:
    with pytest.raises(UsageError, match="has no TensorRT plans"):
        fitting_plans(bundle, Manifest.load(random_bundle), HERE)


def test_plans_of_other_weights_are_refused(bundle: Path, manifest: Manifest) -> None:
    manifest.files[manifest.weights] = "0" * 64
    with pytest.raises(UsageError, match=r"was built from another model\.safetensors"):
        fitting_plans(bundle, manifest, HERE)


def test_a_damaged_or_missing_plan_is_refused(bundle: Path, manifest: Manifest) -> None:
    (bundle / "decoder_64.plan").write_text("changed")
    with pytest.raises(UsageError, match=r"decoder_64\.plan: is not the file that was built"):
        fitting_plans(bundle, manifest, HERE)
    (bundle / "decoder_64.plan").unlink()
    with pytest.raises(UsageError, match=r"decoder_64\.plan: cannot be read"):
        fitting_plans(bundle, manifest, HERE)


@pytest.mark.parametrize("graph", ["encoder", "reorder", "best_4", "best_8", "best_16"])
def test_an_incomplete_set_is_refused(bundle: Path, manifest: Manifest, graph: str) -> None:
    others = tuple(plan for plan in manifest.plans if plan.graph != graph)
    with pytest.raises(UsageError, match=f"has no plan of {graph}:"):
        fitting_plans(bundle, dataclasses.replace(manifest, plans=others), HERE)


def test_the_profile_follows_the_shapes(manifest: Manifest) -> None:
    plan = manifest.plans[1]
    assert fitting_profile(plan, {"input_ids": (64,), "src_lengths": (64,)}) == 0
    assert fitting_profile(plan, {"input_ids": (128,), "src_lengths": (32,)}) == 1
    with pytest.raises(UsageError, match="was built for smaller shapes"):
        fitting_profile(plan, {"input_ids": (128,), "src_lengths": (64,)})
