from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from dragoman_export.publishing import publish, repository_files
from dragoman_export.triton_configs import graph_configs
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from dragoman.kernel.manifest import Manifest
from dragoman.kernel.tensors import cache_tensors, plain_name, plan_name
from tests.conftest import REPOSITORY

SHIPPED = REPOSITORY / "model_repository"
BUNDLE = SHIPPED / "translate" / "1" / "bundle"


def read(text: str) -> pb.ModelConfig:
    return text_format.Parse(text, pb.ModelConfig())


def test_the_projects_repository_equals_the_published_shipped_model() -> None:
    files = repository_files(Manifest.load(BUNDLE))
    for path, text in files.items():
        assert (SHIPPED / path).read_text() == text, f"{path}: publish the model again"
    models = {path.partition("/")[0] for path in files}
    there = {
        str(path.relative_to(SHIPPED)) for name in models for path in (SHIPPED / name).rglob("*.*")
    }
    assert {path for path in there - files.keys() if "bundle" not in path} == set()


def test_publishing_writes_the_bundles_configurations(random_bundle: Path, tmp_path: Path) -> None:
    publish(random_bundle, tmp_path / "repository")
    configs = graph_configs(Manifest.load(random_bundle))
    assert len(configs) == 4
    for path, text in configs.items():
        assert (tmp_path / "repository" / path).read_text() == text
        assert text != (SHIPPED / path).read_text()


@pytest.mark.parametrize("backend", ["onnxruntime", "tensorrt"])
@pytest.mark.parametrize("graph", ["encoder", "decoder"])
def test_configurations_match_the_inputs_and_outputs_of_the_graph(graph: str, backend: str) -> None:
    manifest = Manifest.load(BUNDLE)
    config = read(graph_configs(manifest)[f"{graph}/configs/{backend}.pbtxt"])
    entry = manifest.graphs[graph]
    assert (config.name, config.backend) == (graph, backend)
    assert [tensor.name for tensor in config.input] == [tensor.name for tensor in entry.inputs]
    assert [tensor.name for tensor in config.output] == [tensor.name for tensor in entry.outputs]
    cache = cache_tensors(manifest.dimensions.decoder_layers)
    for tensor in (*config.input, *config.output):
        half = backend == "tensorrt" and tensor.name in cache
        assert (tensor.data_type == pb.TYPE_FP16) == half
    assert set(config.model_warmup[0].inputs) == {tensor.name for tensor in config.input}
    if backend == "tensorrt":
        plans = {Path(file).name for file in config.cc_model_filenames.values()}
        assert plan_name(plain_name(graph), "fp16", "8.9", "tensorrt") in plans


@pytest.mark.parametrize("graph", ["encoder", "decoder"])
def test_onnx_runtime_accepts_the_warm_up_of_the_named_file(graph: str) -> None:
    config = read((SHIPPED / graph / "configs" / "onnxruntime.pbtxt").read_text())
    file = SHIPPED / graph / "1" / config.default_model_filename
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    warm_up = config.model_warmup[0]
    types = {pb.TYPE_INT64: np.int64, pb.TYPE_FP32: np.float32}
    feeds = {}
    for tensor in config.input:
        described = warm_up.inputs[tensor.name]
        # A batch of one; the dimension of size 1 for a missing one is removed again.
        dims = [1, *([] if tensor.HasField("reshape") else described.dims)]
        feeds[tensor.name] = np.zeros(dims, types[described.data_type])
    outputs = session.run([tensor.name for tensor in config.output], feeds)
    for tensor, output in zip(config.output, outputs, strict=True):
        assert all(
            want in (-1, size) for want, size in zip(tensor.dims, output.shape[1:], strict=True)
        )
