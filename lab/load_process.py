"""The load generator in a separate process: a job as JSON in, a result as JSON out.

A separate process makes the generator's CPU time measurable, and the caller's memory does not slow
it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dragoman_client.access import Access
from dragoman_client.address import Address
from dragoman_load_test.target import Target

from dragoman.kernel.errors import DragomanError
from lab.load import LoadPlan, LoadResult, run_load
from lab.processor_time import cpu_s, machine_busy_s

MACHINE = "machine"
"""Name of the whole machine's busy seconds in `LoadResult.cpu_s`."""
_PROJECT = Path(__file__).parents[1]


@dataclass(frozen=True)
class LoadJob:
    """A load and its inputs.

    Attributes:
        address: host and port of the server.
        texts: each request sends one.
        options: of every request.
        plan: how much load.
        watched: processes whose CPU seconds are measured, by name.
    """

    address: str
    texts: Sequence[str]
    options: Mapping[str, Any]
    plan: LoadPlan
    watched: Mapping[str, Sequence[int]]


def measure(job: LoadJob) -> LoadResult:
    """Run a job in a new process.

    Raises:
        DragomanError: the process failed.
    """
    done = subprocess.run(
        [sys.executable, "-m", "lab.load_process"],
        input=json.dumps(asdict(job)),
        stdout=subprocess.PIPE,
        encoding="utf-8",
        cwd=_PROJECT,
    )
    if done.returncode:
        raise DragomanError("the load generator failed; its traceback above says why")
    return LoadResult(**json.loads(done.stdout))


def run_job(job: LoadJob) -> LoadResult:
    """Run a job in this process."""
    target = Target(
        f"grpc://{job.address}",
        Address(is_grpc=True, tls=False, authority=job.address),
        Access(),
        dict(job.options),
        streamed=False,
        timeout_s=job.plan.timeout_s,
    )

    def watch() -> dict[str, float]:
        return {
            MACHINE: machine_busy_s(),
            **{name: cpu_s(pids) for name, pids in job.watched.items()},
        }

    return run_load(target, job.texts, job.plan, watch)


def main() -> int:
    """Read a job, run it, write its result."""
    values = json.load(sys.stdin)
    plan = LoadPlan(**values.pop("plan"))
    print(json.dumps(asdict(run_job(LoadJob(plan=plan, **values)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
