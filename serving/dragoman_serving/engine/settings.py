"""Settings of an engine, and tuning parameters chosen by measurements."""

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
    """Limits that bound the memory at startup."""

    rows: int = 64
    """Largest batch of a worker, in rows; a sentence has one row per hypothesis of its beam."""
    waiting: int = 40_000
    """Sentences that may wait; more are refused. One request may take half of what is free."""
    single_rows: int = 0
    """If at most this many rows are waiting or running, one of two workers takes all sentences that
    come one by one; with n workers, the limit is divided by n - 1. Receiving and answering such a
    sentence takes as long as a few of its steps, and needs the other cores."""

    kinds: int | None = None
    """Maximum kinds of searches (beam widths) of a worker, each with its own caches; None: no
    limit."""

    @property
    def most_of_request(self) -> int:
        """Maximum number of sentences of one request."""
        return self.waiting // 2


@dataclass(frozen=True)
class Tuning:
    """Tuning parameters chosen by measurements; other machines may need other values.

    The measurements are in docs/lab-notebook.md: [P] "The engine in a process of its own",
    [S] "Threads and sessions", [T] "Turns between requests, and overload", [M] "Memory after a
    burst", [R] "What a served request takes". [-]: not measured. docs/deployment.md has a table.

    Raises:
        UsageError: a number is too small, or not finite.
    """

    rows_small: int = 32
    """Batch size in rows of a small model: at 64, 32, 16 p99 was 209, 148, 132 ms [P]."""
    rows_large: int = 64
    """Batch size in rows of a large model: a tenth faster than 32, more latency [P]."""
    rows_gpu: int = 256
    """Batch size in rows on a GPU: throughput against latency and memory [-]."""
    workers_most: int = 8
    """Maximum default of workers, one per core: all of them share the GIL [-]."""
    large_weights: int = 10_000_000
    """Weights of a large model's step: it has a session with all cores for few rows [S]."""
    lone_rows: int = 32
    """Rows up to which one worker of a large model, with all cores, beats several [S]."""
    single_rows: int = 8
    """`BatchLimits.single_rows` of a small model, 0 and 8: 4 requests at a time 874 and 1,043
    sentences/s served, 8 requests the same for 0.88 of the processor time [R]."""
    join_wait_steps: int = 6
    """Steps, and at most a call more, for which few sentences wait for others: 0, 4, 8: 749, 860,
    864 sentences/s [P]."""
    join_few_divisor: int = 4
    """Few: less than the rows in flight divided by this; measured together with the last [P]."""
    encoder_tokens: int = 2048
    """Source tokens of an encoder run: fewer runs against longer pauses of others [-]."""
    encoder_padding: float = 1.15
    """Limit of padded over real tokens of a run: 1.15, 1.3, 1.6: 894, 888, 813 sentences/s [S]."""
    idle_s: float = 10.0
    """Idle time until memory is returned to the system: 205 to 320 instead of 568 MB [M]."""
    wait_margin: float = 2.0
    """Accept a request if it could wait this many times the estimate: with 1.25, 1 % were late
    [T]."""
    overload_divisor: int = 20
    """After a refusal, accept requests that wait for at most this part of their time: 0.6 s, not
    8 s [T]."""
    overload_wait_s: float = 0.25
    """After a refusal, accept requests that wait at most this long; measured with the last [T]."""
    prepare_texts: int = 64
    """Texts of a request that is tokenized immediately: its delay against that of others [-]."""
    prepare_characters: int = 20_000
    """Characters of such a request [-]."""
    part_texts: int = 1024
    """Texts of a part of a larger request: 64 cost 5 %, 1,024 2 % [T]."""
    part_characters: int = 100_000
    """Characters of such a part [-]."""
    score_tokens: int = 4096
    """Tokens of pairs per scoring batch: less padding against delay of urgent pairs [-]."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name in ("lone_rows", "single_rows", "join_wait_steps") else 1
            if isinstance(value, int) and value < least:
                raise UsageError(f"{name} is {value}: give {least} or more")
            if isinstance(value, float) and not 0 < value < math.inf:
                raise UsageError(f"{name} is {value}: give a number above 0")


@dataclass(frozen=True)
class EngineSettings:
    """Precision, threads and limits; None: chosen by the machine and the model.

    Raises:
        UsageError: a number is not positive.
    """

    precision: Precision | Literal["auto"] = "auto"
    """`fp8` is only for TensorRT. `auto` is fp16 on a GPU; on a CPU, it is int8 if 8-bit products
    are exact, else fp32."""
    runtime: Runtime | Literal["auto"] = "auto"
    """`onnxruntime_cuda` and `tensorrt` are for a GPU; `native` is our compiled code, only for
    int8. `auto` is the fastest one available for this machine and bundle, in this order: TensorRT
    if the bundle has plans that fit, ONNX Runtime on a GPU, `native`, ONNX Runtime."""
    workers: int | None = None
    """Worker threads, each with its own batch, on one core."""
    lone_threads: int | None = None
    """Threads of a step while a single worker has all the work."""
    max_rows: int | None = None
    """Largest batch of a worker, in rows."""
    max_waiting: int = 40_000
    """Sentences that may wait; more are refused. One request may take half of the free space."""
    max_kinds: int | None = None
    """Maximum beam widths of a worker at the same time; None: no limit."""
    tuning: Tuning = Tuning()
    """Tuning parameters; the defaults fit most machines."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and value < 1:
                raise UsageError(f"{name} is {value}: give 1 or more")
