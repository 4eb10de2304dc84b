"""How plans are run. TensorRT is simulated: its contexts let ONNX Runtime compute on the CPU.

So the tests show the calls and their order, not whether TensorRT executes them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import pytest
from dragoman_export.tensorrt.host_runner import HostRunner
from dragoman_export.tensorrt.plans import PlanSettings, requests
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.runtimes.device import tensorrt_runner
from dragoman_serving.engine.runtimes.device.device_memory import DeviceTensor, HostMemory
from dragoman_serving.engine.runtimes.device.device_network import DeviceNetwork
from dragoman_serving.engine.runtimes.device.tensorrt_runner import TensorRTRunner
from dragoman_serving.engine.runtimes.tensorrt_library import TensorRT
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits
from dragoman_training.oracle.search import beam_search, greedy_search
from dragoman_training.run import checkpoint

from dragoman.kernel.manifest import Manifest, PlanEntry, sha256

ROWS = 16


class FakeMemory(HostMemory):
    """The machine's own memory as a stream that can be recorded."""

    stream = 7

    def __init__(self) -> None:
        self.recording = False
        self.recorded = self.replayed = 0

    def record(self, enqueue: Callable[[], Any]) -> tuple[Any, Any]:
        enqueue()
        context = enqueue()  # on a GPU nothing runs yet; it may run twice
        self.recorded += 1
        context.is_recorded = True
        return context, context

    def replay(self, recording: Any) -> None:
        self.replayed += 1
        recording.compute()


class FakeContext:
    """Remembers shapes and addresses, and computes on the memory there."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.scratch = 0
        self.profile: int | None = None
        self.is_recorded = False

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        self.profile = profile
        return stream == FakeMemory.stream

    def set_device_memory(self, address: int, size: int) -> None:
        assert size >= self.engine.device_memory_size_v2
        self.scratch = address

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        assert not self.is_recorded, "what was recorded is not to be changed"
        assert self.profile is not None
        sizes = self.engine.plan.profiles[self.profile][name]
        self.shapes[name] = shape
        bounds = zip(sizes[0], shape, sizes[2], strict=True)
        return all(low <= size <= high for low, size, high in bounds)

    def set_tensor_address(self, name: str, address: int) -> bool:
        assert not self.is_recorded
        self.addresses[name] = address
        return address != 0

    def execute_async_v3(self, stream: int) -> bool:
        assert self.scratch
        self.compute()
        return stream == FakeMemory.stream

    def compute(self) -> None:
        manifest, graph = self.engine.manifest, self.engine.plan.graph
        entry = manifest.graphs[graph]
        sizes = {
            symbol: size
            for tensor in entry.inputs
            for symbol, size in zip(tensor.shape, self.shapes[tensor.name], strict=True)
        }
        self.engine.runner.run(
            graph,
            {
                tensor.name: DeviceTensor(
                    self.addresses[tensor.name],
                    tuple(sizes.get(size) or int(size) for size in tensor.shape),
                    tensor.dtype,
                )
                for tensor in (*entry.inputs, *entry.outputs)
            },
        )


class FakeEngine:
    device_memory_size_v2 = 1000

    def __init__(self, manifest: Manifest, plan: PlanEntry, runner: HostRunner) -> None:
        self.manifest, self.plan, self.runner = manifest, plan, runner

    def create_execution_context(self, strategy: str) -> FakeContext:
        assert strategy == "by us"
        return FakeContext(self)


@pytest.fixture
def planned(
    random_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Manifest]:
    """A bundle with a plan of each kind; each contains only its name."""
    manifest = Manifest.load(random_bundle)
    for plan in requests(manifest, PlanSettings("fp32", max_rows=ROWS)):
        path = tmp_path / f"{plan.name}.plan"
        path.write_text(plan.name)
        built_from = {
            name: manifest.files[name]
            for name in (manifest.graphs[plan.graph].file, manifest.weights)
        }
        manifest = manifest.with_plan(
            PlanEntry(
                graph=plan.graph,
                file=path.name,
                sha256=sha256(path),
                precision="fp32",
                library="tensorrt",
                version="10.15",
                compute_capability="9.0",
                platform="linux-x86_64",
                profiles=plan.profiles,
                built_from=built_from,
                cache_tokens=plan.cache_tokens,
            )
        )
    plans = {plan.file: plan for plan in manifest.plans}
    names = {plan.graph for plan in manifest.plans}
    graphs: Mapping[str, onnx.ModelProto] = {
        name: onnx.load(random_bundle / manifest.graphs[name].file, load_external_data=False)
        for name in names
    }
    runner = HostRunner(graphs, manifest.limits, random_bundle)
    module = SimpleNamespace(
        Logger=lambda: None,
        ExecutionContextAllocationStrategy=SimpleNamespace(USER_MANAGED="by us"),
        Runtime=lambda _: SimpleNamespace(
            deserialize_cuda_engine=lambda held: FakeEngine(
                manifest, plans[f"{held.decode()}.plan"], runner
            )
        ),
    )
    monkeypatch.setattr(tensorrt_runner, "load", lambda: TensorRT(module, "tensorrt", "10.15"))
    monkeypatch.setattr(tensorrt_runner, "local_compute_capability", lambda: "9.0")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return tmp_path, manifest


@pytest.mark.parametrize("records", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_plans_are_run_and_repeated_work_is_recorded(
    planned: tuple[Path, Manifest], random_bundle: Path, records: bool
) -> None:
    bundle, manifest = planned
    memory = FakeMemory()
    runner = TensorRTRunner(bundle, manifest, "fp32", memory, records)  # type: ignore[arg-type]
    network = DeviceNetwork(manifest, runner, memory)
    engine = Engine(network, manifest.special_ids, workers=1, limits=BatchLimits(rows=ROWS))
    generator = random.Random(0)
    batch = [
        Sentence(
            tuple(generator.randint(6, 319) for _ in range(generator.randint(2, 40))),
            generator.randint(1, 70),
            SearchOptions(generator.choice([1, 4]), 0.6),
        )
        for _ in range(24)
    ]
    hypotheses = [future.result(60) for future in engine.submit(batch)]
    engine.close()
    model = checkpoint.load(random_bundle).model
    for sentence, hypothesis in list(zip(batch, hypotheses, strict=True))[::4]:
        source, limit, width = [sentence.src_ids], [sentence.max_tokens], 4
        if sentence.options.beam_width == 1:
            (right,) = greedy_search(model, source, limit)
        else:
            (right,) = beam_search(model, source, limit, width, 0.6)
        assert hypothesis.ids == right.ids
    if records:
        assert memory.replayed > memory.recorded > 10
    else:
        assert memory.recorded == 0
