"""TensorRT's own parser, from TensorRT-RTX on PyPI, takes every graph; that needs no GPU."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from dragoman.manifest import Manifest

trt = pytest.importorskip("tensorrt_rtx")

CACHE_LENGTH = 32
"""TensorRT wants the cache's length fixed: an engine a length."""


def fix_cache_length(model: onnx.ModelProto) -> None:
    for value in (*model.graph.input, *model.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == "C":
                dimension.dim_value = CACHE_LENGTH


@pytest.mark.parametrize("name", ["encoder", "decoder", "best_4", "best_16", "reorder", "score"])
def test_the_parser_takes_the_graph(name: str, random_bundle: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(random_bundle)
    model = onnx.load(random_bundle / manifest.graphs[name].file)  # with its weights
    fix_cache_length(model)
    path = tmp_path / "graph.onnx"
    onnx.save(model, path)
    logger = trt.Logger(trt.Logger.ERROR)
    network = trt.Builder(logger).create_network(0)
    parser = trt.OnnxParser(network, logger)
    accepted = parser.parse_from_file(str(path))
    errors = [str(parser.get_error(index)) for index in range(parser.num_errors)]
    assert accepted, errors
    inputs = [network.get_input(index).name for index in range(network.num_inputs)]
    outputs = [network.get_output(index).name for index in range(network.num_outputs)]
    assert inputs == [tensor.name for tensor in manifest.graphs[name].inputs]
    assert outputs == [tensor.name for tensor in manifest.graphs[name].outputs]
