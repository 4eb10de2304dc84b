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
                spans = [span for span in self.spans if span.trace_id == trace_id]
                if {span.name for span in spans}.issuperset(names):
                    return spans
                left_s = deadline - time.monotonic()
                assert left_s > 0, [span.name for span in spans]
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
            span["name"],
            span["traceId"],
            span["spanId"],
            span.get("parentSpanId", ""),
            int(span["startTimeUnixNano"]),
            int(span["endTimeUnixNano"]),
            _attributes_of_json(span),
            span.get("status", {}).get("code", 0) == 2,
        )
        for of_resource in written["resourceSpans"]
        for of_scope in of_resource["scopeSpans"]
        for span in of_scope["spans"]
    ]


def _attributes_of_json(holder: dict[str, Any]) -> dict[str, Any]:
    attributes = {}
    for attribute in holder.get("attributes", ()):
        ((kind, value),) = attribute["value"].items()
        attributes[attribute["key"]] = _VALUES[kind](value)
    return attributes


def _of_protobuf(body: bytes) -> list[Span]:
    return [
        Span(
            _attributes(of_resource.resource.attributes)["service.name"],
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _attributes(span.attributes),
            span.status.code == 2,
        )
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]


def _attributes(given: Any) -> dict[str, Any]:
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in given
    }
