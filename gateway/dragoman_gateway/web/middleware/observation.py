"""Outermost middleware: metrics and the access log of HTTP requests and of WebSocket messages."""

from __future__ import annotations

from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dragoman_gateway.access.record import RequestRecord, begin_record
from dragoman_gateway.shared.metrics import Metrics, status_class
from dragoman_gateway.web.middleware.access_log import AccessLog

_OPERATIONS = "operations"
_STARTS = ("http.response.start", "websocket.http.response.start")
"""ASGI's messages with the status of an answer."""


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
        observing = scope["observing"] = partial(_Observation, self._metrics, self._log, scope)
        with (observation := observing()) as record:

            async def observe(message: Message) -> None:
                kind = message["type"]
                if kind in _STARTS:
                    record.status = message["status"]
                await send(message)
                if kind == "websocket.accept":
                    record.status = 101
                    observation.end()

            await self._application(scope, receive, observe)


class _Observation:
    """A context with the record of a request, which is counted and logged at the end."""

    def __init__(self, metrics: Metrics, log: AccessLog | None, scope: Scope) -> None:
        self._metrics, self._log, self._scope = metrics, log, scope
        self._is_over = False

    def __enter__(self) -> RequestRecord:
        self._began = self._metrics.begin()
        self._record = begin_record()
        return self._record

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Count and log the request, if this has not been done."""
        if self._is_over:
            return
        self._is_over = True
        record, scope = self._record, self._scope
        protocol, endpoint = scope.get("protocol", "none"), scope.get("endpoint_name")
        took_s = self._metrics.end(
            self._began, protocol, endpoint, status_class(record.status), record.characters
        )
        if self._log is not None and protocol != _OPERATIONS:
            self._log.write(
                record,
                took_s,
                protocol=protocol,
                method=scope["method"],
                endpoint=endpoint,
                request_id=scope.get("request_id"),
            )
