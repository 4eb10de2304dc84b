"""A closed loop of HTTP/1.1 requests that are prepared as bytes, as cheap as Python allows.

The generator shares the cores with the servers, so its cost is the same for all of them.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop
from dragoman_load_test.texts import read_texts
from dragoman_serving.launch.processes import cpu_s

from dragoman.kernel.errors import CheckFailed, UsageError

_WARM_UP_S = 0.7
_MOST_CHARACTERS = 300


@dataclass(frozen=True)
class Run:
    """Result of a load.

    Attributes:
        requests_per_s: requests answered with 200 in the window, per second.
        p50_ms: median time from a request to its response.
        p99_ms: 99th percentile of that time.
        requests: number of requests answered in the window.
        cpu_ms: processor time of the watched process for each of them.
    """

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    requests: int
    cpu_ms: float


def post(url: str, body: Any) -> bytes:
    """A POST of JSON as bytes."""
    parts = urlsplit(url)
    content = json.dumps(body).encode()
    head = (
        f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def distinct_texts(path: Path) -> list[str]:
    """The short lines of a file, each once.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        texts = read_texts(path)
    except ValueError as error:
        raise UsageError(str(error)) from error
    return list(dict.fromkeys(text for text in texts if len(text) < _MOST_CHARACTERS))


def rotated(texts: Sequence[str], turn: int, rounds: int) -> list[str]:
    """All texts, from another one on in each round."""
    begin = turn * len(texts) // rounds
    return [*texts[begin:], *texts[:begin]]


def run_load(
    url: str,
    requests: Sequence[bytes],
    clients: int,
    duration_s: float,
    watched: int | None = None,
) -> Run:
    """Put a server under load.

    Args:
        url: its host and port are connected to.
        requests: sent in order, and again from the first after the last.
        clients: connections, each of which sends its next request after a response.
        duration_s: length of the measured window.
        watched: process id of a server whose processor time is measured; None: none.

    Raises:
        CheckFailed: a request was not answered with 200.
    """
    return uvloop.run(_run(url, requests, clients, duration_s, watched or 0))


async def _run(
    url: str, requests: Sequence[bytes], clients: int, duration_s: float, watched: int
) -> Run:
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 80
    loop = asyncio.get_running_loop()
    shared = _Shared(requests, loop.create_future())
    opened = [
        await loop.create_connection(lambda: _Client(shared), host, port) for _ in range(clients)
    ]
    await asyncio.wait([shared.failed], timeout=_WARM_UP_S)
    begin_s, begin_cpu_s = time.perf_counter(), cpu_s(watched)
    shared.begin_s = begin_s
    await asyncio.wait([shared.failed], timeout=duration_s)
    elapsed_s, used_s = time.perf_counter() - begin_s, cpu_s(watched) - begin_cpu_s
    shared.is_over = True
    latencies_ms = sorted(1000 * latency_s for latency_s in shared.latencies_s)
    for transport, _ in opened:
        transport.abort()
    if shared.failed.done():
        raise CheckFailed(f"{url}: {shared.failed.result()}")
    if not latencies_ms:
        raise CheckFailed(f"{url}: no answer within {duration_s:g} s")
    p50_ms, p99_ms = (latencies_ms[int(share * len(latencies_ms))] for share in (0.5, 0.99))
    number = len(latencies_ms)
    return Run(number / elapsed_s, p50_ms, p99_ms, number, 1000 * used_s / number)


class _Shared:
    """State shared by all clients."""

    def __init__(self, requests: Sequence[bytes], failed: asyncio.Future[str]) -> None:
        self.requests = itertools.cycle(requests)
        self.failed = failed
        self.begin_s = float("inf")
        self.is_over = False
        self.latencies_s: list[float] = []

    def count(self, sent_s: float) -> None:
        now_s = time.perf_counter()
        if now_s >= self.begin_s and not self.is_over:
            self.latencies_s.append(now_s - sent_s)


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, shared: _Shared) -> None:
        self._shared = shared
        self._received = b""
        self._sent_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is not a subclass
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if not _is_complete(self._received):
            return
        if not self._received.startswith(b"HTTP/1.1 200"):
            if not self._shared.failed.done():
                self._shared.failed.set_result(self._received[:500].decode(errors="replace"))
            return
        self._received = b""
        self._shared.count(self._sent_s)
        self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._shared.is_over and not self._shared.failed.done():
            self._shared.failed.set_result(f"the connection was closed: {error}")

    def _send(self) -> None:
        self._sent_s = time.perf_counter()
        self._transport.write(next(self._shared.requests))


def _is_complete(received: bytes) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    head = head.lower()
    _, found, length = head.partition(b"content-length:")
    if found:
        return len(body) >= int(length.partition(b"\r\n")[0])
    return b"chunked" in head and body.endswith(b"0\r\n\r\n")
