"""How an engine is to be laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dragoman.kernel.errors import UsageError

FloatPrecision = Literal["fp32", "fp16", "bf16"]
QuantizedPrecision = Literal["int8", "fp8"]
Precision = Literal[QuantizedPrecision, FloatPrecision]
Runtime = Literal["onnxruntime", "native", "onnxruntime_cuda", "tensorrt"]


@dataclass(frozen=True)
class EngineSettings:
    """Precision, threads and bounds; None leaves a number to the machine and the model.

    Raises:
        UsageError: a number that is not positive.
    """

    precision: Precision | Literal["auto"] = "auto"
    """`fp8` is for TensorRT alone. `auto` is fp16 on a GPU; on a CPU int8 where its 8-bit products
    are exact, else fp32."""
    runtime: Runtime | Literal["auto"] = "auto"
    """The last two are for a GPU; `native` is our own compiled code, for int8 alone. `auto` takes
    the fastest that this machine and the bundle have: TensorRT where the bundle has plans that fit,
    ONNX Runtime on a GPU, `native`, ONNX Runtime."""
    workers: int | None = None
    """Threads that each step sentences of their own, on one core."""
    lone_threads: int | None = None
    """Threads of a step while one worker has all the work there is."""
    max_rows: int | None = None
    """Rows that one worker steps at a time."""
    max_waiting: int = 40_000
    """Sentences that may wait; more are refused. One request may take half of what is free."""

    def __post_init__(self) -> None:
        numbers = {
            "workers": self.workers,
            "lone_threads": self.lone_threads,
            "max_rows": self.max_rows,
            "max_waiting": self.max_waiting,
        }
        for name, value in numbers.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} is {value}: give 1 or more")
