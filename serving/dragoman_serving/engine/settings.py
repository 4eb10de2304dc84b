"""How an engine is to be laid out, and the numbers that measurements chose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dragoman.kernel.errors import UsageError

FloatPrecision = Literal["fp32", "fp16", "bf16"]
QuantizedPrecision = Literal["int8", "fp8"]
Precision = Literal[QuantizedPrecision, FloatPrecision]
Runtime = Literal["onnxruntime", "native", "onnxruntime_cuda", "tensorrt"]


@dataclass(frozen=True)
class BatchLimits:
    """Bounds that keep memory within what is known at start."""

    rows: int = 64
    """Rows that one worker steps at a time; a sentence has as many as its beam is wide."""
    waiting: int = 40_000
    """Sentences that may wait; more are refused. One request may take half of what is free."""

    @property
    def most_of_request(self) -> int:
        """Sentences that one request may have."""
        return self.waiting // 2


@dataclass(frozen=True)
class Tuning:
    """Numbers that were chosen by measurements, which another machine may want otherwise.

    The measurements are in docs/lab-notebook.md, in the sections that are named here.

    Raises:
        UsageError: a number that is too small, or not finite.
    """

    rows_small: int = 32
    """Rows a worker: more delay short sentences; "the engine in a process of its own"."""
    rows_large: int = 64
    """The same for large models, a tenth faster than with 32; in the same section."""
    rows_gpu: int = 256
    """The same on a GPU, where a step of more rows costs hardly more; not measured."""
    workers_most: int = 8
    """Workers by default: each core more gains less, and all share an interpreter; not measured."""
    large_weights: int = 10_000_000
    """Weights of a decoder step from which a model is large, and a lone step faster with all cores,
    which takes a second session: 2.66 to 1.69 ms for 63 million, 0.236 to 0.255 ms for 4 million;
    "threads and sessions"."""
    lone_rows: int = 32
    """Rows up to which one worker with all cores does the work of a large model; beyond, workers
    beside each other do more: 4,959 to 4,675 tokens/s at 2 x 32 rows; "threads and sessions"."""
    join_wait_steps: int = 6
    """Steps that few sentences wait for others to join with, for one longer run of the encoder: 0,
    4, 8 gave beam 4 at 32 requests 749, 860, 864 sentences/s; "the engine in a process of its
    own"."""
    join_few_divisor: int = 4
    """Few are fewer than this part of the rows in flight; measured with `join_wait_steps`."""
    encoder_tokens: int = 2048
    """Source tokens of one run of the encoder: more take longer than they gain; not recorded."""
    encoder_padding: float = 1.15
    """Padded over real tokens of one run of the encoder: longer runs against work on padding; 1.15,
    1.3, 1.6 gave 894, 888, 813 sentences/s; "threads and sessions"."""
    idle_s: float = 10.0
    """Idle time after which a worker returns its memory, which the next request takes anew: 205
    instead of 320 MB; "memory after a burst"."""
    wait_margin: float = 2.0
    """A request is accepted if it may wait this many times as long as estimated. Less lets accepted
    requests miss their deadline (1 % with 1.25); "turns between requests, and overload"."""
    overload_divisor: int = 20
    """After a refusal, a request may wait this part of its time: more latency against more requests
    accepted; 0.6 s instead of 8 s at the same goodput; in the same section."""
    overload_wait_s: float = 0.25
    """After a refusal, any request may wait so long; measured with `overload_divisor`."""
    prepare_texts: int = 64
    """A request of up to so many texts is tokenised at once, in milliseconds, instead of in turns
    with other requests; "turns between requests, and overload"."""
    prepare_characters: int = 20_000
    """The same for its characters."""
    part_texts: int = 1024
    """Texts of a larger request that are tokenised at a time: fewer waste padding, more delay
    others; 64 gave 0.95 of the speed, 1,024 gave 0.98; in the same section."""
    part_characters: int = 100_000
    """The same for characters; not measured."""
    score_tokens: int = 4096
    """Tokens on a side of the pairs that are sorted by length at a time for scoring: fewer waste
    padding, more delay pairs that are more important or overdue; not measured."""

    def __post_init__(self) -> None:
        may_be_zero = ("lone_rows", "join_wait_steps")
        for name, value in vars(self).items():
            if isinstance(value, int):
                least = 0 if name in may_be_zero else 1
                if value < least:
                    raise UsageError(f"{name} is {value}: give {least} or more")
            elif not 0 < value < math.inf:
                raise UsageError(f"{name} is {value}: give a number above 0")


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
    tuning: Tuning = Tuning()
    """Numbers that fit most machines."""

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
