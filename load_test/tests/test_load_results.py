"""Results of load tests: files, pages, charts, comparisons."""

import csv
import dataclasses
import html.parser
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from dragoman_load_test.reports.comparison import Comparison
from dragoman_load_test.reports.pages import comparison_page, run_page
from dragoman_load_test.reports.plots import draw_comparison, draw_run
from dragoman_load_test.reports.table import comparison_lines, conclusion_lines, point_lines
from dragoman_load_test.results import Capacity, Judgement, Plan, Run, Trial, csv_of
from load_results import point, run, window

FULL = dataclasses.replace(
    run(
        point(
            window(range(1, 50)), window(range(2, 50)), window(range(1, 60)), load="concurrency 1"
        ),
        point(
            window([30, 40], {"ServerError": 1}, [3, 4]),
            window([30], {}, [5]),
            load="50/s poisson",
            closed=False,
            amount=50.0,
            examples={"ServerError": "<script>alert(1)</script>"},
            warm_up_errors={"ServerError": 2},
            notes=("the generator was late",),
        ),
        judgements=(Judgement("p99=1s", "concurrency 1", "p99=58.0ms", True),),
    ),
    capacity=Capacity(
        40.0, (Trial(50, False, "<b>slow</b>"), Trial(40, True, "")), Plan(200, 0.65, 9)
    ),
)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(FULL.to_json(), encoding="utf-8")
    assert Run.read(file) == FULL


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "Invalid JSON"),
        ("[]", "not a result of dragoman load-test"),
        ('{"version": 1}', "run: Field required"),
        (FULL.to_json().replace('"version":1', '"version":9'), "has version 9, expected 1"),
        (FULL.to_json().replace('"window_s":2.0', '"window_s":"x"'), "run.window_s"),
    ],
)
def test_a_file_that_is_not_a_result_is_refused(tmp_path: Path, content: str, message: str) -> None:
    """The message is one line, which names the file."""
    file = tmp_path / "run.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        Run.read(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="cannot be read"):
        Run.read(tmp_path / "nowhere")


def test_figures_are_those_of_all_windows() -> None:
    """Latencies are merged, and throughput is the mean of the windows."""
    load = point(window(range(1, 101)), window([200] * 50))
    assert load.sentences_per_s.mean == (50 + 25) / 2
    assert load.tokens_per_s == 3 * 150 / 4
    assert load.percentile_ms(50).mean == pytest.approx(75, rel=0.01)
    assert load.requests == 150
    assert load.percentile_ms(50).half_width > 100


def test_loads_without_an_answer_are_reported_outside_a_search() -> None:
    silent = run(point(window()), point(window([], {"late": 3}), load="900/s"))
    assert silent.unanswered == ("900/s",)
    searched = dataclasses.replace(silent, capacity=Capacity(800.0, ()))
    assert searched.unanswered == ()


def test_csv_has_a_line_for_each_window() -> None:
    rows = list(csv.DictReader(csv_of(FULL.points).splitlines()))
    assert len(rows) == 5
    assert rows[0]["load"] == "concurrency 1"
    assert float(rows[0]["sentences_per_s"]) == 49 / 2
    assert float(rows[3]["p50_ms"]) == pytest.approx(30, rel=0.001)
    assert (rows[3]["errors"], rows[4]["errors"]) == ("1", "0")
    assert float(rows[3]["first_part_p50_ms"]) == pytest.approx(3, rel=0.001)


class _Page(html.parser.HTMLParser):
    """The text, tags and addresses of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        addresses = [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.addresses += [address for address in addresses if not address.startswith("#")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_needs_no_other_file() -> None:
    """Messages of servers are escaped."""
    page = _Page(run_page(FULL))
    assert "script" not in page.tags
    assert not page.addresses
    assert "svg" in page.tags
    for text in (
        "<script>alert(1)</script>",
        "<b>slow</b>",
        "200 sentences/s: 9 such servers",
        "the generator was late",
        "p99=1s",
        "first part p50",
        "grpc://localhost:8001",
    ):
        assert text in page.text


def test_an_empty_load_test_is_drawn() -> None:
    """The load test has no answers, and lasts less than a second."""
    empty = run(point(window([], {"ServerError": 3}), timeline=()))
    assert "<svg" in draw_run(empty)
    assert "no answers" not in run_page(empty)
    assert "<svg" in draw_comparison(Comparison(("a", "b"), empty, empty))


def test_names_are_escaped_in_charts() -> None:
    """matplotlib escapes the names of loads and tests."""
    odd = run(point(window(range(1, 9)), load="<script>&"), point(window([], {"ServerError": 3})))
    for svg in (draw_run(odd), draw_comparison(Comparison(("<i>", "b"), odd, odd))):
        tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()}
        assert "script" not in tags
        assert "<script>&" in "".join(ET.fromstring(svg).itertext())


def test_a_comparison_separates_noise_from_change() -> None:
    """Load tests are compared window by window."""
    before = run(point(*(window([10 + n % 2] * 40) for n in range(5))))
    same = run(point(*(window([10 + (n + 1) % 2] * 40) for n in range(5))))
    faster = run(point(*(window([7 + n % 2] * 50) for n in range(5))))
    noise = {d.figure: d.verdict for d in Comparison(("a", "b"), before, same).differences()}
    assert set(noise.values()) == {"within noise"}
    change = {d.figure: d for d in Comparison(("a", "b"), before, faster).differences()}
    assert change.pop("errors, %").verdict == "within noise"
    assert {d.verdict for d in change.values()} == {"better"}
    assert change["sentences/s"].relative == 0.25
    back = Comparison(("a", "b"), faster, before)
    assert {d.verdict for d in back.differences()} == {"worse", "within noise"}
    page = _Page(comparison_page(back))
    assert "worse" in page.text
    assert not page.addresses


def test_an_unavailable_server_compares_badly() -> None:
    """Windows without an answer have a throughput of zero, and shares of errors are compared."""
    before = run(point(*(window([10 + n % 2] * 40) for n in range(6))))
    away = window([], {"ServerUnavailable": 100})
    after = run(point(*(away if n < 3 else window([10 + n % 2] * 40) for n in range(6))))
    differences = {d.figure: d for d in Comparison(("a", "b"), before, after).differences()}
    assert (differences["sentences/s"].before, differences["sentences/s"].after) == (20, 10)
    assert differences["errors, %"].after == 50


def test_a_comparison_lists_other_differences() -> None:
    """Loads that only one load test has are left out."""
    other = dataclasses.replace(
        run(point(window(), load="concurrency 9"), point(window())), protocol="HTTP"
    )
    comparison = Comparison(("a", "b"), run(point(window())), other)
    assert comparison.unlike() == ["protocol: gRPC and HTTP"]
    assert [pair[0].load for pair in comparison.pairs] == ["concurrency 8"]
    assert {d.verdict for d in comparison.differences()} == {"within noise"}
    assert any("differ in more" in line for line in comparison_lines(comparison))


def test_lines_for_a_terminal() -> None:
    """Each load has a line, followed by its errors and notes."""
    lines = list(point_lines(FULL.points[1]))
    assert lines[0].startswith("50/s poisson")
    assert any("3 x ServerError: <script>" in line for line in lines)
    assert any("first part p50 4.0 ms" in line for line in lines)
    assert any("note: the generator was late" in line for line in lines)
    assert any("200 sentences/s: 9 such servers" in line for line in conclusion_lines(FULL))
    assert json.loads(FULL.to_json())["version"] == 1


def test_the_chart_of_a_capacity_marks_rates_that_met_the_objectives() -> None:
    """The chart shows all offered rates, also those without a measured latency."""
    trials = (Trial(90, False, "backlog"), Trial(50, False, "slow"), Trial(40, True, ""))
    points = [
        point(window(times), window(times), load=f"{rate}/s", closed=False, amount=rate)
        for rate, times in ((40.0, range(1, 50)), (50.0, range(50, 400)))
    ]
    svg = draw_run(dataclasses.replace(run(*points), capacity=Capacity(40.0, trials)))
    text = "".join(ET.fromstring(svg).itertext())
    for words in ("offered rate", "met the objectives", "missed them", "capacity, 40.0/s"):
        assert words in text
    assert "stopped early: the backlog grew" in text
    assert "Throughput against latency" not in text
