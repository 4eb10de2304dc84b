"""The steps on a rented GPU: how long they train, and at which rate after a failure."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from dragoman_training.config import OptimisationConfig

from lab.gpu import remote
from lab.gpu.remote import STUDENT, TEACHER, Plan


@pytest.mark.parametrize("elapsed_s", range(0, 680, 20))
def test_no_run_is_planned_past_the_end_of_training(elapsed_s: float) -> None:
    plan = Plan("cuda")
    for name in (TEACHER, STUDENT):
        minutes = plan.minutes(name, elapsed_s)
        assert elapsed_s + 60 * minutes + plan.overhead_s <= plan.trained_s
    assert plan.minutes(TEACHER, 100) == plan.teacher_minutes
    assert plan.minutes(STUDENT, 490) == plan.student_minutes
    assert 0 < plan.minutes(STUDENT, 600) < plan.student_minutes


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(remote, "WORK", tmp_path)
    monkeypatch.setattr(remote, "_LOG", tmp_path / "train.log")
    monkeypatch.setattr(remote, "_STARTED", tmp_path / "started")
    usual = OptimisationConfig(minutes=5, cooldown_minutes=2, peak_learning_rate=0.5)
    monkeypatch.setattr(remote, "_training", lambda _: usual)
    (tmp_path / "started").write_text(str(time.time()))
    (tmp_path / "tokenizer.model").write_bytes(b"")
    (tmp_path / "encoded-text").mkdir()
    return tmp_path


def test_a_run_with_nan_is_resumed_at_half_the_rate(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = []

    def call(command: Sequence[str], _timeout_s: float, _stop_s: float = 0.0) -> int:
        commands.append(" ".join(command))
        checkpoint = work / "teacher/checkpoints/step-0000010"
        checkpoint.mkdir(parents=True, exist_ok=True)
        (checkpoint / "progress.json").write_text(json.dumps({"elapsed_s": 60.0}))
        with (work / "train.log").open("a") as log:
            if len(commands) < 3:
                log.write("step 11: the loss is nan; lower training.peak_learning_rate\n")
                return 2
        (work / "teacher/final").mkdir()
        return 0

    monkeypatch.setattr(remote, "call", call)
    assert remote.run(Plan("cuda"), TEACHER) == work / "teacher/final"
    assert "peak_learning_rate" not in commands[0]
    assert "--set training.minutes=5.000" in commands[0]
    # A resumed run counts its minutes before the checkpoint.
    assert "--set training.minutes=6.000 --set training.cooldown_minutes=2.000" in commands[1]
    assert "--set training.peak_learning_rate=0.25 " in commands[1]
    assert "training.peak_learning_rate=0.125" in commands[2]
    assert all("--resume" in command for command in commands)


@pytest.mark.usefixtures("work")
def test_a_shorter_run_has_a_shorter_cooldown(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = []
    monkeypatch.setattr(remote, "call", lambda command, *_: commands.append(" ".join(command)))
    remote.run(Plan("cuda", teacher_minutes=1), TEACHER)
    assert "--set training.minutes=1.000 --set training.cooldown_minutes=0.400" in commands[0]
