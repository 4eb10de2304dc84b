"""The server's Prometheus metrics during a load test.

Source: https://github.com/triton-inference-server/server/blob/main/docs/user_guide/metrics.md
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_EVERY_S = 0.5
_TIMEOUT_S = 5.0
_PREFIXES = ("dragoman_", "nv_inference_", "nv_cpu_", "nv_gpu_")


@dataclass(frozen=True)
class ServerFigures:
    """Server metrics over a period, each summed over the server's models.

    Attributes:
        elapsed_s: length of the period.
        increases: increases of counters, by name.
        means: means of gauges, sampled twice a second.
        highest: maxima of the same samples.
    """

    elapsed_s: float
    increases: Mapping[str, float] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    highest: Mapping[str, float] = field(default_factory=dict)

    def described(self) -> Iterator[tuple[str, str]]:
        """Yields readable names and values of the metrics that the server has."""
        yield from self._throughput()
        yield from self._load()
        yield from self._failures()
        yield from self._resources()

    def _throughput(self) -> Iterator[tuple[str, str]]:
        ups = self.increases
        for name, metric in (
            ("sentences/s", "dragoman_sentences_total"),
            ("source tokens/s", "dragoman_input_tokens_total"),
            ("output tokens/s", "dragoman_output_tokens_total"),
        ):
            if metric in ups:
                yield name, f"{ups[metric] / self.elapsed_s:,.0f}"
        if sentences := ups.get("dragoman_sentences_total"):
            for name, metric in (
                ("queue time", "dragoman_queue_seconds_total"),
                ("time to first token", "dragoman_first_token_seconds_total"),
                ("decoding time", "dragoman_decode_seconds_total"),
            ):
                yield f"{name}, ms per sentence", f"{1000 * ups.get(metric, 0.0) / sentences:.1f}"

    def _load(self) -> Iterator[tuple[str, str]]:
        ups, means = self.increases, self.means
        if means.get("dragoman_rows_limit"):
            rows, most = means["dragoman_rows"], means["dragoman_rows_limit"]
            yield (
                "rows in flight, mean",
                f"{rows:.1f} of {most:.0f} ({rows / most:.0%})",
            )
        if "dragoman_waiting" in means:
            yield (
                "sentences waiting, mean and maximum",
                f"{means['dragoman_waiting']:.1f}, {self.highest['dragoman_waiting']:.0f}",
            )
        if ups.get("nv_inference_exec_count_total"):
            batch = ups["nv_inference_count_total"] / ups["nv_inference_exec_count_total"]
            yield "Triton's batch size, mean requests", f"{batch:.1f}"

    def _failures(self) -> Iterator[tuple[str, str]]:
        for name, metric in (
            ("rejected because the queue was full", "dragoman_sentences_rejected_total"),
            ("past their deadline", "dragoman_sentences_overdue_total"),
            ("cancelled", "dragoman_sentences_cancelled_total"),
        ):
            if count := self.increases.get(metric):
                yield f"sentences {name}", f"{count:,.0f}"

    def _resources(self) -> Iterator[tuple[str, str]]:
        ups, means = self.increases, self.means
        if "dragoman_process_cpu_seconds_total" in ups:
            cores = ups["dragoman_process_cpu_seconds_total"] / self.elapsed_s
            yield "engine process, CPU cores used", f"{cores:.2f}"
        if "dragoman_process_resident_memory_bytes" in self.highest:
            resident = self.highest["dragoman_process_resident_memory_bytes"]
            yield "engine process, peak memory", f"{resident / 2**20:,.0f} MiB"
        if "nv_cpu_utilization" in means:
            yield "server machine, CPU utilization", f"{means['nv_cpu_utilization']:.0%}"
        if "nv_gpu_utilization" in means:
            yield "GPU utilization", f"{means['nv_gpu_utilization']:.0%}"


class ServerWatch:
    """Samples a server's metrics while it is open."""

    def __init__(self, session: Any, url: str) -> None:
        """Use `watch_server`."""
        self._session = session
        self._url = url
        self._begin: tuple[float, dict[str, float]] | None = None
        self._samples: list[dict[str, float]] = []
        self._sampling: asyncio.Task[None] | None = None
        self.problem: str | None = None
        """Why there are no metrics."""

    async def begin(self) -> None:
        """Start the measured period."""
        if read := await self._read():
            counters, _ = read
            self._begin = time.perf_counter(), counters
            self._sampling = asyncio.create_task(self._sample())

    async def end(self) -> ServerFigures | None:
        """Returns the metrics since `begin`; None if they are not available: see `problem`."""
        if self._sampling is None or self._begin is None:
            return None
        self._sampling.cancel()
        await asyncio.gather(self._sampling, return_exceptions=True)
        read = await self._read()
        if read is None:
            return None
        begin_s, before = self._begin
        counters, gauges = read
        self._samples.append(gauges)
        names = sorted(set().union(*self._samples))
        series = {name: [sample.get(name, 0.0) for sample in self._samples] for name in names}
        return ServerFigures(
            time.perf_counter() - begin_s,
            {name: value - before.get(name, 0.0) for name, value in counters.items()},
            {name: sum(values) / len(values) for name, values in series.items()},
            {name: max(values) for name, values in series.items()},
        )

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            if read := await self._read():
                self._samples.append(read[1])

    async def _read(self) -> tuple[dict[str, float], dict[str, float]] | None:
        import aiohttp

        try:
            async with self._session.get(self._url) as response:
                response.raise_for_status()
                return read_metrics(await response.text())
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            self.problem = f"{self._url}: {error or repr(error)}"
            return None


@contextlib.asynccontextmanager
async def watch_server(url: str) -> AsyncIterator[ServerWatch]:
    """Sample the metrics at a URL."""
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        yield ServerWatch(session, url)


def read_metrics(text: str) -> tuple[dict[str, float], dict[str, float]]:
    """Parse counters and gauges by name, each summed over its labels; counters end in `_total`.

    Args:
        text: metrics in Prometheus' text format.

    Raises:
        ValueError: the text does not have this format.
    """
    counters: collections.defaultdict[str, float] = collections.defaultdict(float)
    gauges: collections.defaultdict[str, float] = collections.defaultdict(float)
    for family in text_string_to_metric_families(text):
        kept = {"counter": counters, "gauge": gauges}.get(family.type)
        if kept is None:
            continue
        for sample in family.samples:
            # Skip histogram buckets, labelled `le`: a sum over them is meaningless.
            if sample.name.startswith(_PREFIXES) and "le" not in sample.labels:
                kept[sample.name] += sample.value
    return dict(counters), dict(gauges)
