"""The map from statuses to errors."""

import grpc
import pytest
from dragoman_client import (
    AccessDenied,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    TranslationError,
)
from dragoman_client.errors import from_status, from_stream

EXPECTED = {
    "INVALID_ARGUMENT": InvalidRequest,
    "UNAUTHENTICATED": AccessDenied,
    "PERMISSION_DENIED": AccessDenied,
    "UNAVAILABLE": ServerUnavailable,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
    "CANCELLED": DeadlineExceeded,
}


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=lambda code: code.name)
def test_every_grpc_status_has_its_error(code: grpc.StatusCode) -> None:
    """The spelling is that of gRPC itself, as tritonclient hands it on."""
    assert type(from_status(str(code), "why")) is EXPECTED.get(code.name, ServerError)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("400", InvalidRequest),
        ("401", AccessDenied),
        ("403", AccessDenied),
        ("413", InvalidRequest),
        ("429", ServerUnavailable),
        ("502", ServerUnavailable),
        ("503", ServerUnavailable),
        ("408", DeadlineExceeded),
        ("499", DeadlineExceeded),
        ("504", DeadlineExceeded),
        ("500", ServerError),
        ("404", ServerError),
        (None, ServerError),
    ],
)
def test_every_http_status_has_its_error(status: str | None, kind: type) -> None:
    """Those of Triton, of a proxy, and none at all."""
    assert type(from_status(status, "why")) is kind


def test_the_message_is_kept() -> None:
    """As the server wrote it, and never empty."""
    assert str(from_status("400", "text 3: too long")) == "text 3: too long"
    assert "500" in str(from_status("500", ""))


@pytest.mark.parametrize(
    ("message", "kind", "kept"),
    [
        ("INVALID_ARGUMENT: text 0 is empty", InvalidRequest, "text 0 is empty"),
        ("UNAVAILABLE: server is busy", ServerUnavailable, "server is busy"),
        ("CANCELLED: the deadline passed", DeadlineExceeded, "the deadline passed"),
        ("INTERNAL: the request failed", ServerError, "the request failed"),
        ("Request for unknown model", ServerError, "Request for unknown model"),
        ("a text: UNAVAILABLE: busy", ServerError, "a text: UNAVAILABLE: busy"),
    ],
)
def test_a_stream_names_its_error_in_the_message(message: str, kind: type, kept: str) -> None:
    """What Triton itself says has no name before it."""
    error = from_stream(None, message)
    assert (type(error), str(error)) == (kind, kept)


def test_one_base_catches_all() -> None:
    """The tree has one root."""
    assert issubclass(InvalidRequest, TranslationError)
    assert issubclass(AccessDenied, TranslationError)
    assert issubclass(ServerUnavailable, TranslationError)
    assert issubclass(DeadlineExceeded, TranslationError)
    assert issubclass(ServerError, TranslationError)
