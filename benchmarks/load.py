"""A closed loop of clients against a gRPC server: how much it does, and how long each waits.

Each of N clients sends a request, waits for its answer and sends the next. All of them are
coroutines over one channel, and requests are bytes made beforehand, so that the generator takes
little from a server on the same machine. Clients run before and after the time that counts:
requests answered within it are counted, wherever they began.

Knows clocks and channels; must not know processes, contenders or tables.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc

from benchmarks.infer_request import METHOD, read_answer
from benchmarks.latency import Latency, LatencyHistogram

GENERATOR = "generator"
"""Name of the generator's own process among `LoadResult.cpu_s`."""
_PAUSE_AFTER_ERROR_S = 0.05
"""A server that is away refuses at once; asking it without a pause would only heat the machine."""

Probe = Callable[[], Mapping[str, float]]


@dataclass(frozen=True)
class LoadPlan:
    """How much load, and for how long; `seed` orders the requests."""

    concurrency: int
    warm_up_s: float
    duration_s: float
    seed: int = 0
    timeout_s: float = 60.0


@dataclass(frozen=True)
class LoadResult:
    """What came of a load.

    Attributes:
        elapsed_s: the time that counts, as it really was.
        sentences: texts translated within it.
        output_tokens: tokens of their translations.
        latencies: of their requests, as `LatencyHistogram.encode` writes them.
        errors: how often a request failed, by message, warm-up included.
        cpu_s: CPU seconds by name: the generator's, and what the probe told.
    """

    elapsed_s: float
    sentences: int
    output_tokens: int
    latencies: str
    errors: Mapping[str, int]
    cpu_s: Mapping[str, float]

    @property
    def sentences_per_s(self) -> float:
        """Throughput in sentences."""
        return self.sentences / self.elapsed_s

    @property
    def tokens_per_s(self) -> float:
        """Throughput in output tokens."""
        return self.output_tokens / self.elapsed_s

    @property
    def latency(self) -> Latency:
        """From sending a request to its answer."""
        return LatencyHistogram.merge([self.latencies]).summary()


@dataclass
class _Tally:
    """What the clients found so far; they count answers only while `counting`."""

    counting: bool = False
    stopping: bool = False
    sentences: int = 0
    output_tokens: int = 0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    errors: Counter[str] = field(default_factory=Counter)


def run_load(
    address: str, requests: Sequence[bytes], plan: LoadPlan, probe: Probe = dict
) -> LoadResult:
    """Put a server under load.

    Args:
        address: host and port.
        requests: messages to `ModelInfer`; all are sent once before one is sent again.
        plan: how many clients, and how long.
        probe: asked for CPU seconds, by name, when the time that counts begins and ends.
    """
    return asyncio.run(_run_load(address, requests, plan, probe))


def endless(requests: Sequence[bytes], seed: int) -> Iterator[bytes]:
    """All requests in an order drawn from the seed, over and over."""
    order = list(requests)
    random.Random(seed).shuffle(order)  # noqa: S311  (no secret)
    return itertools.cycle(order)


async def _run_load(
    address: str, requests: Sequence[bytes], plan: LoadPlan, probe: Probe
) -> LoadResult:
    tally = _Tally()
    source = endless(requests, plan.seed)
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(METHOD)
        clients = [
            asyncio.create_task(_send_until_stopped(call, source, tally, plan.timeout_s))
            for _ in range(plan.concurrency)
        ]
        await asyncio.sleep(plan.warm_up_s)
        begin, cpu_begin = time.perf_counter(), _cpu_s(probe)
        tally.counting = True
        await asyncio.sleep(plan.duration_s)
        tally.counting = False
        elapsed_s, cpu_end = time.perf_counter() - begin, _cpu_s(probe)
        tally.stopping = True
        await asyncio.gather(*clients)
    return LoadResult(
        elapsed_s,
        tally.sentences,
        tally.output_tokens,
        tally.latencies.encode(),
        dict(tally.errors),
        {name: cpu_end[name] - seconds for name, seconds in cpu_begin.items()},
    )


async def _send_until_stopped(
    call: Callable[..., Any], source: Iterator[bytes], tally: _Tally, timeout_s: float
) -> None:
    """One client: a request, its answer, the next request."""
    while not tally.stopping:
        begin = time.perf_counter()
        try:
            message = await call(next(source), timeout=timeout_s)
            latency_s = time.perf_counter() - begin
            answer = read_answer(message)
        except (grpc.RpcError, ValueError) as error:
            tally.errors[_describe(error)] += 1
            await asyncio.sleep(_PAUSE_AFTER_ERROR_S)
            continue
        if tally.counting:
            tally.latencies.record(latency_s)
            tally.sentences += len(answer.texts)
            tally.output_tokens += answer.tokens


def _describe(error: Exception) -> str:
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)


def _cpu_s(probe: Probe) -> dict[str, float]:
    return {GENERATOR: time.process_time(), **probe()}
