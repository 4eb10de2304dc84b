"""Load over gRPC from separate processes: closed loops, an open loop, one large request.

Each function runs in a process by `in_process`, because a generator that shares an interpreter with
its measurement disturbs it. Times are those of CLOCK_MONOTONIC, which all processes share.
"""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import grpc.aio
from dragoman_load_test.requests.messages import INFER, grpc_request

LATE_S = 5.0
"""How much longer a client waits than its deadline, for the server's own response. A request
without a response until then counts as hung."""
_CHANNELS = 4
_PROMPT_S = 0.5
"""Time within which a single short sentence counts as answered promptly."""
_PATIENCE_S = 60.0
_UNBOUNDED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
_HEAVY = (
    "The committee could not agree on the budget for the coming year, because several members "
    "had asked for more time to read the report, and number {} of the proposals was still open."
)
_LIGHT = "I have bought {} apples for my sister, but she does not like them."
BEAM_WIDTH = {"heavy": 8, "light": 4}


HUNG = "HUNG"


@dataclass(frozen=True)
class Record:
    """One request: when it was sent, how long it took, and `OK`, `HUNG` or the error's status."""

    sent_s: float
    took_s: float
    status: str
    message: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether it was answered."""
        return self.status == "OK"

    @property
    def is_hung(self) -> bool:
        """Whether the server sent neither a response nor an error."""
        return self.status == HUNG

    @property
    def is_refused(self) -> bool:
        """Whether the server refused it because of overload."""
        return self.status in ("UNAVAILABLE", "RESOURCE_EXHAUSTED")


@dataclass(frozen=True)
class Work:
    """What to send, and where.

    Attributes:
        deadline_s: stated to the server with each request.
    """

    grpc_port: int
    weight: str
    deadline_s: float
    seed: int = 0

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """A sentence for each number."""
        pattern = _HEAVY if self.weight == "heavy" else _LIGHT
        return [pattern.format(number) for number in numbers]

    def message(self, numbers: Sequence[int]) -> bytes:
        """A request with a sentence for each number."""
        options: dict[str, Any] = {
            "beam_width": BEAM_WIDTH[self.weight],
            "target_language": "de",
        }
        return grpc_request(self.texts(numbers), options, timeout_s=self.deadline_s)


@dataclass(frozen=True)
class OpenLoop:
    """An open loop's result.

    begin_s: planned time of the first request.
    seconds: duration of sending.
    records: one for each request.
    behind_s: largest delay of the sender behind its plan.
    recovery_s: from the last request until another client is answered promptly.
    """

    begin_s: float
    seconds: float
    records: list[Record]
    behind_s: float
    recovery_s: float


def pool(processes: int) -> AbstractContextManager[ProcessPoolExecutor]:
    """A pool of load processes; they are spawned, since gRPC does not survive a fork."""
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))


def errors(records: Sequence[Record]) -> dict[str, int]:
    """How often each error occurred, most frequent first."""
    counts = Counter(
        f"{record.status} {record.message[:60]}" for record in records if not record.is_ok
    )
    return dict(counts.most_common(6))


def closed_loop(work: Work, clients: int, seconds: float, pause_s: float = 0.0) -> list[Record]:
    """Clients that each send one sentence after the other.

    Args:
        work: what to send.
        clients: number of concurrent clients.
        seconds: duration of sending.
        pause_s: pause between a response and the next request.

    Returns:
        A record for each request.
    """
    return asyncio.run(_closed_loop(work, clients, seconds, pause_s))


def open_loop(work: Work, per_second: float, seconds: float) -> OpenLoop:
    """Single sentences at exponentially distributed intervals, whatever the responses.

    Args:
        work: what to send.
        per_second: mean rate.
        seconds: duration of sending.

    Returns:
        The measurements, once every request has ended and the server has recovered.
    """
    return asyncio.run(_open_loop(work, per_second, seconds))


def large_request(work: Work, sentences: int) -> Record:
    """One request of many sentences."""
    return asyncio.run(_large_request(work, sentences))


class _Sender:
    def __init__(self, work: Work, channels: int, grace_s: float = LATE_S) -> None:
        # By default, channels of the same address share a connection.
        options = [("grpc.use_local_subchannel_pool", 1), *_UNBOUNDED]
        address = f"127.0.0.1:{work.grpc_port}"
        self._channels = [grpc.aio.insecure_channel(address, options) for _ in range(channels)]
        self._calls = [channel.unary_unary(INFER) for channel in self._channels]
        self._timeout_s = work.deadline_s + grace_s

    async def send(self, number: int, message: bytes) -> Record:
        start = time.monotonic()
        status, detail = "OK", ""
        try:
            await self._calls[number % len(self._calls)](message, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            status, detail = error.code().name, (error.details() or "")[:200]
        took_s = time.monotonic() - start
        hung = status == "DEADLINE_EXCEEDED" and took_s >= self._timeout_s
        return Record(start, took_s, HUNG if hung else status, detail)

    async def close(self) -> None:
        for channel in self._channels:
            await channel.close()


async def _closed_loop(work: Work, clients: int, seconds: float, pause_s: float) -> list[Record]:
    sender = _Sender(work, min(clients, _CHANNELS))
    chance = random.Random(work.seed)
    records: list[Record] = []
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        while time.monotonic() < end:
            records.append(await sender.send(number, work.message([chance.randrange(10**6)])))
            await asyncio.sleep(pause_s)

    await asyncio.gather(*map(client, range(clients)))
    await sender.close()
    return records


async def _open_loop(work: Work, per_second: float, seconds: float) -> OpenLoop:
    sender = _Sender(work, _CHANNELS)
    chance = random.Random(work.seed)
    begin = planned = time.monotonic()
    tasks: list[asyncio.Task[Record]] = []
    behind_s = 0.0
    while planned - begin < seconds:
        planned += chance.expovariate(per_second)
        await asyncio.sleep(max(0.0, planned - time.monotonic()))
        behind_s = max(behind_s, time.monotonic() - planned)
        message = work.message([chance.randrange(10**6)])
        tasks.append(asyncio.create_task(sender.send(len(tasks), message)))
    recovery_s = await _recovery(work)
    records = await asyncio.gather(*tasks)
    await sender.close()
    return OpenLoop(begin, seconds, list(records), behind_s, recovery_s)


async def _recovery(work: Work) -> float:
    """Seconds until another client's short sentence is answered within `_PROMPT_S`."""
    probe = replace(work, weight="light", deadline_s=_PROMPT_S)
    sender = _Sender(probe, 1, grace_s=0.0)
    start = time.monotonic()
    recovery_s = math.inf
    while math.isinf(recovery_s) and time.monotonic() - start < _PATIENCE_S:
        if (await sender.send(0, probe.message([0]))).is_ok:
            recovery_s = time.monotonic() - start
        await asyncio.sleep(0.02)
    await sender.close()
    return recovery_s


async def _large_request(work: Work, sentences: int) -> Record:
    sender = _Sender(work, 1)
    record = await sender.send(0, work.message(range(sentences)))
    await sender.close()
    return record
