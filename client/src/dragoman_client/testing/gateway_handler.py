"""A fake of a gateway's API `/api/v1`, as far as the client uses it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from dragoman_options.refusal import Refusal
from dragoman_options.table import INFO, OUTPUTS, SCORE, STREAM, TRANSLATE

from dragoman_client.core.errors import (
    AccessDenied,
    DeadlineExceeded,
    InvalidRequest,
    ServerUnavailable,
)
from dragoman_client.testing.answers import INFORMATION, Outputs, Request
from dragoman_client.testing.server import HttpHandler
from dragoman_client.transports import own_wire

_MODELS = {
    own_wire.TRANSLATE_PATH: TRANSLATE,
    own_wire.STREAM_PATH: STREAM,
    own_wire.SCORE_PATH: SCORE,
}
_TEXTS = {"text": "text_input", "target": "target_input"}
_KINDS: dict[type[Exception], tuple[int, str]] = {
    InvalidRequest: (400, "invalid_input"),
    AccessDenied: (401, "key_missing"),
    ServerUnavailable: (503, "unavailable"),
    DeadlineExceeded: (504, "deadline_exceeded"),
}


class GatewayHandler(HttpHandler):
    """Answers like a gateway."""

    def do_GET(self) -> None:  # noqa: N802
        """Answer requests for information and for health."""
        if self.path == own_wire.INFO_PATH:
            self.server.answers.requests.append(Request(INFO, {}, None, self._headers()))
            return self.send(200, {**INFORMATION, "product": "dragoman", "request_id": "0"})
        if self.path == own_wire.HEALTH_PATH:
            return self.send(200, {"status": "ready", "request_id": "0"})
        return self.send(404, _refusal(InvalidRequest(f"there is no {self.path}"))[1])

    def do_POST(self) -> None:  # noqa: N802
        """Translate or score."""
        values = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if (model := _MODELS.get(self.path)) is None:
            return self.send(404, _refusal(InvalidRequest(f"there is no {self.path}"))[1])
        inputs = {
            _TEXTS.get(name, name): value if isinstance(value, list) else [value]
            for name, value in values.items()
        }
        request = Request(model, inputs, None, self._headers())
        return self.stream(request) if request.model == STREAM else self.answer(request)

    def answer(self, request: Request) -> None:
        """Send a whole answer."""
        try:
            objects = _objects(self.server.answers.whole(request), request)
        except Exception as error:
            return self.send(*_refusal(error))
        name = "scores" if request.model == SCORE else "translations"
        return self.send(200, {name: objects, "request_id": "0"})

    def stream(self, request: Request) -> None:
        """Stream the answer as server-sent events."""
        begun = False
        try:
            for part in self.server.answers.parts(request):
                if not begun:
                    self._begin_events(200)
                    begun = True
                self._send_event(_objects(part, request)[0])
        except ConnectionError:  # the client has disconnected
            raise
        except Exception as error:
            status, refusal = _refusal(error)
            if not begun:
                return self.send(status, refusal)
            line = f"event: error\ndata: {json.dumps(refusal)}\n\n".encode()
            self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def _headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}


def _refusal(error: Exception) -> tuple[int, dict[str, Any]]:
    """Returns status and body of an error."""
    status, code = _KINDS.get(type(error), (500, "internal"))
    fields: dict[str, Any] = {"code": code, "message": str(error)}
    if isinstance(error, InvalidRequest):
        fields |= Refusal.of(error).fields()
    if isinstance(error, ServerUnavailable) and error.retry_after_s is not None:
        fields["retry_after_s"] = error.retry_after_s
    return status, {"error": fields, "request_id": "0"}


def _objects(outputs: Outputs, request: Request) -> list[dict[str, Any]]:
    """Returns an object for each text: its first translation, with the others as alternatives."""
    rows = [
        _object(dict(zip(outputs, values, strict=True)))
        for values in zip(*outputs.values(), strict=True)
    ]
    each = int(request.inputs.get("num_return_sequences", [1])[0])
    if each == 1:
        return rows
    return [
        {**rows[first], "alternatives": rows[first + 1 : first + each]}
        for first in range(0, len(rows), each)
    ]


def _object(row: Mapping[str, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, element in row.items():
        codec = OUTPUTS[name].codec
        value = codec.parse(element, {})
        if value not in (None, ()):
            members[OUTPUTS[name].field] = codec.as_json(value)
    return members
