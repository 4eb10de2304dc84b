"""What a translation can fail with, and which status of the server means what.

    TranslationError          catch this one to catch all
    ├── InvalidRequest        the server refused the input: mend the request
    ├── AccessDenied          the server, or a proxy, wants another token or certificate
    ├── ServerUnavailable     cannot connect, not ready or going down: try again later
    ├── DeadlineExceeded      no answer in time
    └── ServerError           everything else: a fault on the server's side

Knows status codes; must not know requests, sockets or tritonclient.
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
    """Nothing answers, or what answers is not ready or going down."""


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
"""Of those that Dragoman's server sends in a stream."""


def from_status(status: str | None, message: str | None) -> TranslationError:
    """The error that a status of the server stands for.

    Args:
        status: `StatusCode.X` of gRPC, or a code of HTTP in digits; None: there was none.
        message: what the server said, which is kept as it is.
    """
    return _KINDS.get(status or "", ServerError)(message or f"no message, status {status}")


def from_stream(status: str | None, message: str | None) -> TranslationError:
    """The error that ends a stream, whose message begins with a status: `UNAVAILABLE: busy`.

    Args:
        status: see `from_status`; what the message itself says goes before it.
        message: what the server said, kept but for the status at its beginning.
    """
    named = _NAMED_STATUS.match(message or "")
    if message is None or named is None:
        return from_status(status, message)
    return from_status(f"StatusCode.{named[1]}", message[named.end() :])
