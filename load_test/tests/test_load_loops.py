"""Closed and open loops, with senders that need no server."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from dragoman_client import InvalidRequest, ServerUnavailable
from dragoman_load_test import loops
from dragoman_load_test.arrivals import arrival_times, read_record, recorded_times
from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.ledger import Ledger
from dragoman_load_test.loops import GIVEN_UP, NOT_SENT, Clients, ClosedLoop, Crowd, OpenLoop
from dragoman_load_test.requests.senders import Answered, Send

pytestmark = pytest.mark.usefixtures("virtual_time")


class Sent:
    """Counts the requests, and how many of them are in flight at once."""

    def __init__(self, wait: Callable[[], Awaitable[object]]) -> None:
        """Use `wait` to delay each answer."""
        self.counts: Counter[int] = Counter()
        self.most_at_once = self._at_once = 0
        self._wait = wait

    def senders(self, count: int) -> list[Send]:
        """This number of different requests."""

        def sender(number: int) -> Send:
            async def send() -> Answered:
                self.counts[number] += 1
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                try:
                    await self._wait()
                finally:
                    self._at_once -= 1
                return Answered(1, 3)

            return send

        return [sender(number) for number in range(count)]


def short() -> Awaitable[object]:
    """Wait for ten milliseconds."""
    return asyncio.sleep(0.01)


def closed(senders: list[Send], concurrency: int = 3) -> Ledger:
    """Run a closed loop for a quarter of a second, after a short warm-up."""

    async def run() -> Ledger:
        ledger = Ledger(0.25)
        clients = Clients(ClosedLoop(concurrency), senders, ledger)
        await asyncio.sleep(0.05)
        ledger.begin(time.perf_counter())
        await asyncio.sleep(0.25)
        await clients.stop(wait=True)
        assert clients.in_flight == 0
        return ledger

    return asyncio.run(run())


def test_a_closed_loop_keeps_its_concurrency() -> None:
    """Every request is sent once before any is repeated."""
    sent = Sent(short)
    page = closed(sent.senders(7)).window(0)
    assert sent.most_at_once == 3
    assert max(sent.counts.values()) - min(sent.counts.values()) <= 1
    assert 0 < page.answers == page.sentences < sent.counts.total()  # without the warm-up
    assert page.tokens == 3 * page.sentences
    assert page.latencies.percentile_ms(50) >= 10
    assert len(page.latencies) == page.requests
    assert not page.errors


def test_errors_are_counted_by_kind_and_not_as_answers() -> None:
    """One message of each kind is kept."""

    async def refused() -> Answered:
        raise InvalidRequest("too bad")

    async def away() -> Answered:
        raise ServerUnavailable("gone")

    sent = Sent(short)
    ledger = closed([*sent.senders(1), refused, away])
    assert ledger.examples == {"InvalidRequest": "too bad", "ServerUnavailable": "gone"}
    page = ledger.window(0)
    assert page.errors.keys() == {"InvalidRequest", "ServerUnavailable"}
    assert page.requests == len(page.latencies) + page.errors.total()


def test_unexpected_errors_are_raised() -> None:
    """A bug in the generator must not become a measurement."""

    async def broken() -> Answered:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        closed([broken])
    with pytest.raises(RuntimeError, match="a fault"):
        asyncio.run(_open([broken], rate=50))


async def _open(
    senders: list[Send], rate: float, wait: bool = True, unsent: bool = False
) -> tuple[Ledger, int]:
    ledger = Ledger(1.0)
    ledger.begin(time.perf_counter())
    lag = LatencyHistogram()
    crowd = Crowd(OpenLoop(rate, "constant"), senders, ledger, 1, 0, lag)
    await asyncio.sleep(0.5)
    in_flight = crowd.in_flight
    await crowd.stop(wait)
    assert crowd.in_flight == 0
    assert unsent or len(lag) == ledger.window(0).requests
    return ledger, in_flight


def test_an_open_loop_measures_a_stall() -> None:
    """The latency of a request during a stall counts from its scheduled time."""
    stall_until_s = time.perf_counter() + 0.3

    async def stalling() -> Answered:
        await asyncio.sleep(max(0.001, stall_until_s - time.perf_counter()))
        return Answered(1, 1)

    ledger, _ = asyncio.run(_open([stalling], rate=100))
    latencies = ledger.window(0).latencies
    assert ledger.window(0).requests >= 45
    assert latencies.percentile_ms(100) > 200
    # A closed loop with one client would have found one slow answer among hundreds.
    assert latencies.percentile_ms(60) > 30


def _blocking(seconds: float) -> Callable[[], Awaitable[Answered]]:
    """A request that blocks the loop, as on an overloaded machine."""

    async def answered() -> Answered:
        time.sleep(seconds)  # noqa: ASYNC251
        return Answered(1, 1)

    return answered


def test_a_late_generator_counts_its_own_delay() -> None:
    """Latency counts from the scheduled time."""
    ledger, _ = asyncio.run(_open([_blocking(0.02)], rate=100, unsent=True))
    assert ledger.window(0).latencies.percentile_ms(90) > 60


def test_cancelled_requests_are_counted() -> None:
    """Each cancelled request is counted as an error of its window."""
    ledger, in_flight = asyncio.run(_open(Sent(lambda: asyncio.sleep(60)).senders(1), 50, False))
    assert in_flight > 10
    assert ledger.window(0).errors == {GIVEN_UP: in_flight}


def test_the_number_of_requests_in_flight_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests above the bound are counted as errors instead of being sent."""
    monkeypatch.setattr(loops, "_MOST_IN_FLIGHT", 5)
    ledger, in_flight = asyncio.run(_open(Sent(lambda: asyncio.sleep(60)).senders(1), 100, False))
    assert in_flight == 5
    page = ledger.window(0)
    assert page.errors == {GIVEN_UP: 5, NOT_SENT: page.requests - 5}


def test_unsent_requests_are_counted() -> None:
    """A generator that is late at the end has not reached its rate."""
    ledger, _ = asyncio.run(_open([_blocking(0.05)], rate=100, unsent=True))
    page = ledger.window(0)
    assert page.requests >= 49
    assert page.errors[NOT_SENT] > 20


def test_a_request_belongs_to_the_window_of_its_scheduled_time() -> None:
    """The answer to a request belongs to the window in which it arrives."""
    ledger = Ledger(1.0)
    ledger.sent(99.0)
    ledger.failed(99.0, "Odd", "why")
    ledger.begin(100.0)
    ledger.sent(100.9)
    ledger.answered(100.9, 102.4, Answered(4, 5, first_s=101.4, parts=3))
    ledger.answered(99.5, 100.5, Answered(2, 1))  # sent in the warm-up
    assert [ledger.window(index).sentences for index in range(3)] == [2, 0, 4]
    assert [len(ledger.window(index).latencies) for index in range(3)] == [1, 0, 0]
    first = ledger.window(0)
    assert first.latencies.percentile_ms(50) == pytest.approx(1500, rel=0.001)
    assert first.first_parts.percentile_ms(50) == pytest.approx(500, rel=0.001)
    assert first.per_token.percentile_ms(50) == pytest.approx(250, rel=0.001)
    assert (first.requests, first.errors) == (1, {})
    assert ledger.warm_up_errors == {"Odd": 1}
    assert len(ledger.seconds(102.5)) == 2


def test_arrivals_have_their_rate() -> None:
    """Gaps of Poisson arrivals are exponential: their standard deviation is their mean."""
    constant = list(itertools.islice(arrival_times(50, "constant", 0), 5))
    assert constant == pytest.approx([0, 0.02, 0.04, 0.06, 0.08])
    times = list(itertools.islice(arrival_times(50, "poisson", 0), 20_000))
    gaps = [after - before for before, after in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(1 / 50, rel=0.03)
    assert deviation == pytest.approx(mean, rel=0.05)
    again = list(itertools.islice(arrival_times(50, "poisson", 0), 20_000))
    assert times == again != list(itertools.islice(arrival_times(50, "poisson", 1), 20_000))


def test_a_record_is_repeated(tmp_path: Path) -> None:
    """A record begins at its first arrival, with a mean gap between two repetitions."""
    file = tmp_path / "times"
    file.write_text("10.0\n\n10.5\n12\n")
    times = read_record(file)
    assert list(itertools.islice(recorded_times(times), 7)) == [0, 0.5, 2, 3, 3.5, 5, 6]
    assert OpenLoop.recorded(times, batch_size=2).rate == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\nx\n", "line 2: 'x' is not in seconds"),
        ("nan\n1\n", "line 1: 'nan' is not in seconds"),
        ("2\n1\n", "line 2: earlier than the line before"),
        ("1\n", "at least two different times"),
        ("1\n1\n", "at least two different times"),
        ("\ufeff\x00", "is not in seconds"),
    ],
)
def test_an_invalid_record_is_refused(tmp_path: Path, content: str, message: str) -> None:
    """The message names the file of the record."""
    file = tmp_path / "times"
    file.write_text(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_record(file)
    assert str(file) in str(caught.value)
    with pytest.raises(ValueError, match="cannot be read"):
        read_record(tmp_path / "nowhere")
