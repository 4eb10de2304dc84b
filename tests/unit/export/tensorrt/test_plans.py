"""TensorRT's own parser and compiler, from TensorRT-RTX on PyPI, on every graph; without a GPU.

Reading a plan back needs a GPU, so the tests check the parsed network, and that a plan is built
from it.
"""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import onnxruntime
import pytest
from dragoman_export.tensorrt.calibration import calibrate
from dragoman_export.tensorrt.plain_cache import without_scatter
from dragoman_export.tensorrt.plans import PlanRequest, PlanSettings, build, parse, requests
from dragoman_export.tensorrt.quantized_products import Products
from dragoman_serving.engine.runtimes.tensorrt_library import TensorRT, load
from dragoman_serving.engine.settings import FloatPrecision, Precision, QuantizedPrecision

from dragoman.cli import main
from dragoman.kernel.manifest import Manifest, TensorEntry, sha256
from dragoman.kernel.tensors import cache_tensors, plain_name, plan_name
from lab.peers.models.base_model import write_random_bundle
from tests.conftest import REPOSITORY

pytest.importorskip("tensorrt_rtx")

SHIPPED = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
CAPABILITIES = ("8.9", pytest.param("12.0", marks=pytest.mark.thorough))
PRECISIONS = get_args(FloatPrecision)
SOURCES = [[5, 9, 8, 7, 3], [5, 11, 3]]


@pytest.fixture(scope="module")
def library() -> TensorRT:
    return load("tensorrt_rtx")


@pytest.fixture(scope="module")
def base_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The base size of Vaswani et al. 2017, with random weights."""
    return write_random_bundle(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def products() -> Products:
    """The inputs of the shipped model's products."""
    return calibrated(SHIPPED)


@functools.cache
def calibrated(bundle: Path) -> Products:
    return calibrate(bundle, Manifest.load(bundle), SOURCES)


@pytest.fixture(params=["shipped", "elaborate_bundle"])
def bundle(request: pytest.FixtureRequest) -> Path:
    return SHIPPED if request.param == "shipped" else request.getfixturevalue(request.param)


def wanted_plan(bundle: Path, graph: str, settings: PlanSettings) -> PlanRequest:
    """The first plan of a graph; for a graph that the engine does not need, without profiles."""
    plans = requests(Manifest.load(bundle), settings)
    return next((plan for plan in plans if plan.graph == graph), PlanRequest(graph, ()))


def shape(tensor: TensorEntry, cache_tokens: int | None) -> list[int]:
    """The shape that the network should have: -1 for a dynamic dimension."""
    fixed = {} if cache_tokens is None else {"C": cache_tokens}
    return [int(size) if size.isdigit() else fixed.get(size, -1) for size in tensor.shape]


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "graph",
    ["encoder", "decoder", "reorder", "best_4", "best_8", "best_16", "score", "attention"],
)
def test_the_network_matches_the_manifest(
    library: TensorRT, bundle: Path, graph: str, precision: FloatPrecision
) -> None:
    trt, manifest = library.module, Manifest.load(bundle)
    plan = wanted_plan(bundle, graph, PlanSettings(precision))
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = library.create_network(builder)
    parse(bundle, manifest, plan, precision, trt, network, logger)
    layers = manifest.dimensions.decoder_layers
    cache = cache_tensors(layers)
    cache_type = {"fp32": trt.float32, "fp16": trt.float16, "bf16": trt.bfloat16}[precision]
    types = {"int64": trt.int64, "float32": trt.float32}
    for tensors, listed in (
        (list(map(network.get_input, range(network.num_inputs))), manifest.graphs[graph].inputs),
        (list(map(network.get_output, range(network.num_outputs))), manifest.graphs[graph].outputs),
    ):
        assert [tensor.name for tensor in tensors] == [tensor.name for tensor in listed]
        for tensor, entry in zip(tensors, listed, strict=True):
            dtype = cache_type if tensor.name in cache else types[entry.dtype]
            assert tensor.dtype == dtype, tensor.name
            assert list(tensor.shape) == shape(entry, plan.cache_tokens), tensor.name
    kinds = [network.get_layer(index).type for index in range(network.num_layers)]
    updates = 2 * layers if graph == "decoder" else 0
    assert kinds.count(trt.LayerType.KV_CACHE_UPDATE) == updates


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize(
    ("precision", "graph"),
    [
        *(("fp32", "decoder"), ("fp16", "encoder"), ("fp16", "decoder"), ("bf16", "decoder")),
        *(
            pytest.param(precision, "encoder", marks=pytest.mark.thorough)
            for precision in ("fp32", "bf16")
        ),
    ],
)
def test_a_plan_is_built(
    library: TensorRT, precision: FloatPrecision, graph: str, capability: str
) -> None:
    sizes = Manifest.load(SHIPPED).dimensions
    assert plan_bytes(library, precision, graph, capability) > sizes.vocab_size * sizes.model_size


@functools.cache
def plan_bytes(library: TensorRT, precision: FloatPrecision, graph: str, capability: str) -> int:
    settings = PlanSettings(precision)
    request = wanted_plan(SHIPPED, graph, settings)
    return len(build(SHIPPED, Manifest.load(SHIPPED), request, library, settings, capability))


@pytest.mark.parametrize("graph", ["encoder", "decoder"])
@pytest.mark.parametrize("precision", get_args(QuantizedPrecision))
@pytest.mark.parametrize("which", ["shipped", "elaborate_bundle"])
def test_a_network_multiplies_8_bit_numbers(
    library: TensorRT,
    which: str,
    precision: QuantizedPrecision,
    graph: str,
    request: pytest.FixtureRequest,
) -> None:
    bundle = SHIPPED if which == "shipped" else request.getfixturevalue(which)
    trt, manifest = library.module, Manifest.load(bundle)
    products = calibrated(bundle)
    plan = wanted_plan(bundle, graph, PlanSettings(precision, calibration=SOURCES))
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = library.create_network(builder)
    parse(bundle, manifest, plan, precision, trt, network, logger, products)
    layers = [network.get_layer(index) for index in range(network.num_layers)]
    codes = {"int8": trt.int8, "fp8": trt.fp8}[precision]
    rounded = {
        layer.get_output(0).name: layer
        for layer in layers
        if layer.type == trt.LayerType.DEQUANTIZE
    }
    assert all(layer.get_input(0).dtype == codes for layer in rounded.values())
    assert all(layer.get_output(0).dtype == trt.float16 for layer in rounded.values())
    of_rounded = [
        layer
        for layer in layers
        if layer.type == trt.LayerType.MATRIX_MULTIPLY and layer.get_input(0).name in rounded
    ]
    assert len(of_rounded) == len(products[graph])
    for name in manifest.graphs[graph].outputs:
        output = next(
            network.get_output(index)
            for index in range(network.num_outputs)
            if network.get_output(index).name == name.name
        )
        is_cache = name.name in cache_tensors(manifest.dimensions.decoder_layers)
        assert output.dtype == (trt.float16 if is_cache else trt.float32)


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("graph", ["encoder", "decoder"])
@pytest.mark.parametrize("precision", get_args(QuantizedPrecision))
def test_a_plan_of_8_bit_products_is_built_and_is_smaller(
    library: TensorRT, products: Products, precision: Precision, graph: str, capability: str
) -> None:
    settings = PlanSettings(precision, calibration=SOURCES)
    request, manifest = wanted_plan(SHIPPED, graph, settings), Manifest.load(SHIPPED)
    plan = build(SHIPPED, manifest, request, library, settings, capability, products)
    assert len(plan) < 0.9 * plan_bytes(library, "fp16", graph, capability)


@pytest.mark.thorough
@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("graph", ["encoder", "decoder"])
def test_a_plan_of_the_base_size_is_built(
    library: TensorRT, base_bundle: Path, graph: str, capability: str
) -> None:
    settings = PlanSettings("fp16")
    request, manifest = wanted_plan(base_bundle, graph, settings), Manifest.load(base_bundle)
    plan = build(base_bundle, manifest, request, library, settings, capability)
    assert len(plan) > manifest.dimensions.vocab_size * manifest.dimensions.model_size


@pytest.fixture
def copied(random_bundle: Path, tmp_path: Path) -> Path:
    """A writable bundle."""
    return Path(shutil.copytree(random_bundle, tmp_path / "bundle"))


def export(bundle: Path, *words: str) -> int:
    return main(["--quiet", "export", "tensorrt", str(bundle), *words])


@pytest.mark.thorough
def test_the_command_builds_and_records_the_plans_that_the_engine_needs(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--compute-capability", "8.9", "--max-rows", "16", "--precision")
    assert export(copied, *words, "bf16") == 0
    printed = capsys.readouterr().out.split()
    manifest = Manifest.load(copied)
    assert printed == [str(copied / plan.file) for plan in manifest.plans]
    assert [(plan.graph, plan.cache_tokens) for plan in manifest.plans] == [
        ("encoder", None),
        *(("decoder", tokens) for tokens in (64, 128, 320)),
        *((graph, None) for graph in ("reorder", "best_4", "best_8", "best_16")),
    ]
    for plan in manifest.plans:
        assert plan.sha256 == sha256(copied / plan.file)
        assert (plan.library, plan.precision) == ("tensorrt_rtx", "bf16")
        assert plan.compute_capability == "8.9"
        assert plan.built_from[manifest.weights] == manifest.files[manifest.weights]
        assert set(plan.profiles[0]) == {t.name for t in manifest.graphs[plan.graph].inputs}
    assert export(copied, *words, "bf16") == 2
    assert f"{manifest.plans[0].file} exists: give --force" in capsys.readouterr().err
    assert export(copied, *words, "bf16", "--force") == 0
    assert len(Manifest.load(copied).plans) == len(manifest.plans)
    assert export(copied, *words, "fp16", "--cache-tokens", "320") == 0
    again = Manifest.load(copied)
    assert len(again.plans) == len(manifest.plans) + 6
    assert again.plans[: len(manifest.plans)] == Manifest.load(copied).plans[: len(manifest.plans)]
    assert not list(copied.glob("*.partial"))


@pytest.mark.thorough
def test_the_command_calibrates_8_bit_products(copied: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    for language, line in (("en", "a b c"), ("de", "c b a")):
        text.with_name(f"text.{language}").write_text(f"{line}\n" * 4, "utf-8")
    words = ("--compute-capability", "8.9", "--max-rows", "16", "--precision", "int8")
    assert export(copied, *words, "--calibration-text", str(text)) == 0
    plans = Manifest.load(copied).plans
    assert {plan.precision for plan in plans} == {"int8"}
    assert {plan.graph for plan in plans} >= {"encoder", "decoder"}


def test_plain_plans_have_no_in_place_cache_update(library: TensorRT, copied: Path) -> None:
    trt, manifest = library.module, Manifest.load(copied)
    decoder = wanted_plan(copied, "decoder", PlanSettings("fp16", plain=True))
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = library.create_network(builder)
    parse(copied, manifest, decoder, "fp16", trt, network, logger)
    kinds = [network.get_layer(index).type for index in range(network.num_layers)]
    assert trt.LayerType.KV_CACHE_UPDATE not in kinds
    assert export(copied, "--compute-capability", "8.9", "--plain") == 0
    plans = Manifest.load(copied).plans
    assert [plan.file for plan in plans] == [
        plan_name(plain_name(graph), "fp16", "8.9", "tensorrt_rtx")
        for graph in ("encoder", "decoder")
    ]
    assert all(plan.plain for plan in plans)


def test_a_plain_decoder_computes_the_same(random_bundle: Path) -> None:
    manifest, tokens = Manifest.load(random_bundle), 8
    path = random_bundle / manifest.graphs["decoder"].file
    model = onnx.load(path)
    generator = np.random.default_rng(0)
    sizes = {"R": 3, "B": 3, "S": 5, "C": tokens}
    feeds = {
        tensor.name: generator.random(
            [sizes[size] if size in sizes else int(size) for size in tensor.shape], np.float32
        )
        for tensor in manifest.graphs["decoder"].inputs
        if tensor.dtype == "float32"
    }
    feeds |= {
        "input_ids": np.array([5, 6, 7]),
        "positions": np.array([0, 3, 7]),
        "src_lengths": np.array([5, 2, 4]),
    }
    outputs = []
    for variant in (model, without_scatter(model, tokens)):
        session = onnxruntime.InferenceSession(
            variant.SerializeToString(), providers=["CPUExecutionProvider"]
        )
        outputs.append(session.run(None, feeds))
    for right, plain in zip(*outputs, strict=True):
        assert np.array_equal(right, plain)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compute-capability", "9.0"], "cannot build for compute capability 9.0: give one"),
        (["--compute-capability", "8.9", "--library", "tensorrt"], "tensorrt is not installed"),
        (["--precision", "int8"], "needs text for calibration: give --calibration-text"),
        (["--precision", "fp8", "--calibration-text", "no/such"], "no/such.en, "),
        (
            ["--precision", "fp8", "--calibration-text", "x", "--calibration-sentences", "0"],
            "--calibration-sentences 0: give 1 or more",
        ),
        (["--compute-capability", "8.9", "--max-rows", "0"], "max_rows is 0"),
        (["--compute-capability", "8.9", "--max-rows", "7"], "a beam may be 8 wide"),
        (["--compute-capability", "8.9", "--workspace-mib", "-5"], "workspace_bytes is -5"),
        (["--compute-capability", "8.9", "--timing-cache", "no/such"], "no such folder"),
        (["--compute-capability", "8.9", "--timing-cache", "/"], "/: cannot be read"),
        (["--compute-capability", "8.9", "--cache-tokens", "0"], "cache_tokens is 0"),
        (["--compute-capability", "8.9", "--cache-tokens", "64"], "the longest is 64, but a req"),
        ([], "no NVIDIA GPU was found (nvidia-smi fails): name one with --compute-capability"),
    ],
)
def test_a_failed_build_is_reported_in_one_line(
    copied: Path,
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    assert export(copied, *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_graph_that_tensorrt_refuses_is_named(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = Manifest.load(copied)
    path = copied / manifest.graphs["encoder"].file
    model = onnx.load(path, load_external_data=False)
    model.graph.node[3].op_type = "NoSuchOperator"
    path.write_bytes(model.SerializeToString())
    manifest.files[path.name] = sha256(path)
    manifest.write(copied)
    assert export(copied, "--compute-capability", "8.9") == 1
    error = capsys.readouterr().err
    assert "encoder.onnx: TensorRT refuses it" in error
    assert "NoSuchOperator" in error
    assert error.count("\n") == 1
