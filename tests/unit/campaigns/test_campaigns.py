"""The campaign's own measuring code."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from tests.campaigns import __main__ as campaign
from tests.campaigns import (
    faults,
    gateway_damage,
    grpc_damage,
    http2,
    models,
    replacements,
    riva_fuzz,
    shares,
)
from tests.campaigns.http_damage import KINDS, Kind
from tests.campaigns.http_fuzz import is_complete
from tests.campaigns.inputs import statistic
from tests.campaigns.load import OpenLoop, Record, errors
from tests.campaigns.outcome import Bound, Outcome, percentile, table
from tests.campaigns.overload import goodput
from tests.campaigns.pair_traffic import Question, Reply
from tests.campaigns.plan import Plan
from tests.campaigns.random_models import RandomModel
from tests.campaigns.replacements import Replacements
from tests.campaigns.sentence import TRANSLATION, Prober, ask, good_answer
from tests.campaigns.server import Usage, resident_bytes
from tests.served_bundles import swap
from tests.waiting import wait_for
from tests.web_server import Handler, serving


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(list(range(1, 101)), 0.99) == 99
    assert percentile([5.0], 0.99) == 5.0
    assert math.isnan(percentile([], 0.99))


@pytest.mark.parametrize(
    ("bound", "holds"),
    [
        (Bound("a", 1.0, 1.0), True),
        (Bound("a", 1.1, 1.0), False),
        (Bound("a", 0.8, 0.8, at_least=True), True),
        (Bound("a", 0.7, 0.8, at_least=True), False),
        (Bound("a", math.nan, 1.0), False),
        (Bound("a", math.nan, 1.0, at_least=True), False),
    ],
)
def test_a_bound_holds_at_its_limit_and_fails_without_a_value(bound: Bound, holds: bool) -> None:
    assert bound.holds is holds
    assert ("BROKEN" in str(bound)) is not holds


@pytest.mark.parametrize("field", ["crashes", "hangs", "wrong", "lost"])
def test_every_subject_must_be_without_crashes_hangs_wrong_and_lost(field: str) -> None:
    outcome = Outcome("x", requests=5)
    assert not outcome.broken()
    setattr(outcome, field, 1)
    assert [bound.value for bound in outcome.broken()] == [1]


def test_crashes_of_triton_itself_are_counted_separately() -> None:
    assert not Outcome("x", upstream_restarts=3).broken()


def test_the_table_names_what_was_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    outcome = Outcome("faults")
    faults._full_shared_memory(outcome)
    assert outcome.requests == 0
    text = table([outcome])
    assert "\n| faults, not run: full /dev/shm | 0 |" in text
    assert "NOT RUN full /dev/shm: `unshare --map-root-user --mount` does not work here" in text


def test_the_table_shows_usage_before_and_after() -> None:
    before = Usage({"triton": 40 << 20}, {"triton": 26})
    after = Usage({"triton": 50 << 20}, {"triton": 30})
    text = table([Outcome("x", 7, before=before, after=after, figures={"rate": {"a": 1.23456}})])
    assert "| x | 7 | 0 | 0 | 0 | 0 | 0 | 40 -> 50 |  | 26 -> 30 |  | 0.0 s |" in text
    assert "rate: a 1.235" in text


def test_goodput_counts_timely_answers_while_requests_were_sent() -> None:
    records = [
        Record(0.0, 1.0, "OK"),
        Record(0.5, 2.5, "OK"),  # past its deadline
        Record(3.5, 1.0, "OK"),  # after the last request was sent
        Record(0.0, 0.1, "UNAVAILABLE"),
    ]
    assert goodput(OpenLoop(0.0, 4.0, records, 0.0, 0.0), deadline_s=2.0) == 0.25


def test_errors_are_counted_by_status() -> None:
    records = [Record(0, 0, "OK"), Record(0, 0, "CANCELLED", "x"), Record(0, 0, "CANCELLED", "x")]
    assert errors(records) == {"CANCELLED x": 2}


def test_memory_is_read_from_linux() -> None:
    assert resident_bytes("Name:\tx\nVmRSS:\t    1024 kB\nThreads:\t1\n") == 1 << 20
    assert resident_bytes("Name:\tx\n") == 0


class _Answers(Handler):
    text: str | None = TRANSLATION

    def respond(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"text_output": self.text}).encode()
        self.answer(200 if self.text is not None else 503, {}, body)


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setattr(_Answers, "text", TRANSLATION)
    with serving(_Answers) as running:
        yield running


def test_good_wrong_and_missing_answers_are_distinguished(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert good_answer(port)
    monkeypatch.setattr(_Answers, "text", "Guten Abend.")
    assert ask(port) == "Guten Abend."
    assert not good_answer(port)
    monkeypatch.setattr(_Answers, "text", None)
    assert ask(port) is None


def test_the_prober_measures_an_outage(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with Prober(port) as prober:
        wait_for(lambda: prober.requests > 3)
        assert prober.longest_outage_s == 0
        monkeypatch.setattr(_Answers, "text", None)
        wait_for(lambda: prober.longest_outage_s > 0.3)
        monkeypatch.setattr(_Answers, "text", TRANSLATION)
        answered = prober.requests
        wait_for(lambda: prober.requests > answered + 2)
        outage_s = prober.longest_outage_s
        wait_for(lambda: prober.requests > answered + 4)
    assert prober.longest_outage_s == outage_s
    assert prober.wrong == 0


def test_the_prober_counts_wrong_answers(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answers, "text", "Guten Abend.")
    with Prober(port) as prober:
        wait_for(lambda: prober.requests)
    assert prober.wrong == prober.requests


def test_an_unknown_subject_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        campaign.main(["nothing"])
    assert "no subject 'nothing'" in capsys.readouterr().err


@pytest.mark.parametrize("name", campaign.SUBJECTS)
def test_every_subject_can_be_run(name: str) -> None:
    module = __import__(f"tests.campaigns.{campaign.SUBJECTS[name]}", fromlist=["run"])
    assert callable(module.run)


@pytest.mark.parametrize(
    ("kinds", "number", "requests"), [(KINDS, 27, 3), (gateway_damage.KINDS, 14, 20)]
)
def test_a_seed_makes_the_same_damaged_requests(
    kinds: tuple[Kind, ...], number: int, requests: int
) -> None:
    assert len({kind.name for kind in kinds}) == number
    for kind in kinds:
        made = [kind.make(Random(f"1 {number}")) for number in range(requests)]
        assert made == [kind.make(Random(f"1 {number}")) for number in range(requests)]
        assert all(isinstance(request[0], bytes) for request in made), kind.name


def test_json_tensors_never_claim_an_enormous_size() -> None:
    (kind,) = [kind for kind in KINDS if kind.name == "infer, JSON"]
    for number in range(500):
        (request,) = kind.make(Random(number))
        assert isinstance(request, bytes)
        body = json.loads(request.partition(b"\r\n\r\n")[2])
        assert all(math.prod(tensor["shape"]) < 1 << 20 for tensor in body["inputs"])


def test_an_http_answer_is_complete_at_its_stated_end() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    assert not is_complete(head + b"a")
    assert is_complete(head + b"ab")
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
    assert not is_complete(chunked)
    assert is_complete(chunked + b"0\r\n\r\n")


def test_damaged_messages_are_made_from_the_seed() -> None:
    for make in (
        grpc_damage.message,
        riva_fuzz.message,
        lambda chance: grpc_damage.connection(chance, b"body"),
    ):
        made = [make(Random(number)) for number in range(300)]
        assert made == [make(Random(number)) for number in range(300)]
        assert len(set(made)) > 100


def test_http2_frames_are_those_of_the_standard() -> None:
    assert http2.frame(http2.Type.PING, 1, 3, b"abc") == b"\0\0\3\6\1\0\0\0\3abc"
    assert http2.frame(http2.Type.DATA, 0, 0, b"", length=70_000) == b"\1\x11\x70\0\0\0\0\0\0"
    assert http2.block([(b"a", b"b" * 200)]) == b"\0\1a\x7f\x49" + b"b" * 200


def test_only_a_frame_with_data_is_a_message() -> None:
    headers = http2.frame(http2.Type.HEADERS, 5, 1, b"\0\0x")
    assert not http2.has_message(headers + http2.frame(http2.Type.DATA, 1, 1))
    assert http2.has_message(headers + http2.frame(http2.Type.DATA, 0, 1, b"\0\0\0\0\0"))


def test_a_subject_that_ends_early_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_plan: Plan) -> Outcome:
        raise TimeoutError("the server does not translate")

    monkeypatch.setattr("tests.campaigns.upstream.run", run)
    assert campaign.main(["upstream"]) == 1
    assert "ended early: the server does not translate" in capsys.readouterr().out


def test_metrics_are_written_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(plan: Plan) -> Outcome:
        return Outcome("upstream", plan.of(5, 2), bounds=[Bound("outage, s", plan.seed, 7)])

    monkeypatch.setattr("tests.campaigns.upstream.run", run)
    path = tmp_path / "figures.json"
    assert campaign.main(["--short", "--seed", "7", "--json", str(path), "upstream"]) == 0
    report = json.loads(path.read_text())
    assert report["seed"] == 7
    (subject,) = report["subjects"]
    assert (subject["subject"], subject["requests"]) == ("upstream", 2)
    assert subject["bounds"][-1] == {
        **{"name": "outage, s", "value": 7, "limit": 7, "at_least": False, "timed": False},
        "holds": True,
    }


def test_the_short_form_ignores_bounds_that_depend_on_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_plan: Plan) -> Outcome:
        return Outcome("upstream", bounds=[Bound("outage, s", 2, 1, timed=True)])

    monkeypatch.setattr("tests.campaigns.upstream.run", run)
    assert campaign.main(["--short", "upstream"]) == 0
    said = capsys.readouterr()
    assert "BROKEN outage, s: 2, at most 1" in said.out
    assert "BROKEN" not in said.err
    assert campaign.main(["upstream"]) == 1
    assert capsys.readouterr().err.endswith("upstream: BROKEN outage, s: 2, at most 1\n")


def test_libfuzzers_statistics_are_parsed() -> None:
    said = "Done\nstat::number_of_executed_units: 1234\nstat::new_units_added:  5\n"
    assert statistic(said, "stat::number_of_executed_units") == 1234
    assert statistic(said, "stat::new_units_added") == 5
    assert statistic("killed", "stat::new_units_added") == 0


def test_an_answer_that_differs_from_its_version_alone_is_found(random_bundle: Path) -> None:
    question = Question(("en", "de"), 1, "red blue")
    ((_, right),) = models._alone(random_bundle, [question])
    good = Reply(question, 0.1, right, Manifest.read(random_bundle).identity)

    def wrong(*replies: Reply) -> list[str]:
        return list(models._wrong(replies, [random_bundle]))

    assert not wrong(good, Reply(question, 0.1, fault="none came"))
    (fault,) = wrong(good, replace(good, text="another"))
    assert f"'another' instead of {right!r}" in fault
    (fault,) = wrong(replace(good, bundle="of nobody"))
    assert "'of nobody' is none of the versions" in fault


@pytest.mark.parametrize("damage", replacements._DAMAGES.values())
def test_a_damaged_version_cannot_be_loaded(
    damage: Callable[[Path], None], random_bundle: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(random_bundle, tmp_path / "broken"))
    Translator(broken).close()
    damage(broken)
    with pytest.raises(UsageError):
        Translator(broken)


@pytest.mark.parametrize("is_good", [True, False])
def test_a_version_that_is_wrongly_accepted_or_refused_is_recorded(
    is_good: bool, random_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacements, "_TAKEN_S", 0.05)
    monkeypatch.setattr(replacements, "_REFUSED_S", 0.05)
    if is_good:
        monkeypatch.setattr(replacements, "_DAMAGES", {})
        monkeypatch.setattr(replacements, "_GOOD_EACH", 1)
    else:
        monkeypatch.setattr(replacements, "_GOOD_EACH", 0)
    versions = tuple(
        Path(shutil.copytree(random_bundle, tmp_path / name / "bundle")) for name in "ab"
    )
    (tmp_path / "served").mkdir()
    model = RandomModel(tmp_path / "served" / "en-de", versions, ("en", "de"))
    swap(model.link, versions[0])
    running = Replacements([model], dict, lambda: 0, 2, seed=1)
    with running:
        while running.is_busy:
            time.sleep(0.01)
    assert running.done.total() == len(running.late) == 2
    assert model.link.resolve() == versions[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "served"]


def test_failures_and_slow_answers_beside_an_attack_break_bounds() -> None:
    quiet = shares.Served([0.1] * 100, [0.01] * 100)
    for beside, broken in (
        (shares.Served([0.15] * 100, [0.02] * 100), []),
        (shares.Served([0.3] * 100, [0.02] * 100), ["p99 beside 2,600 connections over quiet p99"]),
        (shares.Served([0.1] * 100, [2.0] * 100), ["/livez p99.9, s", "/livez longest, s"]),
        (shares.Served([0.1], [0.01], ["503"]), ["lost requests"]),
    ):
        outcome = Outcome("shares")
        shares._judge(outcome, quiet, {"connections": beside})
        assert [bound.name for bound in outcome.broken()] == broken
