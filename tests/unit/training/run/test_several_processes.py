"""Training by several processes, and by one that is killed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from dragoman_training.run import checkpoint
from dragoman_training.run.trainer import Trainer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.conftest import REPOSITORY
from tests.unit.training.run.small_runs import assert_same_weights, command, losses, settings


@pytest.mark.parametrize(
    "further", [["training.optimizer=adam", "alignment.weight=0.1"], ["training.optimizer=muon"]]
)
def test_a_run_killed_in_an_epoch_resumes_to_the_same_weights(
    text: Path, tmp_path: Path, further: list[str]
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    words = ["training.steps=60", *further]
    Trainer(settings(60, *words), text, whole).train()
    process = subprocess.Popen([sys.executable, *command(text, cut, *words)])
    while process.poll() is None and not (cut / "checkpoints" / "step-0000010").is_dir():
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert not (cut / "final").exists(), "the run was over before it was killed"
    # A kill may also cut the log's last line, after lines of steps later than the checkpoint.
    with (cut / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"kind": "train", "step": 60, "loss": 0.0}\n{"kind": "tra')
    Trainer(settings(60, *words), text, cut, resume=True).train()
    assert_same_weights(cut / "final", whole / "final")
    assert losses(cut) == losses(whole)
    assert losses(cut, "valid") == losses(whole, "valid")
    events = EventAccumulator(str(cut / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == list(losses(whole))


def test_two_processes_train_the_same_model_as_one(text: Path, tmp_path: Path) -> None:
    words = ["training.precision=fp32", "training.steps=20", "training.part_tokens=60"]
    words += ["training.peak_learning_rate=1e-3", "alignment.weight=0.1"]
    by_one, by_two = tmp_path / "one", tmp_path / "two"
    Trainer(settings(20, *words), text, by_one).train()
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, *torchrun, *command(text, by_two, *words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(by_two / "final")], "one process speaks for both"
    assert done.stderr.count("parameters, 2 x cpu") == 1, done.stderr
    for name in ("loss", "alignment_loss"):
        assert losses(by_two, name=name) == pytest.approx(losses(by_one, name=name), abs=2e-4)
    assert losses(by_two, "valid") == pytest.approx(losses(by_one, "valid"), abs=2e-4)
    expected = checkpoint.load(by_one / "final").model.state_dict()
    for name, tensor in checkpoint.load(by_two / "final").model.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-3, rtol=1e-3)


SMALL_SECOND_GPU = """
import os, runpy, sys, torch
from dragoman_training.network.transformer import Transformer
whole = Transformer.forward
def forward(self, src, mask, tgt):
    tokens = src.size(0) * max(src.size(1), tgt.size(1))
    if os.environ["RANK"] == "1" and torch.is_grad_enabled() and tokens > 40:
        raise torch.OutOfMemoryError("no memory is left")
    return whole(self, src, mask, tgt)
Transformer.forward = forward
sys.argv = sys.argv[1:]
runpy.run_module("dragoman", run_name="__main__")
"""


def test_one_process_with_less_memory_does_not_block_the_other(text: Path, tmp_path: Path) -> None:
    words = ["training.precision=fp32", "training.steps=10", "training.part_tokens=60"]
    words += ["model.dropout=0.0", "training.peak_learning_rate=1e-3"]
    script = tmp_path / "small.py"
    script.write_text(SMALL_SECOND_GPU)
    Trainer(settings(10, *words), text, tmp_path / "one").train()
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = subprocess.run(
        [sys.executable, *torchrun, *command(text, tmp_path / "two", *words)[1:]],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "do not fit the memory of cpu; continuing with" in done.stderr
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=2e-4)
    path = tmp_path / "two/checkpoints/step-0000010/progress.json"
    assert 1 < json.loads(path.read_text())["most_tokens"] <= 40, "of the one that has least"


def test_a_lost_process_is_reported_in_one_line(text: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    # It takes part in training the vocabulary, then it is gone.
    gone = "from dragoman_training.steps.processes import join; join().wait()"
    first, second = (
        subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, **common, "RANK": rank},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, words in (("0", command(text, tmp_path / "run")), ("1", ["-c", gone]))
    )
    printed = first.communicate(timeout=120)[1]
    other_printed = second.communicate(timeout=120)[1]
    assert second.returncode == 0, other_printed
    assert first.returncode == 1
    assert "Traceback" not in printed
    said = [line for line in printed.splitlines() if line.startswith("dragoman train: ")]
    assert len(said) == 1
    assert said[0].startswith("dragoman train: another process has ended, see its message: ")
