"""The transport to a gateway, over its own API `/api/v1`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from dragoman_options.table import INFO, SCORE, TRANSLATE

from dragoman_client.core.request import Part
from dragoman_client.core.tensors import Values
from dragoman_client.transports import own_wire
from dragoman_client.transports.event_lines import read_parts
from dragoman_client.transports.http_connections import HttpConnections


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
