"""The arithmetic, the order and the tables of the comparison behind Triton."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from dragoman_load_test.latency import LatencyHistogram

from dragoman.kernel.errors import CheckFailed, UsageError
from lab.load import GENERATOR, LoadPlan, LoadResult
from lab.load_process import MACHINE
from lab.peers import served, served_match
from lab.peers.ctranslate2_repository import Layout, Setting
from lab.peers.served_endpoint import ENGINE, IDLE, SERVER, Endpoint
from lab.peers.served_match import Loads, Match, Outcome, compare, race
from lab.peers.served_report import Case, Contest, Rounds, processor_table, throughput_table
from lab.peers.served_tuning import Trial, best_settings, settings

CASE = Case(beam_width=4, concurrency=8)
CPU_S = {GENERATOR: 0.2, SERVER: 0.1, ENGINE: 3.0, IDLE: 0.02, MACHINE: 3.5}


def result(
    sentences: int, latency_ms: float = 10.0, errors: Mapping[str, int] | None = None
) -> LoadResult:
    """A result of two seconds, with ten tokens per sentence and one recorded latency."""
    histogram = LatencyHistogram()
    histogram.record(latency_ms / 1000)
    return LoadResult(2.0, sentences, 10 * sentences, histogram.encode(), errors or {}, CPU_S)


CONTEST = Contest(
    CASE,
    Rounds("fp32", (result(100), result(400, 30.0), result(120, 20.0))),
    Rounds("float32", (result(200), result(200), result(100, errors={"gone": 2}))),
)


def test_ratios_are_taken_round_by_round_and_latencies_over_all() -> None:
    assert CONTEST.ratios == [0.5, 2.0, 1.2]
    assert CONTEST.dragoman.sentences_per_s == 60.0
    assert CONTEST.dragoman.tokens_per_s == 600.0
    assert CONTEST.dragoman.latency.p50_ms == pytest.approx(20, rel=0.01)
    assert CONTEST.errors == {"gone": 2}
    assert json.loads(json.dumps(CONTEST.summary()))["ratio_median"] == 1.2


def test_the_load_of_other_processes_is_reported() -> None:
    assert CONTEST.dragoman.cores_elsewhere == pytest.approx(0.09)


def test_tables_name_the_measurements() -> None:
    def row(table: str, line: int) -> list[str]:
        return [cell.strip() for cell in table.splitlines()[line].split("|")[1:-1]]

    assert row(throughput_table([CONTEST]), 2) == [
        *("beam 4", "8", "fp32", "60.0", "600", "20.0", "30.0"),
        *("float32", "100.0", "1000", "10.0", "10.0", "1.20 (0.50..2.00)"),
    ]
    table = processor_table([CONTEST])
    shares = ["5 %", "150 %", "10 %", "1 %", "9 %"]
    assert row(table, 2) == ["beam 4", "8", "Dragoman fp32", *shares]
    assert row(table, 3) == ["beam 4", "8", "CTranslate2 float32", *shares]


def test_the_best_setting_is_chosen_case_by_case() -> None:
    one, other = settings(2, "float32")[:2]
    cases = Case(1, 1), Case(1, 32)
    speeds = {(one, cases[0]): 50, (one, cases[1]): 100, (other, cases[0]): 40}
    trials = [Trial(case, setting, result(n)) for (setting, case), n in speeds.items()]
    trials.append(Trial(cases[1], other, result(101)))
    assert best_settings(trials) == {cases[0]: one, cases[1]: other}


def test_the_settings_use_every_core_once() -> None:
    tried = settings(2, "int8")
    layouts = {setting.layout for setting in tried}
    assert layouts == {Layout(2, 1, 1), Layout(1, 2, 1), Layout(1, 1, 2)}
    assert {setting.queue_delay_us for setting in tried} == {0, 1000, 5000}
    assert len(set(tried)) == len(tried) == 9
    assert len(settings(1, "int8")) == 3
    assert tried[0].preferred == ()
    assert tried[1] == Setting(tried[0].layout, 1000, (4, 8, 16, 32, 64), "int8")


class FakeEndpoint:
    """Records its requests."""

    def __init__(self, name: str, log: list[Any], sentences: int = 10) -> None:
        self.name, self.log, self.sentences = name, log, sentences

    def load(
        self, texts: Sequence[str], beam_width: int, plan: LoadPlan, others: Sequence[Any]
    ) -> LoadResult:
        self.log.append((self.name, beam_width, plan.concurrency, plan.seed))
        assert [other.name for other in others] == [n for n in ("a", "b") if n != self.name]
        return result(self.sentences)

    def translate(self, texts: Sequence[str], beam_width: int) -> list[str]:
        assert beam_width == 1
        return [text if number < self.sentences else "?" for number, text in enumerate(texts)]


def endpoint(name: str, log: list[Any] | None = None, sentences: int = 10) -> Endpoint:
    return cast(Endpoint, FakeEndpoint(name, [] if log is None else log, sentences))


LOADS = Loads(("x", "y"), (CASE,), rounds=2, duration_s=1.0, tuning_s=1.0)


def test_rounds_alternate_with_the_same_order_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_match, "_PAUSE_S", 0.0)
    log: list[Any] = []
    contenders = {name: endpoint(name, log) for name in ("a", "b")}
    ours, theirs = race(CASE, contenders, LOADS, lambda what: None)
    assert log == [("a", 4, 8, 0), ("b", 4, 8, 0), ("a", 4, 8, 1), ("b", 4, 8, 1)]
    assert (ours.setting, theirs.setting) == ("a", "b")
    assert len(ours.results) == len(theirs.results) == 2


def test_a_round_without_an_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_match, "_PAUSE_S", 0.0)
    contenders = {"a": endpoint("a"), "b": endpoint("b", sentences=0)}
    with pytest.raises(CheckFailed, match="b: beam 4, 8 at once: no request was translated"):
        race(CASE, contenders, LOADS, lambda what: None)


def test_different_translations_are_not_raced() -> None:
    texts = [str(number) for number in range(20)]
    exact, rounded = Match("fp32", "float32"), Match("int8", "int8")
    assert compare(endpoint("a", sentences=20), endpoint("b", sentences=19), texts, exact) == 0.95
    pair = endpoint("a", sentences=20), endpoint("b", sentences=18)
    assert compare(*pair, texts, rounded) == 0.9
    with pytest.raises(CheckFailed, match=r"only 90\.0%"):
        compare(*pair, texts, exact)


def test_failed_requests_fail_the_run() -> None:
    trial = Trial(CASE, settings(1, "float32")[0], result(1, errors={"away": 3}))
    outcome = Outcome(Match("fp32", "float32"), 1.0, (trial,), (CONTEST,))
    assert outcome.errors == [
        "beam 4, 8 at once: 3 requests failed: away",
        "beam 4, 8 at once: 2 requests failed: gone",
    ]
    assert json.loads(json.dumps(outcome.summary()))["tuning"][0]["errors"] == {"away": 3}
    with pytest.raises(CheckFailed, match="3 requests failed: away"):
        served._check_errors([outcome])


def test_pairs_of_precisions_are_read() -> None:
    words = ["--data-dir", "x", "--precisions", "fp32/float32", "int8/int8"]
    found = served._parser().parse_args(words).precisions
    assert found == [Match("fp32", "float32"), Match("int8", "int8")]
    assert [match.exact for match in found] == [True, False]
    with pytest.raises(SystemExit):
        served._parser().parse_args(["--data-dir", "x", "--precisions", "int8"])


def test_a_missing_test_set_is_named(tmp_path: Any, random_bundle: Any) -> None:
    with pytest.raises(UsageError, match=r"test\.en: no such file"):
        served.read_texts(tmp_path, 10, random_bundle)
