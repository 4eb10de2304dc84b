"""Calculations of the load test: histograms, intervals, objectives, the search for capacity."""

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
from dragoman_load_test.reports.table import plan_line
from dragoman_load_test.results import Capacity, Trial, Window
from dragoman_load_test.server_figures import ServerFigures, read_metrics
from dragoman_load_test.texts import TextMix, in_batches, read_texts
from load_results import point, window


def histogram(*latencies_ms: float) -> LatencyHistogram:
    """A histogram of these latencies."""
    made = LatencyHistogram()
    for latency_ms in latencies_ms:
        made.record(latency_ms / 1000)
    return made


def test_percentiles_of_merged_histograms() -> None:
    """Percentiles are exact to three digits."""
    fast, slow = histogram(*range(1, 51)), histogram(*range(51, 101))
    merged = LatencyHistogram.merge([fast.encode(), slow.encode()])
    assert len(merged) == 100
    summary = merged.summary()
    assert summary.p50_ms == pytest.approx(50, rel=0.001)
    assert summary.p99_ms == pytest.approx(99, rel=0.001)
    assert summary.p99_9_ms == summary.max_ms == pytest.approx(100, rel=0.001)
    assert LatencyHistogram().summary().max_ms == 0
    shares, times = zip(*merged.curve(), strict=True)
    assert list(shares) == sorted(shares)
    assert list(times) == sorted(times)
    assert (shares[-1], times[-1]) == (100, pytest.approx(100, rel=0.001))
    merged.clear()
    assert len(merged) == 0
    with pytest.raises(ValueError, match="not a histogram"):
        LatencyHistogram.merge(["damaged"])


def test_the_share_within_a_bound() -> None:
    """A latency equal to the bound is within it."""
    latencies = histogram(*range(1, 101))
    assert latencies.share_within(30) == pytest.approx(0.3)
    assert latencies.share_within(29.9) == pytest.approx(0.29)
    assert latencies.share_within(0.5) == 0
    assert latencies.share_within(1e9) == 1
    assert LatencyHistogram().share_within(1) == 1


def test_intervals_follow_students_distribution() -> None:
    """For five values, t at 97.5 % with four degrees of freedom is 2.776."""
    estimate = Estimate.of([10, 12, 11, 13, 14])
    assert estimate.mean == 12
    assert estimate.half_width == pytest.approx(2.776 * math.sqrt(2.5 / 5))
    assert (estimate.low, estimate.high) == (12 - estimate.half_width, 12 + estimate.half_width)
    assert estimate.relative == pytest.approx(estimate.half_width / 12)
    assert Estimate.of([3]).half_width == math.inf
    assert Estimate.of([0, 0]).relative == math.inf


def test_intervals_of_differences_follow_welch() -> None:
    """By hand: variances 2.5 and 10, five values each, give 5.88, so 5 degrees of freedom."""
    estimate = difference([10, 12, 11, 13, 14], [20, 24, 22, 26, 28])
    assert estimate.mean == 12
    assert estimate.half_width == pytest.approx(2.571 * math.sqrt(2.5 / 5 + 10 / 5))
    assert difference([1, 1], [2, 2]) == Estimate(1, 0)
    assert difference([1], [2, 2]).half_width == math.inf


def test_agreement_of_windows() -> None:
    """Windows agree if their spread and their drift are small."""
    assert is_steady([100, 101, 99, 100])
    assert not is_steady([100, 150, 60, 100])
    assert not is_steady([0, 0, 0, 0])
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
    objective = Objective.parse(text)
    assert (objective.text, objective.measure, objective.percentile) == (text, measure, percentile)
    assert objective.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    "text",
    ["", "p99", "p99=300", "p100=1s", "99=1s", "p99=-1s", "p0=1s", "p9=0ms", "errors=1", "x=1%"],
)
def test_invalid_objectives_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="objective"):
        Objective.parse(text)


def test_objectives_are_judged() -> None:
    """All windows of a load are judged together."""
    load = point(window(latencies_ms=range(1, 101)), window(latencies_ms=range(1, 101)))
    assert Objective.parse("p99=99ms").judge(load).met
    missed = Objective.parse("p99=98ms").judge(load)
    assert (missed.met, missed.load) == (False, load.load)
    assert missed.found.startswith("p99=99.0")
    assert Objective.parse("sentences=50/s").judge(load).met
    assert not Objective.parse("sentences=50.1/s").judge(load).met
    assert Objective.parse("errors=0%").judge(load).met
    assert not Objective.parse("first-p50=1s").judge(load).met  # there are no first parts


def test_a_request_without_an_answer_counts_as_slow() -> None:
    """If missing answers did not count, a server could drop requests to meet its objective."""
    load = point(window(latencies_ms=[1] * 98, errors={"DeadlineExceeded": 2}))
    judgement = Objective.parse("p99=300ms").judge(load)
    assert not judgement.met
    assert "2 of 100 requests without an answer" in judgement.found
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

    trials: list[Trial] = []
    capacity = asyncio.run(find_capacity(start, briefly, at_length, trials.append))
    assert tuple(trials) == capacity.trials
    return capacity


@pytest.mark.parametrize("start", [20, 90, 200, 1000])
def test_the_search_ends_near_the_limit(start: float) -> None:
    """The search may start below or above the limit."""
    capacity = search(start, lambda rate: rate <= 100)
    assert 94 <= capacity.sentences_per_s <= 100
    assert [trial.held for trial in capacity.trials] == [
        trial.rate <= 100 for trial in capacity.trials
    ]
    assert len(capacity.trials) < 15


def test_the_capacity_is_confirmed_by_a_long_trial() -> None:
    """A short trial can succeed at a rate that is too high."""
    capacity = search(100, lambda rate: rate <= 100, lambda rate: rate <= 80)
    assert 76 <= capacity.sentences_per_s <= 80
    assert capacity.sentences_per_s == capacity.trials[-1].rate
    assert capacity.trials[-1].held


@pytest.mark.parametrize("start", [0, 100])
def test_a_server_that_meets_no_objective_has_no_capacity(start: float) -> None:
    """The search also ends if no rate meets the objectives."""
    capacity = search(start, lambda _rate: False)
    assert capacity.sentences_per_s == 0
    assert len(capacity.trials) < 20
    assert not any(trial.held for trial in capacity.trials)
    assert plan_for(200, capacity.sentences_per_s, 40, None) is None


def test_a_plan_has_capacity_for_a_server_that_fails() -> None:
    """The plan reserves capacity for a failed server and for an uneven distribution of requests."""
    for sentences_per_s, replicas in ((65, 2), (66, 3), (650, 11)):
        plan = plan_for(sentences_per_s, 100, 40, None)
        assert plan is not None
        assert (plan.replicas, plan.per_million_characters) == (replicas, None)


def test_a_plan_has_the_cost_of_a_million_characters() -> None:
    """Eleven servers at 0.36 an hour translate 26,000 characters a second."""
    plan = plan_for(650, 100, 40, 0.36)
    assert plan is not None
    assert plan.per_million_characters == pytest.approx(11 * 0.0001 / 0.026)
    assert "11 such servers, each at most 65% busy" in plan_line(plan)
    assert plan_line(plan).endswith("a million characters cost 0.042")


def test_objections_to_a_rate() -> None:
    """Objections are a missed objective, a growing backlog, and a generator that was too slow."""
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


def test_limits_of_the_generator_are_reported() -> None:
    """A busy or late generator is reported as the limit of a measurement."""
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
    """Only metrics of Triton and the engine are read, without the buckets of histograms."""
    counters, gauges = read_metrics(METRICS)
    assert counters == {"nv_inference_count_total": 42, "dragoman_sentences_total": 84}
    assert gauges == {"dragoman_rows": 3}
    with pytest.raises(ValueError, match=r"."):
        read_metrics("<html>")


def test_metrics_of_the_server_are_described() -> None:
    """Missing metrics are left out of the description."""
    increases = {"dragoman_sentences_total": 200.0, "dragoman_queue_seconds_total": 1.0}
    means = {"dragoman_rows": 16.0, "dragoman_rows_limit": 64.0}
    described = dict(ServerFigures(4.0, increases, means, means).described())
    assert described["sentences/s"] == "50"
    assert described["queue time, ms per sentence"] == "5.0"
    assert described["rows in flight, mean"] == "16.0 of 64 (25%)"
    assert not any("GPU" in name for name in described)
    assert dict(ServerFigures(1.0).described()) == {}


def test_each_line_is_a_text(tmp_path: Path) -> None:
    """Files of texts may be compressed; blank lines are left out."""
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
def test_invalid_files_of_texts_are_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_texts(file)
    with pytest.raises(ValueError, match="cannot be read"):
        read_texts(tmp_path)


def test_batches_contain_every_text_before_one_is_repeated() -> None:
    """The last batch is filled with texts of the others."""
    texts = [str(number) for number in range(10)]
    batches = in_batches(texts, 4, seed=1)
    assert [len(batch) for batch in batches] == [4, 4, 4]
    counts = Counter(text for batch in batches for text in batch)
    assert set(counts) == set(texts)
    assert max(counts.values()) == 2
    assert batches == in_batches(texts, 4, seed=1) != in_batches(texts, 4, seed=2)
    assert in_batches(["a"], 3, seed=0) == [["a", "a", "a"]]


def test_a_mix_of_texts_has_their_lengths() -> None:
    """Lengths of texts are in characters."""
    mix = TextMix.of("texts", ["a" * length for length in range(1, 11)])
    assert (mix.texts, mix.characters_p50, mix.characters_p90, mix.characters_max) == (10, 5, 9, 10)
