from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from dragoman_training.config import CorpusConfig, OptimisationConfig, RunConfig, resolve
from dragoman_training.network.architecture import ModelConfig
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.search import Translator
from dragoman_training.run import checkpoint
from dragoman_training.run.best_models import BestModels
from dragoman_training.run.checkpoint import Kept, Progress
from dragoman_training.run.evaluation import measure
from dragoman_training.run.run_log import RunLog
from dragoman_training.run.trainer import Trainer
from dragoman_training.run.validation import ValidationScores, learnt_parts
from dragoman_training.steps.gradients import Gradients, Losses
from dragoman_training.text.examples import Part
from dragoman_training.text.parallel_text import ParallelText, drawn_pairs, read_pairs
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Limits
from tests.conftest import CommandLine, files_no_larger_than
from tests.toy import reverse_pairs, write_pairs
from tests.unit.training.run.conftest import Trained
from tests.unit.training.run.small_runs import (
    SETTINGS,
    assert_average,
    assert_same_weights,
    command,
    log_of,
    losses,
    progress_file,
    progress_of,
    settings,
)


@pytest.mark.parametrize("dropout", [pytest.param(0.0, marks=pytest.mark.thorough), 0.2])
def test_a_run_resumes_in_a_later_epoch(text: Path, tmp_path: Path, dropout: float) -> None:
    few = (
        "data.train=[{prefix='train',max_pairs=10,weight=0.7}]",
        f"data.subword_dropout={dropout}",
    )
    Trainer(settings(15, *few), text, tmp_path / "whole").train()
    Trainer(settings(10, *few), text, tmp_path / "cut").train()
    resumed = Trainer(settings(15, *few), text, tmp_path / "cut", resume=True).train()
    progress = progress_of(tmp_path / "cut", 10)
    assert progress["epoch"] > 1
    assert progress["batches_of_epoch"] > 0
    assert_same_weights(resumed, tmp_path / "whole" / "final")


def test_a_checkpoint_of_a_former_version_can_be_resumed(
    text: Path, trained: Trained, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    trained(5, run)
    folder = run / "checkpoints" / "step-0000005"
    # It had PyTorch's generator state, and nothing about the best validation.
    state = safetensors.torch.load_file(folder / "optimizer.safetensors")
    state["random_state"] = torch.get_rng_state()
    safetensors.torch.save_file(state, folder / "optimizer.safetensors")
    progress = json.loads((folder / "progress.json").read_text())
    known = ("step", "epoch", "batches_of_epoch", "tgt_tokens", "elapsed_s")
    (folder / "progress.json").write_text(json.dumps({name: progress[name] for name in known}))
    Trainer(settings(10), text, run, resume=True).train()
    assert list(losses(run)) == [5, 10]


class Clock:
    """Each look at it takes a tenth of a second."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.1
        return self.now_s


def test_a_run_by_time_ends_in_time_and_counts_the_time_before_it_was_resumed(
    text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    words = ("training.minutes=0.2", "training.cooldown_minutes=0.1", "training.steps=1")
    run, clock = tmp_path / "run", Clock()
    final = Trainer(settings(1, *words), text, run, clock=clock).train()
    assert 0.15 * 60 < clock.now_s <= 0.25 * 60
    last = checkpoint.step_folders(run)[-1]
    progress = json.loads((last / "progress.json").read_text())
    assert 1 < progress["step"] == max(losses(run)) == max(losses(run, "valid"))
    assert 0.15 * 60 < progress["elapsed_s"] <= 0.2 * 60
    assert final == run / "final"
    # The same limit leaves less than a second, twice the limit leaves the time of the first run.
    clock = Clock()
    Trainer(settings(1, *words), text, run, resume=True, clock=clock).train()
    assert clock.now_s < 0.05 * 60
    Trainer(settings(1, "training.minutes=0.1"), text, run, resume=True, clock=Clock()).train()
    assert "nothing is left to do: give more than 0.1 training.minutes" in caplog.text
    clock, words = Clock(), ("training.minutes=0.4", *words[1:])
    Trainer(settings(1, *words), text, run, resume=True, clock=clock).train()
    assert 0.15 * 60 < clock.now_s <= 0.25 * 60
    assert max(losses(run)) > progress["step"]


def test_a_short_run_by_the_real_clock_ends_in_time(text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trainer = Trainer(settings(1, "training.minutes=0.02"), text, run)
    begin = time.monotonic()
    trainer.train()
    took_s = time.monotonic() - begin
    progress = progress_of(run, max(losses(run)))
    assert progress["step"] > 1
    # The last step began in time; how long it and the rest took, a busy machine decides.
    assert 0.0 < progress["elapsed_s"] < took_s < 60


@pytest.mark.parametrize(
    "words",
    [
        [],
        # Another command that trains; a run by time ends by the same code.
        pytest.param(["training.minutes=60"], marks=pytest.mark.thorough),
    ],
)
def test_sigterm_finishes_the_step_and_writes_the_model(
    text: Path, tmp_path: Path, words: list[str]
) -> None:
    run, words = tmp_path / "run", ["training.steps=100000", *words]
    process = subprocess.Popen(
        [sys.executable, *command(text, run, *words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None and not checkpoint.step_folders(run):
        time.sleep(0.002)
    process.terminate()
    printed, logged = process.communicate()
    assert (process.returncode, printed.strip()) == (0, str(run / "final")), logged
    last = checkpoint.step_folders(run)[-1]
    step = json.loads((last / "progress.json").read_text())["step"]
    assert f"SIGTERM: the run ends after step {step}; --resume continues it" in logged
    assert_average(run / "final", checkpoint.step_folders(run)[-2:])
    assert max(losses(run)) == step
    Trainer(settings(step + 5), text, run, resume=True).train()
    assert max(losses(run)) == step + 5


def test_the_end_of_a_run_by_time_is_checked() -> None:
    for words, message in (
        (["training.minutes=0"], r"training\.minutes is 0\.?0?: give a number above 0"),
        (["training.cooldown_minutes=1"], r"cooldown_minutes is 1\.?0?: give training.minutes too"),
        (["training.minutes=1", "training.cooldown_minutes=-2"], "give a number from 0"),
        (["training.minutes=1", "training.cooldown_steps=2"], "set it to 0, and give"),
    ):
        with pytest.raises(UsageError, match=message) as raised:
            resolve(None, words)
        assert "\n" not in str(raised.value)


def test_a_run_resumes_with_another_optimizer(
    text: Path, trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    trained(10, run)
    with caplog.at_level("INFO"):
        Trainer(settings(20, "training.optimizer=muon"), text, run, resume=True).train()
    # Its layers of encoder and decoder have 5 and 8 matrices.
    assert "13 parameters start without optimizer state" in caplog.text
    kept = safetensors.torch.load_file(run / "checkpoints/step-0000020/optimizer.safetensors")
    assert sum(name.endswith("momentum_buffer") for name in kept) == 13
    assert kept["0.step"] == 20  # the embedding is always updated by Adam
    by_step = losses(run)
    assert by_step[20] < by_step[10]


def test_a_step_in_parts_equals_the_whole_step(text: Path, tmp_path: Path) -> None:
    # So few pairs that each step has them all, whatever their order.
    words = ["data.train=[{prefix='train',max_pairs=15}]", "training.batch_tokens=1000"]
    # Rounding errors grow from step to step; a low learning rate in fp32 keeps them small.
    words += ["training.precision=fp32", "training.peak_learning_rate=1e-3", "model.dropout=0.0"]
    Trainer(settings(10, *words), text, tmp_path / "whole").train()
    Trainer(settings(10, *words, "training.part_tokens=60"), text, tmp_path / "parts").train()
    assert losses(tmp_path / "parts") == pytest.approx(losses(tmp_path / "whole"), abs=2e-4)
    by_step = losses(tmp_path / "parts", "valid")
    assert by_step == pytest.approx(losses(tmp_path / "whole", "valid"), abs=2e-4)


def test_a_number_of_processes_without_torchrun_is_refused(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="WORLD_SIZE is '2' without RANK: start with torchrun"):
        Trainer(settings(5), text, tmp_path / "run")
    monkeypatch.setenv("WORLD_SIZE", "two")
    with pytest.raises(UsageError, match="WORLD_SIZE is 'two' without RANK"):
        Trainer(settings(5), text, tmp_path / "run")
    monkeypatch.delenv("WORLD_SIZE")
    for name in ("RANK", "LOCAL_RANK", "MASTER_PORT"):
        monkeypatch.setenv(name, "x")
        with pytest.raises(UsageError, match=f"{name} is 'x': start with torchrun, or unset it"):
            Trainer(settings(5), text, tmp_path / "run")
        monkeypatch.delenv(name)


def test_a_full_disk_leaves_the_last_good_checkpoint(
    text: Path, trained: Trained, tmp_path: Path
) -> None:
    trained(20, tmp_path / "whole")
    run = tmp_path / "run"
    trained(10, run)
    trainer = Trainer(settings(20), text, run, resume=True)
    with files_no_larger_than(100_000), pytest.raises(UsageError, match="cannot be written"):
        trainer.train()
    assert checkpoint.step_folders(run)[-1].name == "step-0000010"
    Trainer(settings(20), text, run, resume=True).train()
    assert_same_weights(
        checkpoint.step_folders(run)[-1], tmp_path / "whole/checkpoints/step-0000020"
    )


def test_a_full_disk_for_the_log_is_reported_in_one_line(text: Path, tmp_path: Path) -> None:
    trainer = Trainer(settings(100, "training.checkpoint_every_steps=100"), text, tmp_path / "run")
    with files_no_larger_than(400), pytest.raises(UsageError, match="cannot be written") as raised:
        trainer.train()
    assert "\n" not in str(raised.value)
    assert 0 < (tmp_path / "run/log.jsonl").stat().st_size <= 400


def test_a_checkpoint_of_another_size_is_refused(
    text: Path, trained: Trained, tmp_path: Path
) -> None:
    trained(5, tmp_path / "run")
    with pytest.raises(UsageError, match=r"step-0000005/model\.safetensors: .* has shape"):
        Trainer(settings(10, "model.model_size=32"), text, tmp_path / "run", resume=True)


PATIENCE = "training.stop_after_validations=2"
OFTEN = "training.validate_every_steps=5"


def patient(steps: int) -> RunConfig:
    """The settings of a run that stops early, because it soon gets worse."""
    return settings(steps, "training.peak_learning_rate=0.3", PATIENCE, OFTEN)


@pytest.fixture(scope="module")
def stopped(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has stopped."""
    run = tmp_path_factory.mktemp("stopped") / "run"
    Trainer(patient(500), text, run).train()
    return run


def test_training_stops_when_it_no_longer_improves(
    text: Path, stopped: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(stopped, tmp_path / "run"))
    by_step = losses(run, "valid")
    best = min(by_step, key=lambda step: by_step[step])
    assert max(by_step) == best + 10 < 500
    assert_same_weights(run / "final", run / "checkpoints" / f"step-{best:07d}")
    # A resumed run asks the same question again, and gets the same answer.
    Trainer(patient(500), text, run, resume=True).train()
    assert losses(run, "valid") == by_step


def test_a_validation_translates_on_request(text: Path, tmp_path: Path) -> None:
    words = [f"training.{word}" for word in ("stop_on=bleu", "average_last=1")]
    words += ["training.valid_bleu_sentences=5", "training.validate_every_steps=30"]
    words += ["training.peak_learning_rate=1e-2", "data.valid.0.max_pairs=12"]
    run = tmp_path / "run"
    final = Trainer(settings(60, *words), text, run).train()
    logged = [entry["bleu"] for entry in log_of(run) if entry["kind"] == "valid"]
    assert len(logged) == 2
    model = checkpoint.load(final)
    translator = Translator(model.model, model.tokenizer, Limits(), beam_width=1)
    whole = read_pairs(text / "valid", ("en", "de"))
    pairs = list(drawn_pairs(ParallelText(whole, ("en", "de"), max_pairs=12)))[:5]
    assert pairs != whole[:5]
    right = []
    for src, tgt, language in ((0, 1, "de"), (1, 0, "en")):
        translated = translator.translate([pair[src] for pair in pairs], language)
        texts = [model.tokenizer.decode(hypothesis.ids) for hypothesis in translated]
        right.append(measure(texts, [pair[tgt] for pair in pairs]).bleu)
    assert logged[-1] == pytest.approx(sum(right) / 2, abs=0.01)
    assert logged[-1] > 0
    with pytest.raises(UsageError, match=r"give training\.valid_bleu_sentences too"):
        settings(5, "training.stop_on=bleu")


def test_a_run_leaves_its_settings_log_and_average(trained: Trained, tmp_path: Path) -> None:
    final = trained(20, tmp_path / "run")
    assert checkpoint.load(final).config == settings(20)
    entries = log_of(tmp_path / "run")
    assert [e["step"] for e in entries if e["kind"] == "valid"] == [10, 20]
    losses = [e["loss"] for e in entries if e["kind"] == "train"]
    assert losses[-1] < losses[0]
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("train/loss")] == [5, 10, 15, 20]
    shown = [event.value for event in events.Scalars("train/loss")]
    assert shown == pytest.approx(losses, abs=1e-4)
    assert [event.step for event in events.Scalars("valid/loss")] == [10, 20]
    assert_average(final, checkpoint.step_folders(tmp_path / "run")[-2:])


def test_a_folder_in_use_is_not_overwritten(text: Path, trained: Trained, tmp_path: Path) -> None:
    trained(5, tmp_path / "run")
    with pytest.raises(UsageError, match="has a run already"):
        Trainer(settings(5), text, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    for resume in (False, True):
        with pytest.raises(UsageError, match="has a model but no checkpoint to resume from"):
            Trainer(settings(5), text, tmp_path / "run", resume=resume)


def test_an_existing_vocabulary_is_used_and_reported(
    text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run"
    caplog.set_level("INFO")
    Trainer(settings(5), text, run)
    assert "using the existing vocabulary" not in caplog.text
    Trainer(settings(5), text, run)
    assert f"using the existing vocabulary {run / 'tokenizer.model'}" in caplog.text
    with pytest.raises(
        UsageError, match=r"entries; set vocabulary\.size to that, or remove the file"
    ):
        Trainer(settings(5, "vocabulary.size=330"), text, run)


def test_one_command_trains_on_the_users_files(
    text: Path, tmp_path: Path, cli: CommandLine
) -> None:
    words = ["train", "--text", str(text / "train.en"), str(text / "train.de")]
    options = [f"--set={setting}" for setting in (*SETTINGS, "training.steps=5")]
    final = Path(cli.prints(*words, "--out", tmp_path / "run", *options).strip())
    assert checkpoint.load(final).config.data.languages == ("en", "de")


def test_the_users_validation_text_keeps_a_recipes_training_text(
    text: Path, tmp_path: Path, cli: CommandLine
) -> None:
    words = ["train", "--data-dir", str(text), "--out", str(tmp_path / "run")]
    words += ["--valid-text", str(text / "valid.de"), str(text / "valid.en")]
    words += [f"--set={word}" for word in (*SETTINGS, "training.steps=5", 'data.train=["train"]')]
    data = checkpoint.load(Path(cli.prints(*words).strip())).config.data
    assert data.train == (CorpusConfig("train", ("en", "de")),)
    assert data.valid == (CorpusConfig(str(text / "valid"), ("de", "en")),)


def test_the_users_text_replaces_a_recipes_text(tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('[data]\ntrain = ["a"]\nvalid = ["b"]\njoined_share = 0.5\n')
    data = resolve(recipe, [], {"train": ["mine"], "valid": []}).data
    assert (data.train, data.valid) == ((CorpusConfig("mine", ("en", "de")),), ())
    assert data.joined_share == 0.5
    assert resolve(recipe, ["data.joined_share=0.2"]).data.joined_share == 0.2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x"], "data.train is empty"),
        (["--out", "x", "--set", "model.hedas=2"], "unknown key 'hedas'"),
        (["--out", "x", "--set", "model.preset=huge"], "unknown preset 'huge'"),
        (["--out", "x", "--config", "none.toml"], "none.toml: cannot be read"),
        (["--out", "x", "--text", "a.en", "b.de"], "name them alike"),
        (["--out", "file/x"], "--out file/x: file is a file; name a folder"),
        (["--out", "x", "--set", 'data.train=[""]'], "the corpus '': names no text"),
        (["--out", "x", "--text", "a.en", "a.de"], "a.en: no such file"),
        (["--out", "/proc/x", "--text", "my.en", "my.de"], "/proc/x: cannot be written"),
        (["--out", "x", "--set", "training.steps=0"], "training.steps is 0"),
        (["--out", "x", "--text", "my.en", "my.de", "--set", "training.steps=x"], "expected int"),
        (["--out", "x", "--text", "my.en", "my.de", "--set", "training.batch_tokens=0"], "is 0"),
        (["--out", "x", "--text", "my.en", "my.de", "--set", "vocabulary=5"], "expected a table"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cli: CommandLine,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for name in ("my.en", "my.de"):
        (tmp_path / name).write_text("text\n")
    printed = cli.refuses("train", *words)
    assert message in printed
    assert printed.count("\n") == 1


def best_of(run: Path, step: int) -> tuple[float | None, str | None, int]:
    """A checkpoint's record of the best validation."""
    progress = progress_of(run, step)
    return progress["best"], progress["best_metric"], progress["validations_since_best"]


def test_a_best_value_of_another_metric_is_discarded(text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    bleu = ("training.stop_on=bleu", "training.valid_bleu_sentences=5", PATIENCE, OFTEN)
    Trainer(settings(5, *bleu), text, run).train()
    best, metric, _ = best_of(run, 5)
    assert best is not None
    assert (best >= 0, metric) == (True, "bleu")  # a negative loss is never better than a BLEU
    Trainer(settings(10, PATIENCE, OFTEN), text, run, resume=True).train()
    best, *others = best_of(run, 10)
    assert best == pytest.approx(-losses(run, "valid")[10], abs=1e-3)
    assert others == ["loss", 0]
    # Without patience nothing is kept, so with it there is no earlier best.
    Trainer(settings(15, OFTEN), text, run, resume=True).train()
    assert best_of(run, 15) == (None, None, 0)
    final = Trainer(settings(20, PATIENCE, OFTEN), text, run, resume=True).train()
    assert_same_weights(final, run / "checkpoints/step-0000020")


def test_a_best_value_whose_model_is_missing_is_discarded(text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    Trainer(settings(5, PATIENCE, OFTEN), text, run).train()
    shutil.rmtree(run / "best")
    words = (PATIENCE, OFTEN, "training.peak_learning_rate=10.0")  # from here on it only gets worse
    final = Trainer(settings(10, *words), text, run, resume=True).train()
    assert_same_weights(final, run / "checkpoints/step-0000010")


def test_a_stopped_run_continues_when_it_is_extended(
    text: Path, stopped: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = Path(shutil.copytree(stopped, tmp_path / "run"))
    last = max(losses(run, "valid"))
    caplog.set_level("INFO")
    Trainer(patient(500), text, run, resume=True).train()
    assert "nothing is left to do: 2 validations were no better" in caplog.text
    Trainer(patient(510), text, run, resume=True).train()
    assert max(losses(run, "valid")) > last
    steps = max(losses(run))
    Trainer(settings(steps), text, run, resume=True).train()
    assert f"nothing is left to do: give more than {steps} training.steps" in caplog.text


def test_another_plan_starts_the_next_epoch(
    text: Path, trained: Trained, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name, words in (
        ("same", ()),
        ("other", ("training.batch_tokens=220",)),
        ("parts", ("training.part_tokens=100",)),
        ("seed", ("training.seed=2",)),
        ("weight", ("data.train=[{prefix='train',weight=0.9}]",)),
    ):
        run = tmp_path / name
        trained(5, run)
        caplog.clear()
        Trainer(settings(10, *words), text, run, resume=True).train()
        said = "starting epoch 2" in caplog.text
        progress = progress_of(run, 10)
        state = said, progress["epoch"], progress["batches_of_epoch"]
        assert state == ((True, 1, 5) if words else (False, 0, 10)), name
        (pairs,) = progress["drawn"]
        assert pairs == {"same": 800, "weight": 800 + 720}.get(name, 1600), name


def test_a_checkpoint_without_a_record_of_sampled_text_can_be_resumed(
    text: Path, trained: Trained, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    trained(5, run)
    shutil.copytree(run, former := tmp_path / "former")
    progress = progress_of(former, 5)
    del progress["drawn"]
    progress_file(former, 5).write_text(json.dumps(progress))
    finals = [Trainer(settings(10), text, folder, resume=True).train() for folder in (run, former)]
    assert_same_weights(*finals)


def test_other_text_in_the_same_files_starts_the_next_epoch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    run = tmp_path / "run"
    write_pairs(tmp_path / "train", reverse_pairs(400, seed=1), ("en", "de"))
    write_pairs(tmp_path / "valid", reverse_pairs(20, seed=2), ("en", "de"))
    Trainer(settings(5), tmp_path, run).train()
    write_pairs(tmp_path / "train", reverse_pairs(380, seed=3), ("en", "de"))
    # A checkpoint of an earlier version has no record of the text, and so of no change.
    path, progress = progress_file(run, 5), progress_of(run, 5)
    path.write_text(json.dumps({**progress, "text": None}))
    Trainer(settings(10), tmp_path, run, resume=True)
    assert "begins" not in caplog.text
    path.write_text(json.dumps(progress))
    Trainer(settings(10), tmp_path, run, resume=True).train()
    assert "the text, batches or processes changed: starting epoch 2" in caplog.text


def test_a_step_is_no_larger_than_its_limit(text: Path, trained: Trained, tmp_path: Path) -> None:
    trained(10, tmp_path / "whole")
    Trainer(settings(10, "training.part_tokens=700"), text, tmp_path / "parts").train()
    assert_same_weights(tmp_path / "parts/final", tmp_path / "whole/final")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_non_finite_gradients_damage_no_checkpoint(
    text: Path, tmp_path: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole = tmp_path / "run", Gradients.add_up
    words = (f"training.precision={precision}", "training.checkpoint_every_steps=1")

    def add_up(
        self: Gradients, parts: Sequence[Part], step: int, *rest: float | Sequence[Part]
    ) -> Losses:
        value = whole(self, parts, step, *rest)  # type: ignore[arg-type]
        if step == 3:
            first = next(self._model.parameters())
            first.grad = torch.full_like(first, math.inf)
        return value

    monkeypatch.setattr(Gradients, "add_up", add_up)
    message = r"step 3: the loss is \d.*, and its gradients' norm (nan|inf); lower training.peak"
    with pytest.raises(UsageError, match=message):
        Trainer(settings(5, *words), text, run).train()
    newest = checkpoint.step_folders(run)[-1]
    assert newest.name == "step-0000002"
    for tensor in checkpoint.load(newest).model.state_dict().values():
        assert torch.isfinite(tensor).all()


def test_models_that_are_no_longer_averaged_are_not_the_result(text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    Trainer(settings(10, "training.average_best=1"), text, run).train()
    final = Trainer(settings(20), text, run, resume=True).train()
    assert_average(final, checkpoint.step_folders(run)[-2:])


def test_only_the_requested_number_of_best_models_is_kept(tmp_path: Path) -> None:
    best, written = best_models(tmp_path, OptimisationConfig(average_best=1))
    for step in (1, 2):
        (tmp_path / f"best-models/step-{step:07d}").mkdir(parents=True)
    kept = (Kept(2, -0.5, "loss"), Kept(1, -0.7, "loss"))
    assert best.still_known(Progress(kept=kept)).kept == kept[:1]
    assert written == []


def test_a_non_finite_validation_is_never_the_best(tmp_path: Path) -> None:
    config = OptimisationConfig(average_best=2, stop_after_validations=3)
    best, written = best_models(tmp_path, config)
    progress = Progress(step=1)
    for step, loss in enumerate((math.nan, 0.9, math.inf, math.nan, 0.8), start=1):
        progress = replace(progress, step=step)
        progress = best.after_validation(progress, ValidationScores(loss, {}, None))
        assert progress.validations_since_best == {1: 1, 3: 1, 4: 2}.get(step, 0)
    assert progress.best == -0.8
    assert [kept.step for kept in progress.kept] == [5, 2]
    folders = [folder.name for folder in written]
    assert folders == ["step-0000002", "best", "step-0000005", "best"]
    spoilt = replace(progress, best=math.nan, kept=(Kept(1, math.nan, "loss"), *progress.kept))
    known = best.still_known(spoilt)
    assert (known.best, [kept.step for kept in known.kept]) == (None, [5, 2])


def best_models(run: Path, config: OptimisationConfig) -> tuple[BestModels, list[Path]]:
    """The best models of a run, and the list of folders that it writes."""
    written: list[Path] = []

    def write(folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        written.append(folder)

    return BestModels(run, config, write), written


def test_validations_distinguish_corpora_of_one_prefix(tmp_path: Path) -> None:
    pairs = reverse_pairs(40, seed=3)
    for language, side in (("en", 0), ("de", 1), ("fr", 0)):
        lines = "".join(f"{pair[side]}\n" for pair in pairs)
        for prefix in ("all", "held"):
            (tmp_path / f"{prefix}.{language}").write_text(lines)
    run = tmp_path / "run"
    train = "train=[{prefix='all',languages=['en','de']},{prefix='all',languages=['de','fr']}]"
    valid = "{prefix='held',languages=['en','de']},{prefix='held',languages=['de','fr']}"
    words = ["data.languages=['en','de','fr']", f"data.{train}", "vocabulary.size=321"]
    words += [f"data.valid=[{valid},'held']", "training.valid_bleu_sentences=3"]
    config = resolve(None, [*SETTINGS, "training.steps=10", *words])
    Trainer(config, tmp_path, run).train()
    (entry,) = (entry for entry in log_of(run) if entry["kind"] == "valid")
    by_corpus = entry["corpora"]
    assert list(by_corpus) == ["held en-de", "held de-fr", "held en-de-fr"]
    # The model is not trained on English to French, so the third equals the first two.
    both = sorted((by_corpus["held en-de"], by_corpus["held de-fr"]))
    assert both[0] <= by_corpus["held en-de-fr"] <= both[1]
    whole = ParallelText([("a", "b", "c")], ("en", "de", "fr"))
    back = [("de", "en"), ("en", "de"), ("fr", "de")]
    (first, second) = learnt_parts(whole, back)
    assert (first.languages, first.one_way) == (("en", "de"), False)
    assert (second.languages, second.one_way, second.pairs) == (("fr", "de"), True, [("c", "b")])
    parts = learnt_parts(whole, config.data.directions)
    assert [(part.pairs, part.languages) for part in parts] == [
        ([("a", "b")], ("en", "de")),
        ([("b", "c")], ("de", "fr")),
    ]
    some = ParallelText([("a", "b", "c")] * 5, ("en", "de", "fr"), max_pairs=2)
    assert [part.max_pairs for part in learnt_parts(some, config.data.directions)] == [2, 2]


def test_held_out_text_without_a_complete_pair_is_refused_in_one_line(tmp_path: Path) -> None:
    write_pairs(tmp_path / "train", reverse_pairs(100, seed=1), ("en", "de"))
    write_pairs(tmp_path / "valid", [("one", " ")], ("en", "de"))
    with pytest.raises(UsageError, match="valid: every pair has an empty side"):
        Trainer(settings(5), tmp_path, tmp_path / "run")


def test_patience_requires_validation_text(tmp_path: Path) -> None:
    words = (PATIENCE, "data.valid=['long']", "data.max_length_tokens=20")
    write_pairs(tmp_path / "train", reverse_pairs(100, seed=1), ("en", "de"))
    write_pairs(tmp_path / "long", [("red " * 50, "blue")], ("en", "de"))
    with pytest.raises(UsageError, match=r"no text in data\.valid is in a trained direction"):
        Trainer(settings(5, *words), tmp_path, tmp_path / "run")


def test_a_damaged_log_is_continued(text: Path, trained: Trained, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained(5, run)
    with (run / "log.jsonl").open("ab") as file:
        file.write(b'{"kind": "tr\xff\x00\n[]\n7\n{"step": "x"}\n{}\n')
    Trainer(settings(10), text, run, resume=True).train()
    assert list(losses(run)) == [5, 10]


def test_a_very_large_loss_is_logged(tmp_path: Path) -> None:
    with RunLog(tmp_path, Progress(step=1)) as run_log:
        run_log.report_validation(Progress(step=1), ValidationScores(1e4, {}, None))
    assert losses(tmp_path, "valid") == {1: 1e4}


def test_fp16_trains_and_resumes_to_the_same_weights(
    text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    words = ("training.precision=fp16", "training.batch_tokens=60")
    caplog.set_level("INFO")
    Trainer(settings(10, *words), text, tmp_path / "whole").train()
    by_step = losses(tmp_path / "whole")
    assert by_step[10] < by_step[5]
    Trainer(settings(5, *words), text, tmp_path / "cut").train()
    Trainer(settings(10, *words), text, tmp_path / "cut", resume=True).train()
    assert_same_weights(tmp_path / "cut/final", tmp_path / "whole/final")
    Trainer(settings(10, words[1], "training.precision=bf16"), text, tmp_path / "bf16").train()
    assert by_step[10] == pytest.approx(losses(tmp_path / "bf16")[10], abs=0.1)


def test_a_step_beyond_fp16_is_skipped_and_the_scale_kept(text: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("training.precision=fp16", "training.batch_tokens=60", "training.log_every_steps=1")
    Trainer(settings(5, *words), text, run).train()
    path, progress = progress_file(run, 5), progress_of(run, 5)
    assert progress["loss_scale"] == {"value": 65536.0, "good_steps": 5, "skipped_steps": 0}
    # As after a long growth; fp16 gradients do not reach that.
    progress["loss_scale"]["value"] = 2.0**27
    path.write_text(json.dumps(progress))
    Trainer(settings(15, *words), text, run, resume=True).train()
    after, entries = progress_of(run, 15)["loss_scale"], log_of(run)
    (last,) = (entry for entry in entries if (entry["kind"], entry["step"]) == ("train", 15))
    assert last["skipped_steps"] == after["skipped_steps"] > 0
    assert after["value"] == 2.0 ** (27 - after["skipped_steps"])
    assert all(math.isfinite(entry["loss"]) for entry in entries)
    for tensor in checkpoint.load(run / "final").model.state_dict().values():
        assert torch.isfinite(tensor).all()


def test_the_best_validations_are_averaged(text: Path, tmp_path: Path) -> None:
    words = ["training.peak_learning_rate=0.05", "training.validate_every_steps=5"]
    words += ["training.average_best=3"]
    run = tmp_path / "run"
    final = Trainer(settings(40, *words), text, run).train()
    by_step = losses(run, "valid")
    best = sorted(by_step, key=lambda step: by_step[step])[:3]
    assert sorted(best) != [30, 35, 40], "the last ones would be the same"
    folders = sorted((run / "best-models").iterdir())
    assert [folder.name for folder in folders] == [f"step-{step:07d}" for step in sorted(best)]
    assert_average(final, folders)
    # A run that was interrupted, even if a kept model was lost, gives the same result.
    cut = tmp_path / "cut"
    Trainer(settings(20, *words), text, cut).train()
    assert len(progress_of(cut, 20)["kept"]) == 3
    Trainer(settings(40, *words), text, cut, resume=True).train()
    assert_same_weights(cut / "final", final)
    shutil.rmtree(folders[0])
    Trainer(settings(40, *words), text, run, resume=True).train()
    assert_average(final, folders[1:])
    with pytest.raises(UsageError, match=r"training\.average_best: give a corpus in data\.valid"):
        resolve(None, ["training.average_best=2"])


def test_the_size_that_did_not_fit_the_memory_is_remembered(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    whole = Transformer.forward

    def forward(self: Transformer, src: Tensor, mask: Tensor, tgt: Tensor) -> Tensor:
        if torch.is_grad_enabled() and src.size(0) * max(src.size(1), tgt.size(1)) > 60:
            raise torch.OutOfMemoryError("no memory is left")
        return whole(self, src, mask, tgt)

    run = tmp_path / "run"
    monkeypatch.setattr(Transformer, "forward", forward)
    Trainer(settings(5), text, run).train()
    assert "continuing with" in caplog.text
    assert 1 < progress_of(run, 5)["most_tokens"] <= 60
    caplog.clear()
    Trainer(settings(10), text, run, resume=True).train()
    assert "continuing with" not in caplog.text
    assert losses(run)[10] < losses(run)[5]
    Trainer(settings(15, "training.part_tokens=50"), text, run, resume=True).train()
    assert progress_of(run, 15)["most_tokens"] is None, "another size of the parts forgets it"


def test_a_validation_is_split_if_memory_is_too_small(
    text: Path, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(5, tmp_path / "whole")
    whole, sizes = Transformer.forward, list[int]()

    def forward(self: Transformer, src: Tensor, mask: Tensor, tgt: Tensor) -> Tensor:
        size = src.size(0) * max(src.size(1), tgt.size(1))
        if not torch.is_grad_enabled():
            sizes.append(size)
            if size > 60:
                raise torch.OutOfMemoryError("no memory is left")
        return whole(self, src, mask, tgt)

    monkeypatch.setattr(Transformer, "forward", forward)
    Trainer(settings(5), text, tmp_path / "cut").train()
    assert max(sizes) > 60
    right = losses(tmp_path / "whole", "valid")
    assert losses(tmp_path / "cut", "valid") == pytest.approx(right, abs=2e-4)
    sizes.clear()
    Trainer(settings(5, "training.part_tokens=50"), text, tmp_path / "parts").train()
    assert 0 < max(sizes) <= 50, "no more at a time than training has"


@pytest.mark.parametrize("when", ["at the start", "in a step"])
def test_too_little_memory_is_reported_in_one_line(
    text: Path, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["model.feed_forward_size=1_000_000_000_000"] if when == "at the start" else []

    def forward(_self: Transformer, *_inputs: Tensor) -> Tensor:
        return torch.empty(10**15)  # more memory than any machine has

    monkeypatch.setattr(Transformer, "forward", forward)
    with pytest.raises(UsageError, match="the memory of cpu is too small for the model") as raised:
        Trainer(settings(10, *words), text, tmp_path / "run").train()
    assert "\n" not in str(raised.value)


@pytest.mark.thorough
@pytest.mark.parametrize("decoder", ["attention", "ssru"])
def test_a_compiled_model_trains_the_same_in_few_graphs(
    decoder: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Compiling the graphs to machine code takes minutes; errors would be in the graphs.
    graphs, compile_module = [], Transformer.compile

    def without_code(graph: torch.fx.GraphModule, _inputs: list[Tensor]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    def compile_without_code(self: Transformer, dynamic: bool) -> None:
        compile_module(self, dynamic=dynamic, backend=without_code)

    # Compiled code uses PyTorch's own dropout, which drops other values.
    words = ["training.precision=fp32", "training.peak_learning_rate=1e-3", "model.dropout=0.0"]
    words += ["alignment.weight=0.1", f"model.decoder={decoder}"]
    Trainer(settings(10, *words), text, tmp_path / "plain").train()
    monkeypatch.setattr(Transformer, "compile", compile_without_code)
    Trainer(settings(10, *words), text, tmp_path / "none").train()
    assert graphs == []
    Trainer(settings(10, *words, "training.compile=true"), text, tmp_path / "compiled").train()
    assert len(graphs) == 2, "one to learn, one to validate, for ten steps of ten shapes"
    for name in ("loss", "alignment_loss"):
        compiled, right = (losses(tmp_path / run, name=name) for run in ("compiled", "plain"))
        assert compiled == pytest.approx(right, abs=1e-4)
    graphs.clear()
    model = Transformer(ModelConfig(encoder_layers=1, decoder_layers=1, dropout=0.1)).train()
    model.compile(dynamic=True)
    for rows, length in ((2, 5), (3, 7)):
        ids = torch.ones(rows, length, dtype=torch.int64)
        model(ids, ids > 0, ids)
    assert len(graphs) == 1, "dropout does not cut the graph"


def test_products_are_rounded_to_tf32_only_on_request(text: Path, tmp_path: Path) -> None:
    former = torch.get_float32_matmul_precision()
    try:
        Trainer(settings(1, "training.tf32=true"), text, tmp_path / "yes")
        assert torch.get_float32_matmul_precision() == "high"
        Trainer(settings(1), text, tmp_path / "no")
        assert torch.get_float32_matmul_precision() == "highest"
    finally:
        torch.set_float32_matmul_precision(former)
