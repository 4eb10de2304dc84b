"""`dragoman load-test` against the shipped model behind the real server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml
from dragoman_load_test.results import Point, Run

from dragoman.cli import main
from tests.conftest import CommandLine
from tests.servers import Served


def load_test(
    served: Served, *words: str, protocol: str = "grpc", least_window_s: float = 0.15
) -> int:
    """Run the command with short windows, in which a busy machine answers too; its exit code."""
    begin_s = time.monotonic()
    served.grpc.translate("Good morning.", target_language="de")
    window_s = max(least_window_s, 10 * (time.monotonic() - begin_s))
    briefly = ("--warm-up-s", "0.1", "--window-s", f"{window_s:.2f}", "--windows", "2")
    url = getattr(served.server, f"{protocol}_url")
    metrics = f"http://127.0.0.1:{served.server.ports.metrics}/metrics"
    server = ("--url", url, "--metrics-url", metrics, "--target-language", "de")
    return main(["--quiet", "load-test", *server, *briefly, *words])


def points(file: Path) -> tuple[Point, ...]:
    return Run.read(file).points


@pytest.mark.parametrize(
    # `test_streams` measures both in the usual run.
    "protocol",
    ["grpc", pytest.param("http", marks=pytest.mark.thorough)],
)
def test_closed_and_open_loops(shipped: Served, tmp_path: Path, protocol: str) -> None:
    file, page, texts = tmp_path / "run.json", tmp_path / "run.html", tmp_path / "texts"
    texts.write_text("Good morning.\nI would like a cup of coffee.\n<script>alert(1)</script>\n")
    recorded = tmp_path / "times"
    recorded.write_text("\n".join(str(number / 40) for number in range(40)))
    words = ("--concurrency", "1,4", "--rate", "40", "--arrivals-file", str(recorded))
    outputs = ("--json", str(file), "--html", str(page))
    more = (*outputs, "--texts", str(texts), "--batch-size", "1,3")
    for window_s in (0.15, 1.5, 15):  # other tests may need the processor during a short one
        code = load_test(shipped, *words, *more, protocol=protocol, least_window_s=window_s)
        measured = points(file)
        if all(point.sentences_per_s.mean for point in measured):
            break
    assert code == 0
    # A record of 40 requests a second has three times as many sentences in batches of three.
    single = ["40/s recorded", "40/s poisson", "concurrency 1", "concurrency 4"]
    triple = ["120/s recorded", "40/s poisson", "concurrency 1", "concurrency 4"]
    assert [point.load for point in measured] == single + triple
    assert [point.batch_size for point in measured] == [1] * 4 + [3] * 4
    for point in measured:
        assert not point.errors, point.examples
        assert 2 <= len(point.windows) <= 4
        assert point.sentences_per_s.mean > 0
        assert 0 < point.latencies.percentile_ms(50) <= point.latencies.percentile_ms(99.9)
        assert sum(window.tokens for window in point.windows) > 0
        assert point.server is not None
        described = dict(point.server.described())
        assert "engine process, peak memory" in described
        assert "output tokens/s" in described
    assert "<script>alert" not in page.read_text()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_streams(shipped: Served, tmp_path: Path, protocol: str) -> None:
    file = tmp_path / "run.json"
    words = ("--stream", "--concurrency", "2", "--beam-width", "1", "--json", str(file))
    assert load_test(shipped, *words, protocol=protocol) == 0
    (point,) = points(file)
    assert not point.errors
    assert 0 < point.first_parts.percentile_ms(50) <= point.latencies.percentile_ms(50)
    assert point.per_token.percentile_ms(50) > 0


def test_an_objective_decides_the_exit_code(
    shipped: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load_test(shipped, "--concurrency", "2", "--slo", "p50=60s", "--slo", "errors=0%") == 0
    assert "p50=60s under concurrency 2: met" in capsys.readouterr().out
    assert load_test(shipped, "--concurrency", "2", "--slo", "p50=0.001ms") == 1
    captured = capsys.readouterr()
    assert "p50=0.001ms under concurrency 2: MISSED" in captured.out
    assert "1 of 1 objectives were missed" in captured.err


def test_a_capacity_is_found(
    shipped: Served,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A fifth of the first measurement is reached even if other processes have become busy since.
    monkeypatch.setattr("dragoman_load_test.capacity._FIRST", 0.2)
    monkeypatch.setattr("dragoman_load_test.capacity._MOST_TRIALS", 4)
    file = tmp_path / "run.json"
    few = ("--max-tokens", "2", "--slo", "p50=5s")
    values = tmp_path / "values.yaml"
    words = ("--find-capacity", *few, "--plan", "100000/s", "--price", "0.1", "--json", str(file))
    assert load_test(shipped, *words, "--values", str(values)) == 0
    capacity = Run.read(file).capacity
    assert capacity is not None
    assert capacity.sentences_per_s > 1
    plan = capacity.plan
    assert plan is not None
    assert plan.replicas >= 100_000 / capacity.sentences_per_s
    assert plan.per_million_characters is not None
    assert "such servers" in capsys.readouterr().out
    assert yaml.safe_load(values.read_text())["scaling"]["triton"]["most"] == plan.replicas


def test_two_tests_are_compared(
    shipped: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str], cli: CommandLine
) -> None:
    before, after, page = (tmp_path / name for name in ("before.json", "after.json", "both.html"))
    for file in (before, after):
        assert load_test(shipped, "--concurrency", "1", "--json", str(file)) == 0
    capsys.readouterr()
    command = ["load-test", "--compare", str(before), str(after), "--html", str(page)]
    page.write_text("precious")
    assert "both.html exists: give --force to replace it" in cli.refusal(*command)
    assert main([*command, "--force"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("concurrency 1")]) == 5
    assert "before and after" in page.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target-language", "xx"), "target_language 'xx' is unknown"),
        (("--source-language", "it"), "--texts: give a file with texts, for --source-language it"),
        (("--source-language", "en-US", "--target-language", "xx"), "'xx' is unknown"),
        (("--texts", "nowhere"), "nowhere: cannot be read"),
        (("--slo", "fast"), "objective 'fast': write it like"),
        (("--find-capacity",), "--find-capacity: give an objective"),
        (("--plan", "5/s"), "--plan: add --find-capacity"),
        (("--price", "1"), "--price and --values: only with --plan"),
        (("--plan", "5/s", "--find-capacity", "--price", "0"), "--price 0: give more than 0"),
        (("--plan", "many", "--find-capacity", "--slo", "p5=1s"), "--plan many: give a rate"),
        (("--windows", "0"), "--windows 0: give at least 1"),
        (("--window-s", "nan"), "--window-s nan: give more than 0"),
        (("--stream", "--batch-size", "2"), "--batch-size: a stream has one text"),
        (("--arrivals-file", "nowhere"), "nowhere: cannot be read"),
        (("--url", "ftp://x"), "URL 'ftp://x'"),
        (("--beam-width", "99"), "beam_width is 99"),
        (("--ca-file", "nowhere"), "nowhere"),
        (("--json", "/nowhere/run.json"), "/nowhere/run.json: cannot be written"),
    ],
)
def test_invalid_settings_are_refused(
    shipped: Served, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert load_test(shipped, *words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("dragoman load-test: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("word", [("--rate", "0"), ("--concurrency", "x"), ("--batch-size", "1,")])
def test_numbers_are_checked_when_they_are_read(
    shipped: Served, capsys: pytest.CaptureFixture[str], word: tuple[str, str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        load_test(shipped, *word)
    assert caught.value.code == 2
    assert f"argument {word[0]}: {word[1]!r}: give" in capsys.readouterr().err


def test_a_server_without_metrics_is_measured_too(
    shipped: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = ("--metrics-url", "http://127.0.0.1:1/metrics")
    assert load_test(shipped, "--concurrency", "1", *nowhere) == 0
    assert "note: no server metrics: http://127.0.0.1:1" in capsys.readouterr().out
