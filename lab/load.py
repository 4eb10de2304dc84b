"""One window of a closed loop against a gRPC server, with the CPU time of all participants.

The loop is that of `dragoman load-test`. Here it runs for one window, as one turn of a comparison,
and processes on the same machine are monitored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dragoman_load_test.latency import Latency, LatencyHistogram
from dragoman_load_test.ledger import Ledger
from dragoman_load_test.loops import Clients, ClosedLoop
from dragoman_load_test.senders import open_senders
from dragoman_load_test.target import Target
from dragoman_load_test.texts import in_batches

GENERATOR = "generator"
"""Name of the generator's own process in `LoadResult.cpu_s`."""

Probe = Callable[[], Mapping[str, float]]


@dataclass(frozen=True)
class LoadPlan:
    """How much load, and for how long; `seed` determines the order of requests."""

    concurrency: int
    warm_up_s: float
    duration_s: float
    seed: int = 0
    timeout_s: float = 60.0


@dataclass(frozen=True)
class LoadResult:
    """Result of a load.

    Attributes:
        elapsed_s: length of the measured window.
        sentences: texts translated within it.
        output_tokens: tokens of their translations.
        latencies: of requests sent within it, in the format of `LatencyHistogram.encode`.
        errors: number of failed requests by kind and a message, warm-up included.
        cpu_s: CPU seconds by name: the generator's, and those that the probe returned.
    """

    elapsed_s: float
    sentences: int
    output_tokens: int
    latencies: str
    errors: Mapping[str, int]
    cpu_s: Mapping[str, float]

    @property
    def sentences_per_s(self) -> float:
        """Throughput in sentences per second."""
        return self.sentences / self.elapsed_s

    @property
    def tokens_per_s(self) -> float:
        """Throughput in output tokens per second."""
        return self.output_tokens / self.elapsed_s

    @property
    def latency(self) -> Latency:
        """Time from sending a request to its response."""
        return LatencyHistogram.merge([self.latencies]).summary()


def run_load(
    target: Target, texts: Sequence[str], plan: LoadPlan, probe: Probe = dict
) -> LoadResult:
    """Put a server under load.

    Args:
        target: the server and the form of requests.
        texts: each request sends one; all are sent once before one is repeated.
        plan: how many clients, and how long.
        probe: returns CPU seconds by name; called at the start and the end of the window.
    """
    return asyncio.run(_run_load(target, texts, plan, probe))


async def _run_load(
    target: Target, texts: Sequence[str], plan: LoadPlan, probe: Probe
) -> LoadResult:
    ledger = Ledger(plan.duration_s)
    async with open_senders(target, in_batches(texts, 1, plan.seed)) as senders:
        clients = Clients(ClosedLoop(plan.concurrency), senders, ledger)
        await asyncio.sleep(plan.warm_up_s)
        cpu_begin, begin_s = _cpu_s(probe), time.perf_counter()
        ledger.begin(begin_s)
        await asyncio.sleep(plan.duration_s)
        elapsed_s, cpu_end = time.perf_counter() - begin_s, _cpu_s(probe)
        await clients.stop(wait=True)
    page = ledger.window(0)
    errors = page.errors + ledger.window(1).errors + ledger.warm_up_errors
    return LoadResult(
        plan.duration_s,
        page.sentences,
        page.tokens,
        page.latencies.encode(),
        {f"{kind}: {ledger.examples[kind]}": count for kind, count in errors.items()},
        # Scale as if the clocks had been read at the window's end.
        {
            name: (cpu_end[name] - seconds) * plan.duration_s / elapsed_s
            for name, seconds in cpu_begin.items()
        },
    )


def _cpu_s(probe: Probe) -> dict[str, float]:
    return {GENERATOR: time.process_time(), **probe()}
