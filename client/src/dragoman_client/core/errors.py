"""The client's exceptions, and their mapping from the server's statuses.

TranslationError          base class: catches all of them
├── InvalidRequest        the server refused the input: fix the request
├── AccessDenied          the server, or a proxy, requires another token or certificate
├── ServerUnavailable     cannot connect, overloaded, starting or shutting down: retry later
├── DeadlineExceeded      no answer in time
└── ServerError           any other error on the server's side
"""

from __future__ import annotations

import re

from dragoman_options.refusal import Refusal, Refused


class TranslationError(Exception):
    """Base class of all errors of a request to the server."""


class InvalidRequest(Refused, TranslationError):
    """The server refused the input.

    Attributes:
        kind: kind of the refusal, such as "too_large"; see docs/status-codes.md. None: the server
            is older, or a proxy refused the request.
        option: the option at fault; None: none.
        text_index: index of the only text at fault in the request; None: the request is at fault.
    """


class AccessDenied(TranslationError):
    """A token or a certificate is missing or wrong."""


class ServerUnavailable(TranslationError):
    """Nothing answers, or the server is overloaded, starting or shutting down.

    Attributes:
        retry_after_s: how long the server asks to wait before the next attempt; None: unknown.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """Store the message, and how long to wait."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(TranslationError):
    """No answer in time."""


class ServerError(TranslationError):
    """The server failed, or its answer is not that of a translation server."""


class IncompleteAnswer(ServerError):
    """The answer lacks an output that was requested."""


_KINDS: dict[str, type[TranslationError]] = {
    "StatusCode.INVALID_ARGUMENT": InvalidRequest,
    "StatusCode.UNAUTHENTICATED": AccessDenied,
    "StatusCode.PERMISSION_DENIED": AccessDenied,
    "StatusCode.UNAVAILABLE": ServerUnavailable,
    "StatusCode.DEADLINE_EXCEEDED": DeadlineExceeded,
    "StatusCode.CANCELLED": DeadlineExceeded,
    "400": InvalidRequest,
    "401": AccessDenied,
    "403": AccessDenied,
    "413": InvalidRequest,
    "429": ServerUnavailable,
    "502": ServerUnavailable,
    "503": ServerUnavailable,
    "408": DeadlineExceeded,
    "499": DeadlineExceeded,
    "504": DeadlineExceeded,
}
"""gRPC and HTTP statuses as tritonclient spells them; all others are a `ServerError`.

Triton itself does not send 401, 403, 408, 413, 429, 502 and 504; they come from proxies in front
of it.
"""


_NAMED_STATUS = re.compile(r"(INVALID_ARGUMENT|UNAVAILABLE|CANCELLED|INTERNAL): ")
"""Dragoman's server begins its messages with the status, since Triton drops the status in streams
and over HTTP.
"""

_UNKNOWN_MODEL = "Request for unknown model: "
"""Triton's message while it loads its models, and while it shuts down."""

_RETRY_AFTER = re.compile(r"try again in (\d+(?:\.\d+)?) s\b")


def from_status(
    status: str | None, message: str | None, retry_after: str | None = None
) -> TranslationError:
    """Returns the exception for a status of the server.

    Args:
        status: gRPC's `StatusCode.X`, or an HTTP status in digits; None: there was none.
        message: the server's message. If it begins with a status, as in `UNAVAILABLE: busy`, that
            status is removed and replaces `status`.
        retry_after: the header `Retry-After`, in seconds; without it the message may have them.
    """
    message = message or f"no message, status {status}"
    if named := _NAMED_STATUS.match(message):
        status, message = f"StatusCode.{named[1]}", message[named.end() :]
    kind = _KINDS.get(status or "", ServerError)
    if kind is ServerUnavailable or message.startswith(_UNKNOWN_MODEL):
        return ServerUnavailable(message, _retry_after_s(message, retry_after))
    if kind is InvalidRequest:
        return InvalidRequest(*Refusal.parse(message))
    return kind(message)


def _retry_after_s(message: str, header: str | None) -> float | None:
    """Seconds to wait; a header that holds a date is ignored."""
    if header is not None and header.isascii() and header.isdecimal():
        return float(header)
    match = _RETRY_AFTER.search(message)
    return float(match[1]) if match else None
