"""A small OpenTelemetry collector: receives spans over HTTP, in JSON and in protobuf."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_WAIT_S = 200
_VALUES = {"stringValue": str, "intValue": int, "doubleValue": float, "boolValue": bool}


@dataclass(frozen=True)
class Span:
    """The parts of a span that a collector keeps."""

    service: str
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    begin_ns: int
    end_ns: int
    attributes: dict[str, Any]
    failed: bool


class Collector(ThreadingHTTPServer):
    """Receives spans on a free port; a context.

    Attributes:
        received: bodies, unchanged.
        spans: the spans in them.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.received: list[bytes] = []
        self.spans: list[Span] = []
        self._changed = threading.Condition()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def take(self, body: bytes, is_json: bool) -> None:
        spans = _of_json(json.loads(body)) if is_json else _of_protobuf(body)
        with self._changed:
            self.received.append(body)
            self.spans += spans
            self._changed.notify_all()

    def of_trace(self, trace_id: str, names: Collection[str]) -> list[Span]:
        """The spans of a trace, once those with these names have arrived."""
        deadline = time.monotonic() + _WAIT_S
        with self._changed:
            while True:
                found = [one for one in self.spans if one.trace_id == trace_id]
                if {one.name for one in found}.issuperset(names):
                    return found
                left_s = deadline - time.monotonic()
                assert left_s > 0, [one.name for one in found]
                self._changed.wait(left_s)


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        self.server.take(body, "json" in self.headers["Content-Type"])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _of_json(written: dict[str, Any]) -> list[Span]:
    return [
        Span(
            _attributes_of_json(of_resource["resource"])["service.name"],
            one["name"],
            one["traceId"],
            one["spanId"],
            one.get("parentSpanId", ""),
            int(one["startTimeUnixNano"]),
            int(one["endTimeUnixNano"]),
            _attributes_of_json(one),
            one.get("status", {}).get("code", 0) == 2,
        )
        for of_resource in written["resourceSpans"]
        for of_scope in of_resource["scopeSpans"]
        for one in of_scope["spans"]
    ]


def _attributes_of_json(holder: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for one in holder.get("attributes", ()):
        ((kind, value),) = one["value"].items()
        found[one["key"]] = _VALUES[kind](value)
    return found


def _of_protobuf(body: bytes) -> list[Span]:
    return [
        Span(
            _attributes(of_resource.resource.attributes)["service.name"],
            one.name,
            one.trace_id.hex(),
            one.span_id.hex(),
            one.parent_span_id.hex(),
            one.start_time_unix_nano,
            one.end_time_unix_nano,
            _attributes(one.attributes),
            one.status.code == 2,
        )
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for one in of_scope.spans
    ]


def _attributes(given: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in given}
