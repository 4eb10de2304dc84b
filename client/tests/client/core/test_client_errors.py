"""The map from statuses to errors."""

import pickle

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
from dragoman_client.core.access import Access
from dragoman_client.core.address import read_url
from dragoman_client.core.errors import from_status
from dragoman_client.transports.grpc_wire import call_error

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
    """The status is spelled as gRPC spells it and tritonclient returns it."""
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
    """Statuses are those of Triton and of proxies; None stands for a missing one."""
    assert type(from_status(status, "why")) is kind


def test_a_call_that_was_not_sent_can_be_retried() -> None:
    """The status of the server is lost if a call was not sent; the retry receives it."""
    metadata = grpc.aio.Metadata()
    internal = grpc.StatusCode.INTERNAL
    for details, kind in (
        ("Internal error from Core", ServerUnavailable),
        ("the engine failed", ServerError),
    ):
        error = grpc.aio.AioRpcError(internal, metadata, metadata, details)
        assert type(call_error(read_url("grpc://a:1", Access()), error)) is kind


def test_the_message_is_kept() -> None:
    """The message is the server's own, and never empty."""
    assert str(from_status("400", "text 3: too long")) == "text 3: too long"
    assert "500" in str(from_status("500", ""))


@pytest.mark.parametrize(
    ("message", "kind", "kept"),
    [
        ("INVALID_ARGUMENT: text 0 is empty", InvalidRequest, "text 0 is empty"),
        ("UNAVAILABLE: server is busy", ServerUnavailable, "server is busy"),
        ("CANCELLED: the deadline passed", DeadlineExceeded, "the deadline passed"),
        ("INTERNAL: the request failed", ServerError, "the request failed"),
        ("a text: UNAVAILABLE: busy", ServerError, "a text: UNAVAILABLE: busy"),
    ],
)
@pytest.mark.parametrize("status", [None, "500", "StatusCode.UNKNOWN"])
def test_a_status_in_the_message_determines_the_error(
    status: str | None, message: str, kind: type, kept: str
) -> None:
    """Streams have no status, and Triton's /generate answers 400 to every failure of a model."""
    error = from_status(status, message)
    assert (type(error), str(error)) == (kind, kept)


@pytest.mark.parametrize("status", [None, "404", "StatusCode.NOT_FOUND"])
@pytest.mark.parametrize(
    "why", ["'translate' is not found", "'translate' has no available versions"]
)
def test_a_model_that_is_not_loaded_yet_is_unavailable(status: str | None, why: str) -> None:
    """Triton reports unknown models while it starts and stops."""
    error = from_status(status, f"Request for unknown model: {why}")
    assert type(error) is ServerUnavailable
    assert type(from_status("404", "<html>Not Found</html>")) is ServerError


@pytest.mark.parametrize(
    ("message", "header", "wait_s"),
    [
        ("UNAVAILABLE: 20000 sentences wait; try again in 2.5 s", None, 2.5),
        ("busy; try again in 3 s", None, 3.0),
        ("busy; try again in 3 s", "7", 7.0),
        ("busy", "7", 7.0),
        ("busy", "Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("busy", "-1", None),
        ("busy; try again in 3 seasons", None, None),
        ("busy", None, None),
    ],
)
def test_the_time_of_a_retry_is_read_from_the_answer(
    message: str, header: str | None, wait_s: float | None
) -> None:
    """The header with the time of a retry takes precedence over the message."""
    error = from_status("503", message, header)
    assert isinstance(error, ServerUnavailable)
    assert error.retry_after_s == wait_s
    assert pickle.loads(pickle.dumps(error)).retry_after_s == wait_s


def test_all_errors_have_one_base_class() -> None:
    assert issubclass(InvalidRequest, TranslationError)
    assert issubclass(AccessDenied, TranslationError)
    assert issubclass(ServerUnavailable, TranslationError)
    assert issubclass(DeadlineExceeded, TranslationError)
    assert issubclass(ServerError, TranslationError)
