"""Graphs in fp16, run on a CPU, compared with the same graphs in fp32."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from dragoman_serving.engine.runtimes.half_precision import HalfPrecision, lower_precision

from dragoman.kernel.manifest import Manifest
from dragoman.kernel.tensors import cache_tensors


@pytest.mark.parametrize("model_of", ["random_bundle", "elaborate_bundle", "ssru_bundle"])
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("name", ["encoder", "decoder", "reorder"])
def test_only_products_attention_and_cache_are_lowered(
    name: str, precision: HalfPrecision, model_of: str, request: pytest.FixtureRequest
) -> None:
    bundle: Path = request.getfixturevalue(model_of)
    manifest = Manifest.load(bundle)
    graph = onnx.load(bundle / manifest.graphs[name].file)  # with its weights
    cache = cache_tensors(manifest.dimensions.decoder_layers)
    model = lower_precision(graph, precision, cache)
    onnx.checker.check_model(model, full_check=True)
    half = {"fp16": onnx.TensorProto.FLOAT16, "bf16": onnx.TensorProto.BFLOAT16}[precision]
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {
        value.name: value.type.tensor_type.elem_type
        for value in (*inferred.input, *inferred.value_info, *inferred.output)
    }
    for value in (*inferred.input, *inferred.output):
        assert (types[value.name] == half) == (value.name in cache), value.name
    kept = {value.name for value in inferred.output} - cache  # logits and states
    of_scores = [node.input[0] for node in inferred.node if node.output[0] in kept]
    of_scores += [node.input[0] for node in inferred.node if node.output[0] in of_scores]
    for node in inferred.node:
        if node.op_type in ("MatMul", "Attention", "TensorScatter"):
            # bf16 has too few bits to distinguish the best tokens.
            lowered = precision == "fp16" or node.output[0] not in of_scores
            assert (types[node.output[0]] == half) == lowered, node.name
        if node.op_type in ("Add", "LayerNormalization"):
            assert types[node.output[0]] != half, node.name
    assert [node.op_type for node in model.graph.node if node.op_type != "Cast"] == [
        node.op_type for node in graph.graph.node if node.op_type != "Cast"
    ]


def test_an_output_that_cannot_be_lowered_is_refused(random_bundle: Path) -> None:
    manifest = Manifest.load(random_bundle)
    graph = onnx.load(random_bundle / manifest.graphs["best_4"].file)
    with pytest.raises(ValueError, match="output top_scores is not computed in fp16"):
        lower_precision(graph, "fp16", {"top_scores"})


def test_the_given_graph_is_not_changed(random_bundle: Path) -> None:
    manifest = Manifest.load(random_bundle)
    path = random_bundle / manifest.graphs["encoder"].file
    graph = onnx.load(path, load_external_data=False)
    before = graph.SerializeToString()
    lower_precision(graph, "bf16", cache_tensors(manifest.dimensions.decoder_layers))
    assert np.array_equal(
        np.frombuffer(graph.SerializeToString(), np.uint8), np.frombuffer(before, np.uint8)
    )
