"""Histograms, intervals, objectives, the search for capacity: arithmetic of the load test."""

import asyncio
import dataclasses
import gzip
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from dragoman_load_test.capacity import find_capacity, plan_for
from dragoman_load_test.confidence import Estimate, difference, drift
from dragoman_load_test.latency import LatencyHistogram
from dragoman_load_test.load_test import objections
from dragoman_load_test.loops import NOT_SENT
from dragoman_load_test.measurement import is_behind, is_steady
from dragoman_load_test.objectives import Objective
from dragoman_load_test.own_load import limits_found
from dragoman_load_test.results import Capacity, Trial, Window
from dragoman_load_test.server_figures import ServerFigures, read_metrics
from dragoman_load_test.table import plan_line
from dragoman_load_test.texts import TextMix, in_batches, read_texts
from load_results import point, window


def histogram(*latencies_ms: float) -> LatencyHistogram:
    """Of these."""
    made = LatencyHistogram()
    for latency_ms in latencies_ms:
        made.record(latency_ms / 1000)
    return made


def test_percentiles_of_merged_histograms() -> None:
    """To three digits."""
    fast, slow = histogram(*range(1, 51)), histogram(*range(51, 101))
    found = LatencyHistogram.merge([fast.encode(), slow.encode()])
    assert len(found) == 100
    summary = found.summary()
    assert summary.p50_ms == pytest.approx(50, rel=0.001)
    assert summary.p99_ms == pytest.approx(99, rel=0.001)
    assert summary.p99_9_ms == summary.max_ms == pytest.approx(100, rel=0.001)
    assert LatencyHistogram().summary().max_ms == 0
    shares, times = zip(*found.curve(), strict=True)
    assert list(shares) == sorted(shares)
    assert list(times) == sorted(times)
    assert (shares[-1], times[-1]) == (100, pytest.approx(100, rel=0.001))
    found.clear()
    assert len(found) == 0
    with pytest.raises(ValueError, match="not a histogram"):
        LatencyHistogram.merge(["damaged"])


def test_the_share_within_a_bound() -> None:
    """The bound itself is within."""
    found = histogram(*range(1, 101))
    assert found.share_within(30) == pytest.approx(0.3)
    assert found.share_within(29.9) == pytest.approx(0.29)
    assert found.share_within(0.5) == 0
    assert found.share_within(1e9) == 1
    assert LatencyHistogram().share_within(1) == 1


def test_intervals_are_students() -> None:
    """Five values; t at 97.5 % with four degrees of freedom is 2.776."""
    found = Estimate.of([10, 12, 11, 13, 14])
    assert found.mean == 12
    assert found.half_width == pytest.approx(2.776 * math.sqrt(2.5 / 5))
    assert (found.low, found.high) == (12 - found.half_width, 12 + found.half_width)
    assert found.relative == pytest.approx(found.half_width / 12)
    assert Estimate.of([3]).half_width == math.inf
    assert Estimate.of([0, 0]).relative == math.inf


def test_differences_are_welchs() -> None:
    """Worked by hand: variances 2.5 and 10, five values each; 5.88, so 5 degrees of freedom."""
    found = difference([10, 12, 11, 13, 14], [20, 24, 22, 26, 28])
    assert found.mean == 12
    assert found.half_width == pytest.approx(2.571 * math.sqrt(2.5 / 5 + 10 / 5))
    assert difference([1, 1], [2, 2]) == Estimate(1, 0)
    assert difference([1], [2, 2]).half_width == math.inf


def test_windows_agree_or_do_not() -> None:
    """By their spread and by their drift."""
    assert is_steady([100, 101, 99, 100])
    assert not is_steady([100, 150, 60, 100])
    assert not is_steady([90, 94, 98, 102, 106, 110])
    assert drift([90, 94, 98, 102, 106, 110]) == pytest.approx(0.12)
    assert drift([5]) == 0
    assert is_behind([10, 200], 1000)
    assert not is_behind([10, 50], 1000)


@pytest.mark.parametrize(
    ("text", "measure", "bound", "percentile"),
    [
        ("p99=300ms", "latency", 300, 99),
        ("p99.9=1.5s", "latency", 1500, 99.9),
        ("first-p95=100ms", "first part", 100, 95),
        ("errors=0.1%", "errors", 0.001, 0),
        ("errors=0%", "errors", 0, 0),
        ("sentences=200/s", "sentences", 200, 0),
    ],
)
def test_objectives_are_read(text: str, measure: str, bound: float, percentile: float) -> None:
    """As people write them."""
    found = Objective.parse(text)
    assert (found.text, found.measure, found.percentile) == (text, measure, percentile)
    assert found.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    "text",
    ["", "p99", "p99=300", "p100=1s", "99=1s", "p99=-1s", "p0=1s", "p9=0ms", "errors=1", "x=1%"],
)
def test_what_is_no_objective_is_refused(text: str) -> None:
    """With examples."""
    with pytest.raises(ValueError, match="objective"):
        Objective.parse(text)


def test_objectives_are_judged() -> None:
    """By all windows together."""
    load = point(window(latencies_ms=range(1, 101)), window(latencies_ms=range(1, 101)))
    assert Objective.parse("p99=99ms").judge(load).met
    missed = Objective.parse("p99=98ms").judge(load)
    assert (missed.met, missed.load) == (False, load.load)
    assert missed.found.startswith("p99=99.0")
    assert Objective.parse("sentences=50/s").judge(load).met
    assert not Objective.parse("sentences=50.1/s").judge(load).met
    assert Objective.parse("errors=0%").judge(load).met
    assert not Objective.parse("first-p50=1s").judge(load).met  # there are no parts


def test_a_request_without_an_answer_is_slow() -> None:
    """Otherwise a server could drop requests to meet its objective."""
    load = point(window(latencies_ms=[1] * 98, errors={"DeadlineExceeded": 2}))
    found = Objective.parse("p99=300ms").judge(load)
    assert not found.met
    assert "2 of 100 requests without an answer" in found.found
    assert Objective.parse("p98=300ms").judge(load).met
    assert Objective.parse("errors=2%").judge(load).met
    assert not Objective.parse("errors=1.9%").judge(load).met


Holds = Callable[[float], bool]


def search(start: float, holds: Holds, confirms: Holds | None = None) -> Capacity:
    """The result of the search if these rates meet the objectives."""

    async def briefly(rate: float) -> str:
        return "" if holds(rate) else "too slow"

    async def at_length(rate: float) -> str:
        return "" if (confirms or holds)(rate) else "too slow"

    told: list[Trial] = []
    found = asyncio.run(find_capacity(start, briefly, at_length, told.append))
    assert tuple(told) == found.trials
    return found


@pytest.mark.parametrize("start", [20, 90, 200, 1000])
def test_the_search_ends_near_the_limit(start: float) -> None:
    """Wherever it begins."""
    found = search(start, lambda rate: rate <= 100)
    assert 94 <= found.sentences_per_s <= 100
    assert [trial.held for trial in found.trials] == [trial.rate <= 100 for trial in found.trials]
    assert len(found.trials) < 15


def test_what_is_found_was_confirmed() -> None:
    """A short trial may be lucky."""
    found = search(100, lambda rate: rate <= 100, lambda rate: rate <= 80)
    assert 76 <= found.sentences_per_s <= 80
    assert found.sentences_per_s == found.trials[-1].rate
    assert found.trials[-1].held


@pytest.mark.parametrize("start", [0, 100])
def test_a_server_that_holds_nothing_has_no_capacity(start: float) -> None:
    """And the search ends."""
    found = search(start, lambda rate: False)
    assert found.sentences_per_s == 0
    assert len(found.trials) < 20
    assert not any(trial.held for trial in found.trials)
    assert plan_for(200, found.sentences_per_s, 40, None) is None


def test_a_plan_leaves_room_for_a_server_that_fails() -> None:
    """And for uneven requests."""
    for wanted, replicas in ((65, 2), (66, 3), (650, 11)):
        plan = plan_for(wanted, 100, 40, None)
        assert plan is not None
        assert (plan.replicas, plan.per_million_characters) == (replicas, None)


def test_a_plan_tells_what_a_million_characters_cost() -> None:
    """Eleven servers at 0.36 an hour do 26,000 characters a second."""
    plan = plan_for(650, 100, 40, 0.36)
    assert plan is not None
    assert plan.per_million_characters == pytest.approx(11 * 0.0001 / 0.026)
    assert "11 such servers, each at most 65% busy" in plan_line(plan)
    assert plan_line(plan).endswith("a million characters cost 0.042")


def test_what_speaks_against_a_rate() -> None:
    """An objective, a backlog, and a generator that did not keep up."""
    fast = [Objective.parse("p99=1s")]

    def tried(*windows: Window, rate: float) -> list[str]:
        return objections(point(*windows, closed=False, amount=rate), fast)

    kept = window([10] * 100)
    assert tried(kept, kept, rate=50) == []
    assert "p99=1s missed" in tried(window([2000] * 100), kept, rate=50)[0]
    grown = dataclasses.replace(kept, in_flight=40)
    assert tried(kept, grown, rate=50) == ["the backlog grew"]
    assert tried(kept, kept, rate=80) == ["the generator sent only 50.0 sentences/s"]
    unsent = window([10] * 60, {NOT_SENT: 40})
    assert "the generator sent only 30.0 sentences/s" in tried(unsent, unsent, rate=50)


def test_the_generator_says_when_it_was_the_limit() -> None:
    """Busy or late."""
    on_time, late = histogram(*[1] * 100), histogram(*[1] * 98, 40, 40)
    assert limits_found(0.5, on_time, 5) == []
    assert "processor" in limits_found(0.9, on_time, 5)[0]
    assert "40 ms late" in limits_found(0.5, late, 5)[0]
    assert limits_found(0.5, late, 1000) == []


METRICS = """
# TYPE nv_inference_count counter
nv_inference_count{model="translate"} 30
nv_inference_count{model="translate_stream"} 12
# TYPE dragoman_sentences_total counter
dragoman_sentences_total{model="translate"} 84
# TYPE dragoman_queue_seconds_bucket counter
dragoman_queue_seconds_bucket{le="0.1",model="translate"} 80
dragoman_queue_seconds_bucket{le="+Inf",model="translate"} 84
# TYPE dragoman_rows gauge
dragoman_rows{model="translate"} 3
# TYPE other gauge
other 3
"""


def test_metrics_are_summed_over_models() -> None:
    """Those of Triton and the engine; others and buckets are left out."""
    counters, gauges = read_metrics(METRICS)
    assert counters == {"nv_inference_count_total": 42, "dragoman_sentences_total": 84}
    assert gauges == {"dragoman_rows": 3}
    with pytest.raises(ValueError, match=r"."):
        read_metrics("<html>")


def test_the_servers_figures_are_described() -> None:
    """What is not told is left out."""
    increases = {"dragoman_sentences_total": 200.0, "dragoman_queue_seconds_total": 1.0}
    means = {"dragoman_rows": 16.0, "dragoman_rows_limit": 64.0}
    told = dict(ServerFigures(4.0, increases, means, means).described())
    assert told["sentences/s"] == "50"
    assert told["queue time, ms per sentence"] == "5.0"
    assert told["rows in flight, mean"] == "16.0 of 64 (25%)"
    assert not any("GPU" in name for name in told)
    assert dict(ServerFigures(1.0).described()) == {}


def test_texts_are_lines(tmp_path: Path) -> None:
    """Packed or not; blank ones are left out."""
    plain, packed = tmp_path / "texts", tmp_path / "texts.gz"
    content = "\ufeffone\r\n\n  \ntwo\u2028half\n".encode()
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content, mtime=0))
    assert read_texts(plain) == read_texts(packed) == ["one", "two\u2028half"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("texts", b"\xff", "not valid UTF-8 at byte 0"),
        ("texts", b"\n \n", "no text in it"),
        ("texts.gz", b"plain", "cannot be read"),
        ("texts.gz", gzip.compress(b"a", mtime=0)[:-9], "cannot be read"),
        ("texts.gz", gzip.compress(b"abcabc" * 99, mtime=0)[:20] + b"\0" * 40, "cannot be read"),
    ],
)
def test_what_is_no_text_is_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    """In one line."""
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_texts(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_texts(tmp_path)


def test_batches_hold_every_text_once_before_twice() -> None:
    """The last one is filled up."""
    texts = [str(number) for number in range(10)]
    batches = in_batches(texts, 4, seed=1)
    assert [len(batch) for batch in batches] == [4, 4, 4]
    counts = Counter(text for batch in batches for text in batch)
    assert set(counts) == set(texts)
    assert max(counts.values()) == 2
    assert batches == in_batches(texts, 4, seed=1) != in_batches(texts, 4, seed=2)
    assert in_batches(["a"], 3, seed=0) == [["a", "a", "a"]]


def test_the_mix_tells_lengths() -> None:
    """In characters."""
    mix = TextMix.of("texts", ["a" * length for length in range(1, 11)])
    assert (mix.texts, mix.characters_p50, mix.characters_p90, mix.characters_max) == (10, 5, 9, 10)
