"""Runs a bundle's TensorRT plans on an NVIDIA GPU.

This module is thin; code that can be tested without a GPU is in other modules.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest, PlanEntry
from dragoman_serving.engine.runtimes.device.capacities import capacities
from dragoman_serving.engine.runtimes.device.cuda_memory import CudaMemory
from dragoman_serving.engine.runtimes.device.device_memory import DeviceTensor
from dragoman_serving.engine.runtimes.device.plans import (
    PlanKey,
    Target,
    cache_lengths,
    fitting_plans,
    fitting_profile,
    most_rows,
)
from dragoman_serving.engine.runtimes.device.recordings import Recordings
from dragoman_serving.engine.runtimes.tensorrt_library import load, local_compute_capability
from dragoman_serving.engine.settings import Precision

_CACHE_DTYPES = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "int8": "float16",
    "fp8": "float16",
}
_SELDOM_ALIKE = "encoder"
"""The graph with shapes that hardly recur."""


class TensorRTRunner:
    """See `Runner`. Recurring runs are recorded as CUDA graphs, and then launched in one call.

    All contexts share their working memory, because they run one after another.
    """

    def __init__(
        self,
        bundle: Path,
        manifest: Manifest,
        precision: Precision,
        memory: CudaMemory,
        records: bool = True,
    ) -> None:
        """Load the plans.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            precision: precision of the plans.
            memory: memory of the GPU; all work runs in its stream.
            records: whether to record CUDA graphs.

        Raises:
            UsageError: TensorRT is not installed, no plan fits this machine, or one cannot be
                loaded.
        """
        self._library = load()
        target = Target(
            self._library.name, self._library.version, local_compute_capability(), precision
        )
        self._plans = fitting_plans(bundle, manifest, target)
        self.cache_dtype = _CACHE_DTYPES[precision]
        self.most_rows: int | None = most_rows(self._plans)
        self.target_capacities = cache_lengths(self._plans)
        self.source_capacities = capacities(manifest.limits.max_source_tokens)
        self.pads_steps = records
        self._memory = memory
        self._recordings = Recordings(memory) if records else None
        self._runtime = self._library.module.Runtime(self._library.module.Logger())
        self._engines = {key: self._engine(bundle / plan.file) for key, plan in self._plans.items()}
        most_bytes = max(engine.device_memory_size_v2 for engine in self._engines.values())
        self._scratch = memory.allocate(max(1, most_bytes))
        self._contexts = {
            (key, profile): self._context(key, profile)
            for key, plan in self._plans.items()
            for profile in range(len(plan.profiles))
        }

    def run(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> None:
        """See `Runner`."""
        key = (graph, tensors["past_key_0"].shape[2] if graph == "decoder" else None)

        def now() -> None:
            self._enqueue(self._contexts[key, self._profile(key, tensors)], key, tensors)

        if self._recordings is None or graph == _SELDOM_ALIKE:
            now()
        else:
            run = (key, *tensors.items())
            self._recordings.run(run, now, lambda: self._recordable(key, tensors))

    def _recordable(
        self, key: PlanKey, tensors: Mapping[str, DeviceTensor]
    ) -> Callable[[], object]:
        """The same run in its own context, because a recording's context must not change."""
        context = self._context(key, self._profile(key, tensors))

        def enqueue() -> object:
            self._enqueue(context, key, tensors)
            return context

        return enqueue

    def _enqueue(self, context: Any, key: PlanKey, tensors: Mapping[str, DeviceTensor]) -> None:
        plan = self._plans[key]
        for name in plan.profiles[0]:
            _succeed(context.set_input_shape(name, tensors[name].shape), plan)
        for name, tensor in tensors.items():
            _succeed(context.set_tensor_address(name, tensor.address), plan)
        _succeed(context.execute_async_v3(int(self._memory.stream)), plan)

    def _profile(self, key: PlanKey, tensors: Mapping[str, DeviceTensor]) -> int:
        plan = self._plans[key]
        return fitting_profile(plan, {name: tensors[name].shape for name in plan.profiles[0]})

    def _engine(self, path: Path) -> Any:
        engine = self._runtime.deserialize_cuda_engine(path.read_bytes())
        if engine is None:
            raise UsageError(
                f"{path}: {self._library.name} {self._library.version} cannot load it here: "
                "is there enough memory on the GPU?"
            )
        return engine

    def _context(self, key: PlanKey, profile: int) -> Any:
        """A context for one profile, because changing a context's profile is slow."""
        plan = self._plans[key]
        strategy = self._library.module.ExecutionContextAllocationStrategy.USER_MANAGED
        context = self._engines[key].create_execution_context(strategy)
        if context is None:
            raise UsageError(
                f"{plan.file}: the GPU does not have enough memory to run it: build it for fewer "
                "rows (--max-rows)"
            )
        stream = int(self._memory.stream)
        _succeed(context.set_optimization_profile_async(profile, stream), plan)
        context.set_device_memory(self._scratch.address, self._scratch.nbytes)
        self._memory.synchronize()
        return context


def _succeed(done: bool, plan: PlanEntry) -> None:
    """Raise an error if TensorRT has returned false."""
    if not done:
        raise RuntimeError(f"TensorRT refuses to run {plan.file}")
