"""What requests and answers of a gateway's API `/api/v1` look like: JSON, and events.

docs/api.md describes it.
"""

from __future__ import annotations

import contextlib
import http
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from dragoman_options.table import INFO, OPTIONS

from dragoman_client.errors import (
    AccessDenied,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    TranslationError,
    from_status,
)
from dragoman_client.http_wire import refusal_message
from dragoman_client.request import Part
from dragoman_client.tensors import Array

INFO_PATH = "/api/v1/info"
HEALTH_PATH = "/api/v1/health"
TRANSLATE_PATH = "/api/v1/translate"
STREAM_PATH = "/api/v1/translate/stream"
SCORE_PATH = "/api/v1/score"

_PRODUCT = "dragoman"
"""As the gateway names itself in its answer to `INFO_PATH`."""
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
"""Codes of errors; all others are a `ServerError`."""
_FAULTS = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading something else raises."""


def is_own(status: int, retry_after: str | None, body: bytes) -> bool:
    """Whether the answer to `INFO_PATH` is a gateway's.

    Args:
        status: of the answer.
        retry_after: the header of that name.
        body: its body.

    Returns:
        True as well for an error in its shape; False: something else answers there, such as Triton.

    Raises:
        TranslationError: a proxy answers that nobody behind it could.
    """
    with contextlib.suppress(*_FAULTS):  # then it is no JSON of a gateway
        found = json.loads(body)
        if found.get("product") == _PRODUCT:
            return True
        if isinstance(found["error"]["code"], str) and "request_id" in found:
            return True
    if status in _BUSY:
        raise from_status(str(status), refusal_message(body), retry_after)
    return False


def request_body(inputs: Mapping[str, Array], streamed: bool = False) -> bytes:
    """The body of a request: a JSON object.

    Args:
        inputs: tensors by name, [1, values].
        streamed: whether it has one text, not a list.
    """
    values: dict[str, Any] = {}
    for name, tensor in inputs.items():
        found = [_plain(value) for value in tensor.reshape(-1).tolist()]
        if name in _TEXT_NAMES:
            values[_TEXT_NAMES[name]] = found[0] if streamed else found
        elif OPTIONS[name].kind == "terms":
            values[name] = json.loads(found[0])
        elif OPTIONS[name].kind == "markup":
            values[name] = [json.loads(one) if one else None for one in found]
        else:
            values[name] = found if OPTIONS[name].is_list else found[0]
    return json.dumps(values, ensure_ascii=False).encode()


def check_status(status: int, retry_after: str | None, body: bytes) -> None:
    """Refuse an answer with another status than 200.

    Raises:
        TranslationError: what the error stands for, with the message in the body.
    """
    if status == http.HTTPStatus.OK:
        return
    try:
        error = json.loads(body)["error"]
        raise of_error(error, retry_after)
    except _FAULTS:  # of something before the gateway
        raise from_status(str(status), refusal_message(body), retry_after) from None


def of_error(error: Mapping[str, Any], retry_after: str | None = None) -> TranslationError:
    """The exception that an error of the gateway stands for.

    Args:
        error: its `code`, `message`, and perhaps `retry_after_s`.
        retry_after: the header of that name, where the error does not say.
    """
    kind = _KINDS.get(error["code"], ServerError)
    if kind is not ServerUnavailable:
        return kind(error["message"])
    seconds = error.get("retry_after_s")
    if seconds is None and retry_after is not None and retry_after.isdecimal():
        seconds = retry_after
    return ServerUnavailable(error["message"], None if seconds is None else float(seconds))


def read_translations(
    authority: str, status: int, retry_after: str | None, body: bytes
) -> dict[str, Array | None]:
    """The outputs in an answer; see `http_wire.read_answer`."""
    check_status(status, retry_after, body)
    return _outputs_of(authority, body, "translations")


def read_scores(
    authority: str, status: int, retry_after: str | None, body: bytes
) -> dict[str, Array | None]:
    """The outputs in an answer; see `http_wire.read_answer`."""
    check_status(status, retry_after, body)
    return _outputs_of(authority, body, "scores")


def read_info(
    authority: str, status: int, retry_after: str | None, body: bytes
) -> dict[str, Array | None]:
    """What a gateway says of the server behind it, as the model `info` does.

    Raises:
        TranslationError: the gateway refused, or it is no answer of one.
    """
    check_status(status, retry_after, body)
    try:
        # The metrics of the engine stay behind the gateway.
        found = {"metrics_port": None, **json.loads(body)}
    except _FAULTS as error:
        raise _no_answer(authority, error) from error
    return {INFO: _column([json.dumps(found)])}


def read_ready(status: int, retry_after: str | None, body: bytes) -> bool:
    """Whether the server can translate now.

    Raises:
        TranslationError: it cannot be asked.
    """
    check_status(status, retry_after, body)
    return True


class EventReader:
    """Reads the lines of a stream of server-sent events."""

    def __init__(self, authority: str) -> None:
        """Begin.

        Args:
            authority: of the server, for messages.
        """
        self._authority = authority
        self._is_error = False

    def part(self, line: bytes) -> Part | None:
        """The part of an answer in a line; None if it brings none.

        Raises:
            TranslationError: it is an error, or no event of a gateway.
        """
        line = line.rstrip(b"\r")
        if line.startswith(b"event:"):
            self._is_error = line.removeprefix(b"event:").strip() == b"error"
        if not line.startswith(b"data:"):
            return None
        try:
            found = json.loads(line.removeprefix(b"data:"))
            if self._is_error:
                raise of_error(found["error"])
            return _outputs([found])
        except _FAULTS as error:
            raise _no_answer(self._authority, error) from error


def _outputs_of(authority: str, body: bytes, name: str) -> dict[str, Array | None]:
    try:
        return _outputs(json.loads(body)[name])
    except _FAULTS as error:
        raise _no_answer(authority, error) from error


def _no_answer(authority: str, error: Exception) -> ServerError:
    return ServerError(f"{authority}: not an answer of a gateway: {error!r}")


def _outputs(answers: Iterable[dict[str, Any]]) -> dict[str, Array | None]:
    """Answers as the outputs of a model; a translation's alternatives come after it."""
    rows = [_row(one) for answer in answers for one in (answer, *answer.get("alternatives", ()))]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: _column([row.get(name, _ABSENT.get(name)) for row in rows]) for name in names}


_ABSENT = {
    "detected_language": "",
    "detected_probability": 0.0,
    "warnings": "",
    "delta": "",
    "via": "",
}
"""Outputs of one translation that others lack."""
_WRITTEN = {
    "text": "text_output",
    "output_tokens": "output_tokens",
    "finish_reason": "finish_reason",
    "score": "scores",
    "confidence": "confidences",
    "detected_language": "detected_language",
    "detected_probability": "detected_probability",
    "bundle": "bundle",
    "via": "via",
    "delta": "delta",
}
"""Outputs by the fields of an answer."""


def _row(answer: dict[str, Any]) -> dict[str, Any]:
    row = {output: answer[field] for field, output in _WRITTEN.items() if field in answer}
    if "detected_probability" in row:
        row.setdefault("detected_language", "")  # of a text without any
    if answer.get("warnings"):
        row["warnings"] = ",".join(answer["warnings"])
    for name in ("token_scores", "attention", "alignments", "codes"):
        if name in answer:
            value = answer[name]
            row[name] = value if isinstance(value, str) else json.dumps(value)
    return row


def _plain(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _column(values: list[Any]) -> Array:
    """A tensor [1, values]."""
    column = np.empty((1, len(values)), np.object_)
    column[0, :] = [v.encode("utf-8") if isinstance(v, str) else v for v in values]
    return column
