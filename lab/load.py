"""One window of a closed loop against a gRPC server, with the CPU time of all participants.

The loop is that of `dragoman load-test`. Here it runs for one window, as one turn of a comparison,
and processes on the same machine are monitored. The generator runs in a separate process, a job as
JSON in, a result as JSON out, so that its CPU time can be measured, and the caller's memory does
not slow it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dragoman_client.core.access import Access
from dragoman_client.core.address import Address
from dragoman_load_test.latency import Latency, LatencyHistogram
from dragoman_load_test.ledger import Ledger
from dragoman_load_test.loops import Clients, ClosedLoop
from dragoman_load_test.requests.senders import open_senders
from dragoman_load_test.requests.target import Target
from dragoman_load_test.texts import in_batches

from dragoman.kernel.errors import DragomanError
from lab.processor_time import cpu_s, machine_busy_s

GENERATOR, MACHINE = "generator", "machine"
"""Names in `LoadResult.cpu_s`: the generator's own process, and the whole machine's busy time."""


@dataclass(frozen=True)
class LoadPlan:
    """How much load, and for how long; `seed` determines the order of requests."""

    concurrency: int
    warm_up_s: float
    duration_s: float
    seed: int = 0
    timeout_s: float = 60.0


@dataclass(frozen=True)
class LoadJob:
    """A load of the server at a host and port.

    Each request sends one text; all are sent once before one is repeated. `watched` are processes
    whose CPU seconds are measured, by name.
    """

    address: str
    texts: Sequence[str]
    options: Mapping[str, Any]
    plan: LoadPlan
    watched: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadResult:
    """Result of a load.

    Attributes:
        elapsed_s: length of the measured window.
        sentences: texts translated within it.
        output_tokens: tokens of their translations.
        latencies: of requests sent within it, in the format of `LatencyHistogram.encode`.
        errors: number of failed requests by kind and a message, warm-up included.
        cpu_s: CPU seconds by name: the generator's, the machine's, and those of the job.
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


def measure(job: LoadJob) -> LoadResult:
    """Run a job in a new process.

    Raises:
        DragomanError: the process failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "lab.load"],
        input=json.dumps(asdict(job)),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        cwd=Path(__file__).parents[1],
    )
    if done.returncode:
        raise DragomanError("the load generator failed; its traceback above says why")
    return LoadResult(**json.loads(done.stdout))


async def run(job: LoadJob) -> LoadResult:
    """Run a job in this process."""
    plan = job.plan
    address = Address(is_grpc=True, tls=False, authority=job.address)
    target = Target(
        f"grpc://{job.address}",
        address,
        Access(),
        dict(job.options),
        streamed=False,
        timeout_s=plan.timeout_s,
    )
    ledger = Ledger(plan.duration_s)
    async with open_senders(target, in_batches(job.texts, 1, plan.seed)) as senders:
        clients = Clients(ClosedLoop(plan.concurrency), senders, ledger)
        await asyncio.sleep(plan.warm_up_s)
        cpu_begin, begin_s = _cpu_s(job), time.perf_counter()
        ledger.begin(begin_s)
        await asyncio.sleep(plan.duration_s)
        elapsed_s, cpu_end = time.perf_counter() - begin_s, _cpu_s(job)
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
            name: (cpu_end[name] - begin) * plan.duration_s / elapsed_s
            for name, begin in cpu_begin.items()
        },
    )


def _cpu_s(job: LoadJob) -> dict[str, float]:
    watched = {name: cpu_s(pids) for name, pids in job.watched.items()}
    return {GENERATOR: time.process_time(), MACHINE: machine_busy_s(), **watched}


def main() -> None:
    """Read a job, run it, write its result."""
    values = json.load(sys.stdin)
    plan = LoadPlan(**values.pop("plan"))
    print(json.dumps(asdict(asyncio.run(run(LoadJob(plan=plan, **values))))))


if __name__ == "__main__":
    main()
