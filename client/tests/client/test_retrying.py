"""Retries: for which errors, how often and when."""

import time
from typing import Any

import pytest
from dragoman_client import (
    AccessDenied,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    Translator,
)
from dragoman_client.retrying import DEFAULT_RETRIES, with_retries
from dragoman_client.transports.blocking import run
from stand_ins import FakeTransport, translated


class Failing(FakeTransport):
    """Fails a number of times, then answers."""

    def __init__(self, times: int, error: Exception) -> None:
        """Record the timeout of each try."""
        super().__init__()
        self.left, self.error = times, error
        self.timeouts_s: list[float] = []

    def infer(self, inputs: Any, timeout_s: float = 1.0) -> dict[str, Any]:
        """Fail, or answer."""
        self.timeouts_s.append(timeout_s)
        if self.left:
            self.left -= 1
            raise self.error
        return super().infer(inputs)


def test_a_server_that_recovers_is_retried() -> None:
    """If a retry succeeds, the caller gets no error."""
    transport = Failing(2, ServerUnavailable("away"))
    with Translator(transport=transport, retries=2) as translator:
        assert translator.translate("a").text == translated("a")
    assert len(transport.timeouts_s) == 3
    assert transport.timeouts_s == sorted(transport.timeouts_s, reverse=True)


@pytest.mark.parametrize(
    ("kind", "tries"),
    [
        (ServerUnavailable, 2),
        # A retry would fail again, or cost the server the same work again.
        *((kind, 1) for kind in (InvalidRequest, AccessDenied, DeadlineExceeded, ServerError)),
    ],
)
def test_only_an_unavailable_server_is_asked_again(kind: type[Exception], tries: int) -> None:
    """The message of the last error is the server's own."""
    transport = Failing(9, kind("no"))
    with Translator(transport=transport, retries=1) as translator, pytest.raises(kind, match="no"):
        translator.translate("a")
    assert len(transport.timeouts_s) == tries


def pauses_of(error: ServerUnavailable, timeout_s: float, retries: int) -> list[float]:
    """The pauses between tries that all fail with this error."""
    pauses: list[float] = []

    async def fail(_timeout_s: float) -> None:
        raise error

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    with pytest.raises(ServerUnavailable) as caught:
        run(with_retries(fail, timeout_s, retries, sleep))
    assert caught.value is error
    return pauses


def test_pauses_grow_and_differ() -> None:
    """Random pauses prevent many clients from retrying at the same time."""
    runs = [pauses_of(ServerUnavailable("away"), 1e6, 8) for _ in range(50)]
    assert {len(pauses) for pauses in runs} == {8}
    for number, of_all in enumerate(zip(*runs, strict=True)):
        longest_s = min(0.1 * 2**number, 5.0)
        assert all(longest_s / 2 <= pause <= longest_s for pause in of_all)
        assert max(of_all) > longest_s * 3 / 4 > min(of_all)


def test_default_retries_outlast_a_restart() -> None:
    """A restart takes about a second."""
    assert 1.5 < sum(pauses_of(ServerUnavailable("away"), 30.0, DEFAULT_RETRIES)) < 4


def test_the_server_determines_the_shortest_pause() -> None:
    """A random time is added to the server's pause, and no pause exceeds the request's timeout."""
    busy = ServerUnavailable("busy", retry_after_s=20.0)
    pauses = pauses_of(busy, 30.0, 3)
    assert len(pauses) == 3  # the pauses take no time here
    assert all(20 < pause < 25 for pause in pauses)
    assert len(set(pauses)) == 3
    assert not pauses_of(busy, 19.0, 3)


def test_the_timeout_covers_all_tries() -> None:
    """Nothing is sent or awaited after the timeout."""
    begin_s = time.monotonic()
    transport = Failing(10**6, ServerUnavailable("away"))
    with (
        Translator(transport=transport, retries=10**6, timeout_s=0.3) as translator,
        pytest.raises(ServerUnavailable),
    ):
        translator.translate("a")
    assert time.monotonic() - begin_s < 1.0
    assert transport.timeouts_s[0] <= 0.3


@pytest.mark.parametrize(
    ("retries", "kind"), [(-1, ValueError), (True, TypeError), (1.5, TypeError)]
)
def test_an_invalid_number_of_retries_is_refused(retries: Any, kind: type[Exception]) -> None:
    """The number of retries is an integer, and not below zero."""
    with pytest.raises(kind, match="retries"):
        Translator(retries=retries)
