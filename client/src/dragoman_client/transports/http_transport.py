"""The transports over HTTP to Triton and a gateway; one request finds out which the server is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Mapping

from dragoman_options.table import INFO, SCORE, STREAM, TRANSLATE

from dragoman_client.core.request import Part
from dragoman_client.core.tensors import Values
from dragoman_client.transports import http_wire, own_wire
from dragoman_client.transports.event_lines import read_parts
from dragoman_client.transports.http_connections import HttpConnections
from dragoman_client.transports.transport import AsyncTransport

_MODELS = "/v2/models"
_LEAST_S = 1e-3


class HttpTransport:
    """Forwards to the transport that fits the server; see `AsyncTransport`."""

    def __init__(self, connections: HttpConnections) -> None:
        """Store the connections; the first request asks the server."""
        self._connections = connections
        self._found: AsyncTransport | None = None

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `AsyncTransport`."""
        transport, left_s = await self._transport(timeout_s)
        return await transport.infer(inputs, left_s, model)

    async def stream(
        self, inputs: Mapping[str, Values], timeout_s: float
    ) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        transport, left_s = await self._transport(timeout_s)
        async with contextlib.aclosing(transport.stream(inputs, left_s)) as parts:
            async for part in parts:
                yield part

    async def is_ready(self) -> bool:
        """See `AsyncTransport`."""
        transport, _ = await self._transport(self._connections.timeout_s)
        return await transport.is_ready()

    async def close(self) -> None:
        """See `AsyncTransport`."""
        await self._connections.close()

    async def _transport(self, timeout_s: float) -> tuple[AsyncTransport, float]:
        """Returns the transport to the server, and the remaining time.

        Threads that start at the same time each ask the server; they do not wait for each other.
        """
        if self._found is not None:
            return self._found, timeout_s
        begin_s = time.monotonic()
        answer = await self._connections.ask_first(own_wire.INFO_PATH, timeout_s)
        kind = OwnTransport if own_wire.is_own(*answer) else TritonTransport
        self._found = kind(self._connections)
        return self._found, max(timeout_s - (time.monotonic() - begin_s), _LEAST_S)


class TritonTransport:
    """Triton's generate extension; see `AsyncTransport`."""

    def __init__(self, connections: HttpConnections) -> None:
        """Store the connections."""
        self._connections = connections

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `AsyncTransport`."""
        body = http_wire.generate_body(inputs, timeout_s)
        path = f"{_MODELS}/{model}/generate"
        answer = await self._connections.ask("POST", path, timeout_s, body)
        return http_wire.read_answer(self._connections.authority, *answer)

    def stream(self, inputs: Mapping[str, Values], timeout_s: float) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        body = http_wire.generate_body(inputs, timeout_s)
        path = f"{_MODELS}/{STREAM}/generate_stream"
        chunks = self._connections.chunks(path, timeout_s, body, http_wire.check_status)
        return read_parts(chunks, http_wire.event_part)

    async def is_ready(self) -> bool:
        """See `AsyncTransport`."""
        path, timeout_s = f"{_MODELS}/{TRANSLATE}/ready", self._connections.timeout_s
        status, _, body = await self._connections.ask("GET", path, timeout_s)
        return http_wire.read_ready(status, body)

    async def close(self) -> None:
        """See `AsyncTransport`."""
        await self._connections.close()


class OwnTransport:
    """The API `/api/v1` of a gateway; see `AsyncTransport`.

    Requests do not carry a deadline: the gateway cancels a request when its client disconnects.
    """

    def __init__(self, connections: HttpConnections) -> None:
        """Store the connections."""
        self._connections = connections

    async def infer(
        self, inputs: Mapping[str, Values], timeout_s: float, model: str = TRANSLATE
    ) -> Mapping[str, Values | None]:
        """See `AsyncTransport`."""
        ask, authority = self._connections.ask, self._connections.authority
        if model == INFO:
            answer = await ask("GET", own_wire.INFO_PATH, timeout_s)
            return own_wire.read_info(authority, *answer)
        is_score = model == SCORE
        path = own_wire.SCORE_PATH if is_score else own_wire.TRANSLATE_PATH
        answer = await ask("POST", path, timeout_s, own_wire.request_body(inputs))
        counts = inputs.get("num_return_sequences")
        each = int(counts[0]) if counts else 1
        name = "scores" if is_score else "translations"
        return own_wire.read_answers(authority, name, each, *answer)

    def stream(self, inputs: Mapping[str, Values], timeout_s: float) -> AsyncGenerator[Part, None]:
        """See `AsyncTransport`."""
        body = own_wire.request_body(inputs, streamed=True)
        reader = own_wire.EventReader(self._connections.authority)
        chunks = self._connections.chunks(
            own_wire.STREAM_PATH, timeout_s, body, own_wire.check_status
        )
        return read_parts(chunks, reader.part)

    async def is_ready(self) -> bool:
        """See `AsyncTransport`."""
        answer = await self._connections.ask(
            "GET", own_wire.HEALTH_PATH, self._connections.timeout_s
        )
        return own_wire.read_ready(*answer)

    async def close(self) -> None:
        """See `AsyncTransport`."""
        await self._connections.close()
