"""Outermost middleware: metrics and the access log of HTTP requests and of WebSocket messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman_gateway.access.record import RequestRecord, begin_record
from dragoman_gateway.shared.metrics import Metrics, status_class
from dragoman_gateway.web.middleware.access_log import AccessLog

_OPERATIONS = "operations"


class Observed:
    """ASGI middleware that counts and logs requests.

    The handshake of a WebSocket is a request, which ends when it is accepted. The endpoint observes
    each message as another one, with `scope["observing"]`.
    """

    def __init__(self, application: ASGIApp, metrics: Metrics, log: AccessLog | None) -> None:
        """Wrap an application.

        Args:
            application: the application that answers.
            metrics: count the requests.
            log: gets a line for each request except probes; None: no log.
        """
        self._application, self._metrics, self._log = application, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["observing"] = lambda: self._observing(scope)
        with ExitStack() as answering:
            record = answering.enter_context(self._observing(scope))

            async def observe(message: Message) -> None:
                if message["type"].endswith("http.response.start"):
                    record.status = message["status"]
                await send(message)
                if message["type"] == "websocket.accept":
                    record.status = 101
                    answering.close()

            await self._application(scope, receive, observe)

    @contextmanager
    def _observing(self, scope: Scope) -> Iterator[RequestRecord]:
        """Yields the record of a request, which is counted and logged at the end."""
        record = begin_record()
        began = self._metrics.begin()
        try:
            yield record
        finally:
            protocol, endpoint = scope.get("protocol", "none"), scope.get("endpoint_name")
            took_s = self._metrics.end(
                began, protocol, endpoint, status_class(record.status), record.characters
            )
            if self._log is not None and protocol != _OPERATIONS:
                self._log.write(
                    request_id=scope.get("request_id"),
                    trace_id=record.trace_id,
                    protocol=protocol,
                    method=scope["method"],
                    endpoint=endpoint,
                    status=record.status,
                    took_s=took_s,
                    characters=record.characters,
                    key_id=record.key_id,
                )
