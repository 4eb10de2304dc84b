from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import safetensors.torch
import torch
from dragoman_export.bundle import export_bundle
from dragoman_export.checks import Outcome, in_turn
from dragoman_export.parity import verify
from dragoman_export.publishing import publish
from dragoman_export.tensorrt.plans import PlanSettings, build_plans
from dragoman_serving.engine.compiled.coding import Tensors, write_block
from dragoman_serving.engine.compiled.library import Sizes
from dragoman_serving.engine.runtimes.onnx_session import OnnxSession
from dragoman_serving.launch.repository import read_config
from dragoman_training.config import RunConfig, VocabularyConfig
from dragoman_training.run import checkpoint

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import FILE_NAME, Limits, Manifest, digests
from tests.conftest import REPOSITORY
from tests.saturation import saturate
from tests.tiny_models import VOCAB_SIZE, random_ssru_model, tiny_config, tiny_model
from tests.toy import reverse_pairs

PAIRS = reverse_pairs(6, seed=3)
TEXTS = [*((pair[0], "de") for pair in PAIRS), *((pair[1], "en") for pair in PAIRS)]

NETWORKS = "int8, native", "int8"

MakeCheckpoint = Callable[[str], Path]

each_norm_and_storage = pytest.mark.parametrize(
    ("norm", "storage"),
    [
        # Each of both; the position of the norm and the stored type do not depend on each other.
        *(("post", "fp32"), ("pre", "fp16"), ("post", "int8")),
        *(
            pytest.param(norm, storage, marks=pytest.mark.thorough)
            for norm, storage in (("pre", "fp32"), ("post", "fp16"), ("pre", "int8"))
        ),
    ],
)


def failures(bundle: Path) -> list[Outcome]:
    return [outcome for outcome in verify(bundle, TEXTS) if outcome.failed]


@each_norm_and_storage
def test_bundles_generate_the_same_tokens_as_pytorch(
    random_checkpoint: MakeCheckpoint, norm: str, storage: str, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    export_bundle(random_checkpoint(norm), bundle, storage)  # type: ignore[arg-type]
    outcomes = list(verify(bundle, TEXTS))
    assert [outcome for outcome in outcomes if outcome.failed] == []
    checks = {outcome.check for outcome in outcomes}
    assert {"tokens: greedy", "tokens: beam 4", "score: values", "reorder: values"} <= checks


def with_number(checkpoint: Path, name: str) -> None:
    path = checkpoint / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    weights[name].view(-1)[0] = 1e5
    safetensors.torch.save_file(weights, path)


def test_tensors_that_fp16_cannot_hold_stay_in_fp32(
    random_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    checkpoint, bundle = random_checkpoint("post"), tmp_path / "bundle"
    name = "encoder_layers.0.feed_forward.inner.bias"
    with_number(checkpoint, name)
    export_bundle(checkpoint, bundle, "fp16")
    weights = safetensors.torch.load_file(bundle / "model.safetensors")
    assert [weight for weight in weights if weights[weight].dtype == torch.float32] == [name]
    assert weights[name][0] == 1e5
    assert failures(bundle) == []


def test_embeddings_that_the_engine_cannot_hold_are_refused(
    random_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    checkpoint = random_checkpoint("post")
    with_number(checkpoint, "embedding.weight")
    with pytest.raises(UsageError, match=r"embedding\.weight: has 100000, and fp16 holds at most"):
        export_bundle(checkpoint, tmp_path / "bundle")
    assert [*tmp_path.iterdir()] == []


def test_features_of_imported_models_are_exported_too(elaborate_bundle: Path) -> None:
    assert failures(elaborate_bundle) == []


@each_norm_and_storage
def test_an_ssru_decoder_generates_the_same_tokens_as_pytorch(
    norm: str, storage: str, tokenizer_path: Path, tmp_path: Path
) -> None:
    model = random_ssru_model(norm)
    config = RunConfig(model=model.config, vocabulary=VocabularyConfig(size=VOCAB_SIZE))
    checkpoint.save(tmp_path / "checkpoint", model.state_dict(), config, tokenizer_path)
    bundle = tmp_path / "bundle"
    export_bundle(tmp_path / "checkpoint", bundle, storage)  # type: ignore[arg-type]
    outcomes = list(verify(bundle, TEXTS))
    assert [outcome for outcome in outcomes if outcome.failed] == []
    checks = {outcome.check for outcome in outcomes}
    assert {"tokens: beam 4", "score: values", "reorder_states: values"} <= checks
    attention = {check for check in checks if check.startswith("attention: ") and ", " not in check}
    assert attention == {"attention: encoder_attention", "attention: cross_attention"}


def test_int8_graphs_are_compared_only_where_their_products_are_exact(
    random_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    """Where they saturate, the compiled library serves int8, so its own checks decide."""
    bundle = tmp_path / "bundle"
    export_bundle(random_checkpoint("post"), bundle)
    saturate(bundle)
    ends = "in a batch as alone", "as the oracle or near it"
    native, of_tokens = ({f"tokens: {name}, {end}" for end in ends} for name in NETWORKS)
    of_graphs = {"encoder_int8: values", "decoder_int8: cached step = full prefix"}
    outcomes = {outcome.check: outcome for outcome in verify(bundle, TEXTS, exact=True)}
    failed = {check for check, outcome in outcomes.items() if outcome.failed}
    assert of_graphs <= failed <= of_graphs | of_tokens
    assert native <= outcomes.keys()
    outcomes = {outcome.check: outcome for outcome in verify(bundle, TEXTS, exact=False)}
    skipped = {check for check, outcome in outcomes.items() if outcome.passed is None}
    assert skipped == of_graphs | of_tokens
    assert all("not comparable on this CPU" in outcomes[check].detail for check in skipped)
    assert {outcome.passed for check, outcome in outcomes.items() if check not in skipped} == {True}
    assert native <= outcomes.keys()


def test_a_wrong_graph_fails_several_checks_at_once(
    random_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    manifest = export_bundle(random_checkpoint("post"), bundle)
    for name in ("encoder", "decoder"):
        path = bundle / manifest.graphs[name].file
        model = onnx.load(path, load_external_data=False)
        norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
        (epsilon,) = (a for a in norms[-1].attribute if a.name == "epsilon")
        epsilon.f = 0.5
        path.write_bytes(model.SerializeToString())
    replace(manifest, files=digests(bundle, manifest.files)).write(bundle)
    checks = {outcome.check for outcome in failures(bundle)}
    assert {"encoder: values", "decoder: cached step = full prefix"} <= checks
    assert "reorder: values" not in checks


def test_tensors_of_other_names_are_refused(random_bundle: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.symlink_to(random_bundle)
    manifest = Manifest.load(bundle)
    entry = manifest.graphs["encoder"]
    renamed = replace(entry, inputs=(replace(entry.inputs[0], name="ids"), entry.inputs[1]))
    changed = replace(manifest, graphs={**manifest.graphs, "encoder": renamed})
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in manifest.files:
        (copy / name).write_bytes((bundle / name).read_bytes())
    changed.write(copy)
    assert [outcome.check for outcome in failures(copy)] == ["encoder: names, types, shapes"]
    with pytest.raises(UsageError, match=r"encoder\.onnx: inputs \['input_ids'"):
        OnnxSession(copy, changed)


def test_graphs_and_checkpoint_share_their_weights(
    random_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    manifest = export_bundle(random_checkpoint("pre"), bundle, "fp16")
    weights = safetensors.torch.load_file(bundle / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    model = onnx.load(bundle / manifest.graphs["encoder"].file)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            array = onnx.numpy_helper.to_array(tensor)
            assert np.array_equal(array, weights[tensor.name].numpy()), tensor.name
    graph_bytes = sum((bundle / graph.file).stat().st_size for graph in manifest.graphs.values())
    # The position table, 320 x 32 floats, is the largest thing in a graph.
    assert graph_bytes < 6 * 4 * 320 * 32 + 450_000


def products(bundle: Path) -> bytes:
    """The compiled code's weights without the table of embeddings."""
    config = tiny_config("pre")
    names = [field[0] for field in Sizes._fields_ if hasattr(config, field[0])]
    sizes = Sizes(**{name: getattr(config, name) for name in names if name != "activation"})
    sizes.longest = 10
    block = bytearray()
    write_block(
        Tensors(bundle / "model.safetensors"), sizes, lambda data: block.extend(bytes(data))
    )
    table = 2 * config.vocab_size * config.model_size
    return bytes(block[-(-ctypes.sizeof(Sizes) // 64) * 64 + -(-table // 64) * 64 :])


@pytest.mark.parametrize("seed", range(3))
def test_storage_in_int8_keeps_the_codes_of_products(
    random_checkpoint: MakeCheckpoint, seed: int, tmp_path: Path
) -> None:
    source = shutil.copytree(random_checkpoint("pre"), tmp_path / "checkpoint")
    weights = safetensors.torch.load_file(source / "model.safetensors")
    torch.manual_seed(seed)
    for name, weight in weights.items():
        if weight.ndim == 2:
            weights[name] = torch.randn(weight.shape) * torch.rand(len(weight), 1)
    safetensors.torch.save_file(weights, source / "model.safetensors")
    export_bundle(source, tmp_path / "fp32", "fp32")
    export_bundle(source, tmp_path / "int8", "int8")
    export_bundle(tmp_path / "int8", tmp_path / "again", "int8")
    assert products(tmp_path / "int8") == products(tmp_path / "fp32")
    stored = [tmp_path / name / "model.safetensors" for name in ("fp32", "int8", "again")]
    assert stored[1].read_bytes() == stored[2].read_bytes()
    assert stored[1].stat().st_size < 0.3 * stored[0].stat().st_size


def test_plans_of_weights_in_int8_are_refused(
    random_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    export_bundle(random_checkpoint("pre"), tmp_path / "bundle", "int8")
    with pytest.raises(UsageError, match=r"TensorRT cannot read .* --storage fp16"):
        next(build_plans(tmp_path / "bundle", PlanSettings()))


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("make", [export_bundle, publish])
def test_folders_in_use_are_replaced_only_by_force(
    make: Callable[..., Any], random_bundle: Path, tmp_path: Path
) -> None:
    """Even with force, a folder is kept if it has files that this function did not write."""
    out, foreign = tmp_path / "out", tmp_path / "home"
    foreign.mkdir()
    (foreign / "letter.txt").write_text("precious")
    make(random_bundle, out)
    made = files_of(out)
    with pytest.raises(UsageError, match="out exists: give --force to replace it"):
        make(random_bundle, out)
    make(random_bundle, out, force=True)
    assert files_of(out).keys() == made.keys()
    for folder in (foreign, out):
        (folder / "letter.txt").write_text("precious")
        before = files_of(folder)
        with pytest.raises(UsageError):
            make(random_bundle, folder, force=True)
        assert files_of(folder) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "out"]


def test_a_bundle_is_not_exported_into_itself(random_bundle: Path) -> None:
    with pytest.raises(UsageError, match="is both input and output"):
        export_bundle(random_bundle, random_bundle, force=True)


def test_limits_must_fit_the_vocabulary(random_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    limits = Limits(max_beam_width=200, top_k=400)
    with pytest.raises(UsageError, match="top_k is 400: more than the vocabulary's 320"):
        export_bundle(random_checkpoint("post"), tmp_path / "bundle", limits=limits)


def test_exports_are_identical_bytes(random_checkpoint: MakeCheckpoint, tmp_path: Path) -> None:
    source = random_checkpoint("post")
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-m", "dragoman", "export", "onnx", source, "--out", tmp_path / seed],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=REPOSITORY,
            check=True,
        )
    assert Manifest.load(tmp_path / "1").files == Manifest.load(tmp_path / "2").files


def test_a_peaked_models_scores_stay_finite_and_correct(
    tokenizer_path: Path, tmp_path: Path
) -> None:
    model = tiny_model()
    with torch.no_grad():
        model.embedding.weight.mul_(30.0)  # logits hundreds apart
    config = RunConfig(model=tiny_config(), vocabulary=VocabularyConfig(size=320))
    checkpoint.save(tmp_path / "peaked", model.state_dict(), config, tokenizer_path)
    export_bundle(tmp_path / "peaked", tmp_path / "bundle")
    # Eight bits are too few for a random model with such sharp logits.
    failed = [o for o in failures(tmp_path / "bundle") if "int8" not in o.check]
    assert failed == []


def test_a_published_repository_has_the_whole_bundle(random_bundle: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    publish(random_bundle, repository)
    folder = repository / "translate"
    assert not read_config(folder / "config.pbtxt").input  # the backend sets them
    for model in ("translate_stream", "score"):
        assert (repository / model / "1").is_dir()
    assert Manifest.load(folder / "1" / "bundle") == Manifest.load(random_bundle)
    assert (folder / "1" / "bundle" / FILE_NAME).is_file()


def test_values_of_every_target_language_are_compared() -> None:
    sources = [([1], "de"), ([2], "de"), ([3], "de"), ([4], "en"), ([5], "fr"), ([6], "fr")]
    assert in_turn(sources) == [[1], [4], [5], [2], [6], [3]]


def test_no_plans_are_built_for_an_ssru_decoder(ssru_bundle: Path) -> None:
    with pytest.raises(UsageError, match="its decoder is an SSRU, for which no TensorRT plans"):
        next(build_plans(ssru_bundle, PlanSettings()))
