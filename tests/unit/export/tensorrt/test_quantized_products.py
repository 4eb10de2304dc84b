"""8-bit products, rounded as TensorRT rounds them, run by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
import onnx
import pytest
from dragoman_export.tensorrt.calibration import QUANTIZED_GRAPHS, constant_products
from dragoman_export.tensorrt.host_runner import open_session, read_decoding_graphs
from dragoman_export.tensorrt.quantized_products import Floats, Product, quantize_products
from dragoman_serving.engine.settings import QuantizedPrecision
from dragoman_training.text.parallel_text import read_directions
from onnx import TensorProto, helper, numpy_helper

from dragoman.kernel.manifest import Manifest
from lab.quality.quantized import CALIBRATION, TEST, bleu, equal_share, quantized, translate
from tests.conftest import CORPORA, REPOSITORY

SHIPPED = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
PRECISIONS = get_args(QuantizedPrecision)


def product_of(weight: Floats) -> onnx.ModelProto:
    """A graph of one product."""
    size, out = weight.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", out])],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)


def run(model: onnx.ModelProto, x: Floats) -> Floats:
    outputs: Floats = open_session(model, Path()).run(["y"], {"x": x})[0]
    return outputs


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_quantized_product_is_close_to_the_original(precision: QuantizedPrecision) -> None:
    generator = np.random.default_rng(0)
    weight = generator.standard_normal((64, 32)).astype(np.float32)
    weight[:, 3] *= 1000  # each column has its own scale
    weight[:, 4] = 0
    rows = generator.standard_normal((50, 64)).astype(np.float32)
    model = product_of(weight)
    before = model.SerializeToString()
    outputs = run(quantize_products(model, {"y": Product(weight, rows)}, precision, "fp32"), rows)
    assert model.SerializeToString() == before
    right = rows @ weight
    scale = np.abs(right).mean(0) + 1e-9
    assert np.all(np.abs(outputs - right).mean(0) < (0.02 if precision == "int8" else 0.06) * scale)
    assert not np.array_equal(outputs, right)


def test_a_few_outliers_do_not_make_all_other_values_coarse() -> None:
    generator = np.random.default_rng(0)
    weight = np.eye(64, dtype=np.float32)
    rows = generator.standard_normal((5000, 64)).astype(np.float32)
    far = rows.copy()
    far[0, 0] = 15.0
    quantized = quantize_products(product_of(weight), {"y": Product(weight, far)}, "int8", "fp32")
    # A scale for the largest number would be 15 / 127, and the error a twelfth of its square.
    assert np.square(run(quantized, rows) - rows).mean() < 0.5 * (15 / 127) ** 2 / 12


def test_values_out_of_range_are_clipped() -> None:
    weight = np.eye(4, dtype=np.float32)
    for precision in PRECISIONS:
        product = Product(weight, np.ones((2, 4), np.float32))
        quantized = quantize_products(product_of(weight), {"y": product}, precision, "fp32")
        outputs = run(quantized, np.full((1, 4), 9.0, np.float32))
        assert np.allclose(outputs, 1.0, rtol=0.01)


def test_all_products_with_weights_are_found() -> None:
    manifest = Manifest.load(SHIPPED)
    for graph in QUANTIZED_GRAPHS:
        model = onnx.load(SHIPPED / manifest.graphs[graph].file, load_external_data=False)
        products = constant_products(model.graph)
        assert len(products) == sum(node.op_type == "MatMul" for node in model.graph.node)


@pytest.mark.thorough
@pytest.mark.skipif(not CORPORA.is_dir(), reason="needs the corpora")
def test_the_shipped_model_generates_nearly_the_same() -> None:
    """BLEU and most tokens stay, in both precisions, on text not used for calibration."""
    manifest = Manifest.load(SHIPPED)
    graphs = read_decoding_graphs(SHIPPED, manifest)
    direction = manifest.all_directions[:1]
    changed = quantized(
        SHIPPED, manifest, graphs, read_directions(CORPORA / CALIBRATION, direction, 64)
    )
    (text,) = read_directions(CORPORA / TEST, direction, 60)
    right = translate(SHIPPED, manifest, graphs, text)
    assert set(changed) == set(PRECISIONS)
    for precision, of_precision in changed.items():
        translations = translate(SHIPPED, manifest, of_precision, text)
        assert 0.6 < equal_share(translations, right) < 1.0, precision
        assert abs(bleu(translations, text[1]) - bleu(right, text[1])) < 2.0, precision
