"""What all programs of the lab share: rounds, ratios, the command line, JSON, tables."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from dragoman.kernel.errors import CheckFailed
from lab.measurement import Results, alternate, number, program, ratios
from lab.report import spread


@program(number("--rounds", 3))
def main(arguments: argparse.Namespace) -> Results:
    """A program."""
    if arguments.rounds == 13:
        raise CheckFailed("13 brings bad luck")
    return {"rounds": arguments.rounds}


def test_runs_take_turns_and_the_warm_up_does_not_count() -> None:
    log: list[str] = []

    def run(name: str) -> int:
        log.append(name)
        return len(log)

    runs = {"a": lambda: run("a"), "b": lambda: run("b")}
    assert alternate(runs, 2, warm_up=1) == {"a": [3, 5], "b": [4, 6]}
    assert log == ["a", "b"] * 3


def test_ratios_are_taken_round_by_round() -> None:
    values = ratios([3.0, 3.0, 3.0], [1.0, 2.0, 4.0])
    assert values == [3.0, 1.5, 0.75]
    assert spread(values) == "1.50 (0.75..3.00)"


def test_results_are_written_with_the_machine_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    file = tmp_path / "results.json"
    assert main(["--rounds", "2", "--json", str(file)]) == 0
    written = json.loads(file.read_text())
    assert written["rounds"] == 2
    assert written["command"] == f"python -m {__name__} --rounds 2 --json {file}"
    assert written["environment"]["OMP_NUM_THREADS"] == "7"
    assert written["cores"] > 0
    assert {"python", "dragoman", "numpy"} <= set(written["versions"])


def test_a_failed_check_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "13"]) == 1
    assert capsys.readouterr().err == f"{__name__}: 13 brings bad luck\n"


@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_numbers_are_from_1_up(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rounds", value])
    assert f"invalid positive number value: '{value}'" in capsys.readouterr().err
