"""What a translation can fail with, and which status of the server means what.

TranslationError          catch this one to catch all
├── InvalidRequest        the server refused the input: fix the request
├── AccessDenied          the server, or a proxy, wants another token or certificate
├── ServerUnavailable     cannot connect, overloaded, starting or going down: try again later
├── DeadlineExceeded      no answer in time
└── ServerError           everything else: a fault on the server's side
"""

from __future__ import annotations

import re


class TranslationError(Exception):
    """Base of every error that a request to the server can end in."""


class InvalidRequest(TranslationError):
    """The server refused the input."""


class AccessDenied(TranslationError):
    """A token or a certificate is missing, or not the right one."""


class ServerUnavailable(TranslationError):
    """Nothing answers, or what answers is overloaded, starting or going down.

    Attributes:
        retry_after_s: how long the server asks to wait before the next try; None: it does not say.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        """Keep the message, and how long to wait."""
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(TranslationError):
    """No answer in time."""


class ServerError(TranslationError):
    """The server failed, or answered what no translation server answers."""


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
"""Statuses of gRPC and HTTP as tritonclient spells them; all others are a `ServerError`.

Those that Triton does not send itself (401, 403, 408, 413, 429, 502, 504) come from proxies before
it.
"""


_NAMED_STATUS = re.compile(r"(INVALID_ARGUMENT|UNAVAILABLE|CANCELLED|INTERNAL): ")
"""Dragoman's server begins messages with it: in streams, and over HTTP, Triton loses the status."""

_UNKNOWN_MODEL = "Request for unknown model: "
"""Triton's message for as long as it loads its models, and while it stops."""

_RETRY_AFTER = re.compile(r"try again in (\d+(?:\.\d+)?) s\b")


def from_status(
    status: str | None, message: str | None, retry_after: str | None = None
) -> TranslationError:
    """The error that a status of the server stands for.

    Args:
        status: `StatusCode.X` of gRPC, or a code of HTTP in digits; None: there was none.
        message: of the server. A status at its beginning, as in `UNAVAILABLE: busy`, is cut off
            and replaces `status`.
        retry_after: the header of that name, in seconds; otherwise the message may tell them.
    """
    message = message or f"no message, status {status}"
    if named := _NAMED_STATUS.match(message):
        status, message = f"StatusCode.{named[1]}", message[named.end() :]
    kind = _KINDS.get(status or "", ServerError)
    if kind is ServerUnavailable or message.startswith(_UNKNOWN_MODEL):
        return ServerUnavailable(message, _retry_after_s(message, retry_after))
    return kind(message)


def _retry_after_s(message: str, header: str | None) -> float | None:
    """Seconds to wait; a header that holds a date is ignored."""
    if header is not None and header.isascii() and header.isdecimal():
        return float(header)
    told = _RETRY_AFTER.search(message)
    return float(told[1]) if told else None
