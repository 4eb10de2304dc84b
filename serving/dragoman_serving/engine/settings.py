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
    single_rows: int = 0
    """If at most this many rows are waiting or running, one of two workers takes the sentences that
    come one by one; of n workers, the (n - 1)th part. Receiving and answering each of them takes as
    long as a few of its steps, and needs the other cores."""

    kinds: int | None = None
    """Kinds of searches (beam widths) that a worker steps at a time, each with caches of its own;
    None: any."""

    @property
    def most_of_request(self) -> int:
        """Sentences that one request may have."""
        return self.waiting // 2


@dataclass(frozen=True)
class Tuning:
    """Numbers that measurements chose, and that another machine may want otherwise.

    docs/lab-notebook.md has the measurements: [P] "the engine in a process of its own",
    [S] "threads and sessions", [T] "turns between requests, and overload", [M] "memory after a
    burst", [R] "what a served request takes". [-]: not measured. docs/deployment.md has a table.

    Raises:
        UsageError: a number that is too small, or not finite.
    """

    rows_small: int = 32
    """Rows a worker of a small model steps: at 64, 32, 16 p99 was 209, 148, 132 ms [P]."""
    rows_large: int = 64
    """Rows a worker of a large model steps: a tenth faster than 32, more latency [P]."""
    rows_gpu: int = 256
    """Rows a worker on a GPU steps: throughput against latency and memory [-]."""
    workers_most: int = 8
    """Workers by default, one a core: all of them share the interpreter's lock [-]."""
    large_weights: int = 10_000_000
    """Weights of a large model's step: it has a session with all cores for lone rows [S]."""
    lone_rows: int = 32
    """Rows up to which one worker of a large model, with all cores, beats several [S]."""
    single_rows: int = 8
    """`BatchLimits.single_rows` of a small model, 0 and 8: 4 requests at a time 874 and 1,043
    sentences/s served, 8 requests the same for 0.88 of the processor time [R]."""
    join_wait_steps: int = 6
    """Steps that few sentences wait for others: 0, 4, 8: 749, 860, 864 sentences/s [P]."""
    join_few_divisor: int = 4
    """Few are less than this part of the rows in flight; as measured with the last [P]."""
    encoder_tokens: int = 2048
    """Source tokens of an encoder run: fewer runs against longer pauses of others [-]."""
    encoder_padding: float = 1.15
    """Padded over real tokens of one: 1.15, 1.3, 1.6: 894, 888, 813 sentences/s [S]."""
    idle_s: float = 10.0
    """Idle time until memory is returned: 205 to 320 instead of 568 MB, taken anew later [M]."""
    wait_margin: float = 2.0
    """Accept what may wait this many times the estimate: with 1.25, 1 % were late [T]."""
    overload_divisor: int = 20
    """After a refusal, accept what waits this part of its time: 0.6 s, not 8 s [T]."""
    overload_wait_s: float = 0.25
    """After a refusal, accept what waits so long; as measured with the last [T]."""
    prepare_texts: int = 64
    """Texts of a request that is tokenised at once: its delay against that of others [-]."""
    prepare_characters: int = 20_000
    """Characters of such a request [-]."""
    part_texts: int = 1024
    """Texts of a larger one that are tokenised at a time: 64 cost 5 %, 1,024 2 % [T]."""
    part_characters: int = 100_000
    """Characters that are tokenised at a time [-]."""
    score_tokens: int = 4096
    """Tokens of pairs scored at a time: less padding against delay of urgent pairs [-]."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name in ("lone_rows", "single_rows", "join_wait_steps") else 1
            if isinstance(value, int) and value < least:
                raise UsageError(f"{name} is {value}: give {least} or more")
            if isinstance(value, float) and not 0 < value < math.inf:
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
    max_kinds: int | None = None
    """Beam widths that a worker steps at a time; None: any."""
    tuning: Tuning = Tuning()
    """Numbers that fit most machines."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and value < 1:
                raise UsageError(f"{name} is {value}: give 1 or more")
