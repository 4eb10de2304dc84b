from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from dragoman_serving.launch.processes import alive, children
from dragoman_training.config import RunConfig, resolve
from dragoman_training.run.trainer import Trainer
from dragoman_training.text import batches
from dragoman_training.text.batches import Batches, Worker
from dragoman_training.text.encoding import TokenFiles
from dragoman_training.text.examples import Batch, Examples, Part
from dragoman_training.text.parallel_text import ParallelText, TextFiles

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Tokenizer
from tests.toy import reverse_pairs, write_links, write_pairs
from tests.waiting import wait_for

PLAN = (400, 100, 1, 0, 0.3, None)


class Ready(Worker):
    """A process that has started."""

    def __init__(self, examples: Examples) -> None:
        super().__init__(examples)
        assert self._connection.poll(120)


@pytest.fixture
def examples(tmp_path: Path, tokenizer: Tokenizer, tokenizer_path: Path) -> Examples:
    """Two texts in files, one with word alignments and one sampled."""
    pairs = reverse_pairs(150, seed=1)
    for name in ("linked", "sampled"):
        write_pairs(tmp_path / name, pairs, ("en", "de"))
    write_links(tmp_path / "linked", pairs, ("en", "de"))
    files = TextFiles(tmp_path / "linked", ("en", "de"), links=[("en", "de")])
    linked = ParallelText(files, ("en", "de"), links=[(0, 1)])
    files = TextFiles(tmp_path / "sampled", ("en", "de"))
    sampled = ParallelText(files, ("en", "de"), max_pairs=50)
    encoded = TokenFiles(tmp_path / "encoded", tokenizer_path)
    return Examples([linked, sampled], tokenizer, 200, files=encoded)


def test_other_processes_prepare_the_same_until_one_ends(
    examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "Worker", Ready)
    right = examples.steps(*PLAN)
    with Batches(examples, 2) as ahead:
        ahead.plan_ahead(*PLAN)
        steps = ahead.plan(*PLAN)
        ahead.plan_ahead(*PLAN)
        other = (*PLAN[:3], 1, *PLAN[4:])
        expected = examples.steps(*other)
        assert same_parts(ahead.plan(*other), expected), "not the plan that was begun"
        assert same_parts(steps, right)
        parts = [part for step in steps for part in step]
        expected_batches = list(map(examples.batch, parts))
        monkeypatch.setattr(Examples, "batch", refuse)
        for number, part in enumerate(parts):
            ahead.collate_ahead(parts[number : number + 5])
            batch = ahead.batch(part)
            for name in ("src_ids", "tgt_in_ids", "tgt_out_ids", "linked"):
                actual, tensor = (
                    getattr(prepared, name) for prepared in (batch, expected_batches[number])
                )
                assert (actual is None) == (tensor is None)
                assert actual is None or (
                    torch.equal(actual, tensor) and actual.dtype == tensor.dtype
                )
        monkeypatch.undo()
        # A part that is needed again, or out of turn, is collated here.
        ahead.collate_ahead(parts[:5])
        for part in (parts[3], parts[3], parts[0], parts[7]):
            assert torch.equal(ahead.batch(part).src_ids, examples.batch(part).src_ids)
        # A process that ends is reported in one line.
        for worker in ahead._collators:
            worker.process.kill()
            worker.process.join()
        message = r"has ended with the code -9; .* set training\.batch_processes=0"
        with pytest.raises(UsageError, match=message) as raised:
            collate(ahead, parts)
        assert "\n" not in str(raised.value)


def refuse(_self: Examples, _part: Part) -> None:
    raise AssertionError("collated in the trainer")


def same_parts(actual: list[list[Part]], right: list[list[Part]]) -> bool:
    return [len(step) for step in actual] == [len(step) for step in right] and all(
        (part.first == other_part.first).all()
        and (part.second == other_part.second).all()
        and part.tgt_tokens == other_part.tgt_tokens
        for step, other_step in zip(actual, right, strict=True)
        for part, other_part in zip(step, other_step, strict=True)
    )


def collate(ahead: Batches, parts: list[Part]) -> None:
    for number, part in enumerate(parts):
        ahead.collate_ahead(parts[number : number + 2])
        ahead.batch(part)


def settings(processes: int, *words: str) -> RunConfig:
    given = ["model.preset=tiny", "vocabulary.size=320", "training.batch_tokens=200"]
    given += ["training.warmup_steps=10", "training.steps=15", "training.part_tokens=60"]
    given += [
        "training.checkpoint_every_steps=5",
        "training.average_last=1",
        "alignment.weight=0.1",
    ]
    given += ["data.joined_share=0.2", "data.train=[{prefix='train',max_pairs=30,weight=0.7}]"]
    return resolve(None, [*given, f"training.batch_processes={processes}", *words])


def write_text(folder: Path) -> None:
    pairs = reverse_pairs(60, seed=1)
    write_pairs(folder / "train", pairs, ("en", "de"))
    write_links(folder / "train", pairs, ("en", "de"))


def test_a_run_has_the_same_weights_with_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit, over several epochs, and when it is resumed."""
    write_text(tmp_path)
    monkeypatch.setattr(batches, "Worker", Ready)
    alone = Trainer(settings(0), tmp_path, tmp_path / "alone").train()
    collated: list[Part] = []
    batch = Examples.batch

    def counted(self: Examples, part: Part) -> Batch:
        collated.append(part)
        return batch(self, part)

    monkeypatch.setattr(Examples, "batch", counted)
    run = tmp_path / "ahead"
    Trainer(settings(1, "training.steps=10"), tmp_path, run).train()
    ahead = Trainer(settings(1), tmp_path, run, resume=True).train()
    assert len(collated) < 10, "nearly all parts were collated by other processes"
    weights, right = (run / "model.safetensors" for run in (ahead, alone))
    assert weights.read_bytes() == right.read_bytes()


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        # Each starts a command that trains, and processes of it.
        *(
            pytest.param(other, marks=pytest.mark.thorough)
            for other in (signal.SIGKILL, signal.SIGINT)
        ),
    ],
    ids=str,
)
def test_no_process_outlives_the_trainer(tmp_path: Path, number: signal.Signals) -> None:
    """Not even if all get the signal at once, as from a terminal or a job scheduler."""
    write_text(tmp_path)
    words = ["train", "--config", str(tmp_path / "recipe.toml"), "--data-dir", str(tmp_path)]
    words += ["--out", str(tmp_path / "run"), "--set", "training.steps=100000"]
    (tmp_path / "recipe.toml").write_text(
        "[model]\npreset = 'tiny'\n[vocabulary]\nsize = 320\n[data]\ntrain = ['train']\n"
        "[training]\nsteps = 100_000\nbatch_tokens = 200\nwarmup_steps = 5\n"
        "log_every_steps = 1\nbatch_processes = 1\n"
    )
    trainer = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "dragoman", *words],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    wait_for(lambda: len(children(trainer.pid)) >= 2 or trainer.poll() is not None)
    if number != signal.SIGKILL:  # while modules are imported, Python may ignore an interrupt
        log = tmp_path / "run/log.jsonl"
        wait_for(lambda: (log.exists() and log.stat().st_size > 0) or trainer.poll() is not None)
    others = children(trainer.pid)
    if number == signal.SIGKILL:
        trainer.kill()
    else:
        os.killpg(trainer.pid, number)
    try:
        printed = trainer.communicate(timeout=240)[1].decode()
    except subprocess.TimeoutExpired:
        trainer.send_signal(signal.SIGABRT)  # prints where its threads are
        pytest.fail(trainer.communicate()[1].decode())
    finally:
        trainer.kill()
    wait_for(lambda: not any(map(alive, others)))
    if number == signal.SIGTERM:
        assert trainer.returncode == 0, printed
        assert (tmp_path / "run/final/model.safetensors").exists()
