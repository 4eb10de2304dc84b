"""The engine on a GPU: the same properties as on a CPU, with each available runtime."""

from __future__ import annotations

import operator
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from dragoman_export.tensorrt.plans import PlanSettings, build_plans
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.runtimes.device.gpu import (
    GpuRuntime,
    gpu_obstacle,
    open_gpu_network,
    runtime_obstacle,
)
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits, Precision
from dragoman_training.oracle.search import beam_search, greedy_search
from dragoman_training.run import checkpoint

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu_obstacle() is not None, reason=str(gpu_obstacle())),
]

WAIT_S = 120


@pytest.fixture(scope="module", params=["onnxruntime_cuda", "tensorrt"])
def runtime(request: pytest.FixtureRequest) -> GpuRuntime:
    runtime: GpuRuntime = request.param
    return runtime


@pytest.fixture(scope="module", params=get_args(Precision))
def precision(request: pytest.FixtureRequest) -> Precision:
    precision: Precision = request.param
    return precision


@pytest.fixture(scope="module")
def engine(
    runtime: GpuRuntime,
    precision: Precision,
    random_bundle: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Engine]:
    bundle = tmp_path_factory.mktemp("gpu") / "bundle"
    shutil.copytree(random_bundle, bundle)
    if runtime == "tensorrt":
        texts = [sentence.src_ids for sentence in asked(3, 40)]
        try:
            list(build_plans(bundle, PlanSettings(precision, max_rows=32, calibration=texts)))
        except UsageError as error:
            pytest.skip(str(error))
    manifest = Manifest.load(bundle)
    if obstacle := runtime_obstacle(runtime, bundle, manifest, precision):
        pytest.skip(obstacle)
    network = open_gpu_network(bundle, manifest, runtime, precision)
    running = Engine(network, manifest.special_ids, workers=1, limits=BatchLimits(rows=32))
    yield running
    running.close()


def asked(seed: int, number: int) -> list[Sentence]:
    generator = random.Random(seed)
    return [
        Sentence(
            tuple(generator.randint(6, 319) for _ in range(generator.randint(2, 40))),
            generator.randint(1, 70),
            SearchOptions(generator.choice([1, 1, 2, 4, 8]), generator.choice([0.0, 0.6])),
        )
        for _ in range(number)
    ]


def test_what_is_translated_together_is_what_is_translated_alone(
    engine: Engine, precision: Precision
) -> None:
    sentences = asked(0, 40)
    together = [future.result(WAIT_S).ids for future in engine.submit(sentences)]
    alone = [engine.submit([sentence])[0].result(WAIT_S).ids for sentence in sentences]
    # For another number of rows, a GPU uses another kernel, with other rounding.
    equal = sum(map(operator.eq, together, alone))
    assert equal >= (1.0 if precision == "fp32" else 0.9) * len(sentences)


def test_fp32_is_the_oracle_s(engine: Engine, precision: Precision, random_bundle: Path) -> None:
    if precision != "fp32":
        pytest.skip("only fp32 must be equal")
    model = checkpoint.load(random_bundle).model
    for sentence in asked(1, 20):
        hypothesis = engine.submit([sentence])[0].result(WAIT_S)
        source, limit, options = [sentence.src_ids], [sentence.max_tokens], sentence.options
        if options.beam_width == 1:
            (right,) = greedy_search(model, source, limit)
        else:
            (right,) = beam_search(model, source, limit, options.beam_width, options.length_penalty)
        assert hypothesis.ids == right.ids


def test_rows_are_given_back(engine: Engine) -> None:
    for future in engine.submit(asked(2, 30)):
        future.result(WAIT_S)
    assert engine.rows == 0
