"""Steady requests of every kind through a balancer; each response is checked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass

from dragoman_client import AsyncTranslator, ServerUnavailable, TranslationError

from tests.campaigns.background import Background

_CLIENTS = 2
"""Clients of each kind."""
WITHOUT_RETRIES = ", no retries"
"""Suffix of kinds whose client does not retry."""
CUT, WRONG = "cut: ", "wrong: "
"""How a fault begins: a stream that ended after a part of its text, or a wrong response."""
_TIMEOUT_S = 20.0
_LOOK_S = 0.1
_TEXTS = [
    f"I have bought {number} apples for my sister, but she does not like them."
    for number in range(2, 60)
]
Send = Callable[[str], Awaitable[str]]


@dataclass(frozen=True)
class Sent:
    """One request; `fault` is empty if its response was correct."""

    kind: str
    sent_s: float
    took_s: float
    fault: str


class StreamCut(Exception):
    """A stream ended after a part of its text."""


class Traffic(Background):
    """Sends until its context is left.

    Attributes:
        sent: every request that has ended.
        rate: requests per second of all clients together; None: as many as are answered. A client
            waits for its answer before it sends the next request.
    """

    def __init__(self, gateway: str, grpc: str, http: str) -> None:
        """Prepare.

        Args:
            gateway: its URL.
            grpc: URL of the balancer.
            http: URL of the balancer.
        """
        super().__init__()
        self._urls = gateway, grpc, http
        self.sent: list[Sent] = []
        self.rate: float | None = None
        self._random = random.Random(1)

    def between(self, begin_s: float, end_s: float) -> list[Sent]:
        """The requests sent within a time range."""
        return [request for request in self.sent if begin_s <= request.sent_s < end_s]

    def _run(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        async with _kinds(*self._urls) as kinds:
            right = {text: await kinds["gRPC"](text) for text in _TEXTS}
            loops = [
                self._loop(kind, send, right, itertools.cycle(_TEXTS[number:] + _TEXTS[:number]))
                for kind, send in kinds.items()
                for number in range(_CLIENTS)
            ]
            self._clients = len(loops)
            await asyncio.gather(*loops)

    async def _loop(
        self, kind: str, send: Send, right: dict[str, str], texts: Iterator[str]
    ) -> None:
        while not self._stopping.is_set():
            text, begin_s, fault = next(texts), time.monotonic(), ""
            try:
                answer = await send(text)
                fault = "" if answer == right[text] else f"{WRONG}{answer}"
            except StreamCut as error:
                fault = f"{CUT}{error.__cause__}"
            except TranslationError as error:
                fault = f"{type(error).__name__}: {error}"
            self.sent.append(Sent(kind, begin_s, time.monotonic() - begin_s, fault))
            await self._pause(begin_s)

    async def _pause(self, sent_s: float) -> None:
        """Wait until a client may send its next request, at random times, as users do."""
        if self.rate is not None:
            next_s = sent_s + 2 * self._random.random() * self._clients / self.rate
            while (left_s := next_s - time.monotonic()) > 0:
                if self._stopping.is_set():
                    return
                await asyncio.sleep(min(left_s, _LOOK_S))


@contextlib.asynccontextmanager
async def _kinds(gateway: str, grpc: str, http: str) -> AsyncIterator[dict[str, Send]]:
    """Functions that send a text and return its translation, by name."""
    async with (
        AsyncTranslator(gateway, timeout_s=_TIMEOUT_S) as of_gateway,
        AsyncTranslator(gateway, timeout_s=_TIMEOUT_S, retries=0) as of_gateway_once,
        AsyncTranslator(grpc, timeout_s=_TIMEOUT_S) as over_grpc,
        AsyncTranslator(grpc, timeout_s=_TIMEOUT_S, retries=0) as over_grpc_once,
        AsyncTranslator(http, timeout_s=_TIMEOUT_S) as over_http,
    ):
        yield {
            "gateway": _whole(of_gateway),
            f"gateway{WITHOUT_RETRIES}": _whole(of_gateway_once),
            "gateway, stream": _streamed(of_gateway),
            "gRPC": _whole(over_grpc),
            f"gRPC{WITHOUT_RETRIES}": _whole(over_grpc_once),
            "HTTP": _whole(over_http),
            "HTTP, stream": _streamed(over_http),
        }


def _whole(client: AsyncTranslator) -> Send:
    async def send(text: str) -> str:
        return (await client.translate(text, target_language="de")).text

    return send


def _streamed(client: AsyncTranslator) -> Send:
    async def send(text: str) -> str:
        deltas: list[str] = []
        last = None
        try:
            async for last in client.translate_stream(text, target_language="de"):
                deltas.append(last.delta or "")
        except ServerUnavailable as error:
            if deltas:
                raise StreamCut from error
            raise
        joined = "".join(deltas)
        return joined if last is not None and last.text == joined else f"{joined}, not {last}"

    return send
