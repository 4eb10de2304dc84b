"""Requests and answers of a gateway's API `/api/v1`: JSON and server-sent events.

docs/api.md describes the API.
"""

from __future__ import annotations

import contextlib
import http
import json
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman_options.refusal import Refusal
from dragoman_options.table import INFO, OPTIONS, OUTPUTS

from dragoman_client.core.errors import (
    AccessDenied,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    TranslationError,
    from_status,
)
from dragoman_client.core.request import REPEATED, Part
from dragoman_client.core.tensors import Values
from dragoman_client.transports.http_wire import column_of, refusal_message

INFO_PATH = "/api/v1/info"
HEALTH_PATH = "/api/v1/health"
TRANSLATE_PATH = "/api/v1/translate"
STREAM_PATH = "/api/v1/translate/stream"
SCORE_PATH = "/api/v1/score"

_PRODUCT = "dragoman"
"""The gateway's `product` in its answer to `INFO_PATH`."""
_BUSY = (
    http.HTTPStatus.TOO_MANY_REQUESTS,
    http.HTTPStatus.BAD_GATEWAY,
    http.HTTPStatus.SERVICE_UNAVAILABLE,
    http.HTTPStatus.GATEWAY_TIMEOUT,
)
_TEXT_NAMES = {"text_input": "text", "target_input": "target"}
_KINDS: Mapping[str, type[TranslationError]] = {
    "deadline_exceeded": DeadlineExceeded,
    "forbidden": AccessDenied,
    "head_too_large": InvalidRequest,
    "invalid_input": InvalidRequest,
    "key_missing": AccessDenied,
    "key_refused": AccessDenied,
    "not_found": InvalidRequest,
    "quota_used_up": ServerUnavailable,
    "slow_upload": DeadlineExceeded,
    "too_large": InvalidRequest,
    "too_many_requests": ServerUnavailable,
    "unavailable": ServerUnavailable,
    "unsupported": InvalidRequest,
    "wrong_media_type": InvalidRequest,
    "wrong_method": InvalidRequest,
}
"""Exceptions by error code; all other codes are a `ServerError`."""
_FAULTS = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Exceptions from parsing an answer of another form."""


def is_own(status: int, retry_after: str | None, body: bytes) -> bool:
    """Whether the answer to `INFO_PATH` comes from a gateway.

    Args:
        status: HTTP status of the answer.
        retry_after: its header `Retry-After`.
        body: its body.

    Returns:
        True also for an error in the gateway's format; False if another server, such as Triton,
        answered.

    Raises:
        TranslationError: a proxy answered that the server behind it is not available.
    """
    with contextlib.suppress(*_FAULTS):  # then it is not a gateway's JSON
        answer = json.loads(body)
        if answer.get("product") == _PRODUCT:
            return True
        if isinstance(answer["error"]["code"], str) and "request_id" in answer:
            return True
    if status in _BUSY:
        raise from_status(str(status), refusal_message(body), retry_after)
    return False


def request_body(inputs: Mapping[str, Values], streamed: bool = False) -> bytes:
    """Returns the body of a request: a JSON object.

    Args:
        inputs: see `build_inputs`.
        streamed: whether the body has a single text instead of a list.
    """
    values: dict[str, Any] = {}
    for name, given in inputs.items():
        elements = [_plain(value) for value in given]
        if name in _TEXT_NAMES:
            values[_TEXT_NAMES[name]] = elements[0] if streamed else elements
        elif OPTIONS[name].kind == "terms":
            values[name] = json.loads(elements[0])
        elif OPTIONS[name].kind == "markup":
            values[name] = [json.loads(element) if element else None for element in elements]
        else:
            values[name] = elements if OPTIONS[name].is_list else elements[0]
    return json.dumps(values, ensure_ascii=False).encode()


def check_status(status: int, retry_after: str | None, body: bytes) -> None:
    """Raise the error of an answer whose status is not 200.

    Raises:
        TranslationError: the exception for the error in the body.
    """
    if status == http.HTTPStatus.OK:
        return
    try:
        error = json.loads(body)["error"]
        raise of_error(error, retry_after)
    except _FAULTS:  # from a proxy in front of the gateway
        raise from_status(str(status), refusal_message(body), retry_after) from None


def of_error(error: Mapping[str, Any], retry_after: str | None = None) -> TranslationError:
    """Returns the exception for an error of the gateway.

    Args:
        error: the error's `code`, `message`, optional `retry_after_s`, and a refusal's fields.
        retry_after: the header `Retry-After`, used if the error has no `retry_after_s`.
    """
    kind = _KINDS.get(error["code"], ServerError)
    if kind is InvalidRequest:
        return InvalidRequest(*Refusal.with_fields(error["message"], error))
    if kind is not ServerUnavailable:
        return kind(error["message"])
    seconds = error.get("retry_after_s")
    if seconds is None and retry_after is not None and retry_after.isdecimal():
        seconds = retry_after
    return ServerUnavailable(error["message"], None if seconds is None else float(seconds))


def read_answers(
    authority: str, name: str, each: int, status: int, retry_after: str | None, body: bytes
) -> dict[str, Values | None]:
    """Parse the outputs in the member `name` of an answer, with `each` translations of a text.

    Where an answer has fewer, the last one is repeated, as by Triton; see `http_wire.read_answer`.
    """
    check_status(status, retry_after, body)
    try:
        return _outputs(json.loads(body)[name], each)
    except _FAULTS as error:
        raise _no_answer(authority, error) from error


def read_info(
    authority: str, status: int, retry_after: str | None, body: bytes
) -> dict[str, Values | None]:
    """Parse a gateway's information about its server, into the output of the model `info`.

    Raises:
        TranslationError: the gateway refused the request, or the answer is not a gateway's.
    """
    check_status(status, retry_after, body)
    try:
        # A gateway does not expose the engine's metrics.
        info = {"metrics_port": None, **json.loads(body)}
    except _FAULTS as error:
        raise _no_answer(authority, error) from error
    return {INFO: column_of([json.dumps(info)])}


def read_ready(status: int, retry_after: str | None, body: bytes) -> bool:
    """Whether the server can translate now.

    Raises:
        TranslationError: the gateway did not answer.
    """
    check_status(status, retry_after, body)
    return True


class EventReader:
    """Reads the lines of a stream of server-sent events."""

    def __init__(self, authority: str) -> None:
        """Start before the first line.

        Args:
            authority: host and port of the server, for messages.
        """
        self._authority = authority
        self._is_error = False

    def part(self, line: bytes) -> Part | None:
        """Returns the part of an answer in a line; None if the line has none.

        Raises:
            TranslationError: the event is an error, or not an event of a gateway.
        """
        line = line.rstrip(b"\r")
        if line.startswith(b"event:"):
            self._is_error = line.removeprefix(b"event:").strip() == b"error"
        if not line.startswith(b"data:"):
            return None
        try:
            event = json.loads(line.removeprefix(b"data:"))
            if self._is_error:
                raise of_error(event["error"])
            return _outputs([event])
        except _FAULTS as error:
            raise _no_answer(self._authority, error) from error


def _no_answer(authority: str, error: Exception) -> ServerError:
    return ServerError(f"{authority}: not an answer of a gateway: {error!r}")


def _outputs(answers: Iterable[dict[str, Any]], each: int = 1) -> dict[str, Values | None]:
    """Converts answers to outputs of a model; a translation's alternatives follow it."""
    rows: list[dict[str, Any]] = []
    for answer in answers:
        own = [_row(translation) for translation in (answer, *answer.get("alternatives", ()))]
        repeated = {**own[-1], "finish_reason": REPEATED}
        rows += (*own, *[repeated] * (each - len(own)))
    names = list(dict.fromkeys(name for row in rows for name in row))
    empty = {name: OUTPUTS[name].codec.empty for name in names}
    return {name: column_of([row.get(name, empty[name]) for row in rows]) for name in names}


def _row(answer: dict[str, Any]) -> dict[str, Any]:
    """Returns the elements of an answer's outputs by name."""
    row: dict[str, Any] = {}
    for name, output in OUTPUTS.items():
        if output.field in answer:
            row[name] = output.codec.element(answer[output.field])
            if output.only_with:
                row.setdefault(output.only_with, OUTPUTS[output.only_with].codec.empty)
    return row


def _plain(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value
