"""A bundle's TensorRT plans on an NVIDIA GPU. Thin: what can be tested without one lies elsewhere.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError
from dragoman.manifest import Manifest, PlanEntry
from serving.engine.device.capacities import capacities
from serving.engine.device.cuda_memory import CudaMemory
from serving.engine.device.memory import DeviceTensor
from serving.engine.device.plans import (
    PlanKey,
    Target,
    cache_lengths,
    fitting_plans,
    fitting_profile,
    most_rows,
)
from serving.engine.settings import Precision
from serving.tensorrt_library import load, local_compute_capability

log = logging.getLogger(__name__)

_CACHE_DTYPES = {
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "int8": "float16",
    "fp8": "float16",
}


class TensorRTRunner:
    """See `Runner`."""

    def __init__(
        self, bundle: Path, manifest: Manifest, precision: Precision, memory: CudaMemory
    ) -> None:
        """Load the plans.

        Args:
            bundle: folder of the bundle.
            manifest: its manifest, checked.
            precision: of the plans.
            memory: of the GPU; what runs, runs in its stream.

        Raises:
            UsageError: TensorRT is not installed, no plan fits this machine, or one cannot be
                loaded.
        """
        library = load()
        target = Target(library.name, library.version, local_compute_capability(), precision)
        self._plans = fitting_plans(bundle, manifest, target)
        self.cache_dtype = _CACHE_DTYPES[precision]
        self.most_rows = most_rows(self._plans)
        self.target_capacities = cache_lengths(self._plans)
        self.source_capacities = capacities(manifest.limits.max_source_tokens)
        self._memory = memory
        self._runtime = library.module.Runtime(library.module.Logger())
        self._contexts: dict[tuple[PlanKey, int], Any] = {}
        self._engines = []
        for key, plan in self._plans.items():
            engine = self._runtime.deserialize_cuda_engine((bundle / plan.file).read_bytes())
            if engine is None:
                raise UsageError(
                    f"{bundle / plan.file}: {library.name} {library.version} cannot load it here: "
                    "is there enough memory on the GPU?"
                )
            self._engines.append(engine)
            for profile in range(len(plan.profiles)):
                self._contexts[key, profile] = self._context(engine, plan, profile)

    def run(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> None:
        """See `Runner`."""
        key = (graph, tensors["past_key_0"].shape[2] if graph == "decoder" else None)
        plan = self._plans[key]
        shapes = {name: tensors[name].shape for name in plan.profiles[0]}
        context = self._contexts[key, fitting_profile(plan, shapes)]
        for name, shape in shapes.items():
            _succeed(context.set_input_shape(name, shape), plan)
        for name, tensor in tensors.items():
            _succeed(context.set_tensor_address(name, tensor.address), plan)
        _succeed(context.execute_async_v3(int(self._memory.stream)), plan)

    def _context(self, engine: Any, plan: PlanEntry, profile: int) -> Any:
        """One for each profile, since changing a context's profile is slow; each has memory."""
        context = engine.create_execution_context()
        if context is None:
            raise UsageError(
                f"{plan.file}: the GPU has not enough memory to run it: build it for fewer rows "
                "(--max-rows)"
            )
        stream = int(self._memory.stream)
        _succeed(context.set_optimization_profile_async(profile, stream), plan)
        self._memory.synchronize()
        return context


def _succeed(done: bool, plan: PlanEntry) -> None:
    """TensorRT says no by a value."""
    if not done:
        raise RuntimeError(f"TensorRT refuses to run {plan.file}")
