from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from dragoman_training.config import RunConfig, resolve
from dragoman_training.run import checkpoint
from dragoman_training.run.teacher import read_teacher
from dragoman_training.run.trainer import Trainer
from dragoman_training.text.vocabulary import train_vocabulary

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Tokenizer
from tests.toy import reverse_pairs, write_pairs

CPU = torch.device("cpu")


def settings(steps: int, *words: str) -> RunConfig:
    given = ["model.preset=tiny", "vocabulary.size=320", "training.batch_tokens=200"]
    given += ["training.warmup_steps=10", "training.average_last=1", f"training.steps={steps}"]
    return resolve(None, [*given, *words], {"train": ["train"], "valid": ["valid"]})


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, and the folder `teacher/final` with a model that was trained on it."""
    folder = tmp_path_factory.mktemp("text")
    write_pairs(folder / "train", reverse_pairs(200, seed=1), ("en", "de"))
    write_pairs(folder / "valid", reverse_pairs(30, seed=2), ("en", "de"))
    Trainer(settings(60, "training.peak_learning_rate=4e-3"), folder, folder / "teacher").train()
    return folder


def run_with_vocabulary(text: Path, run: Path) -> Path:
    run.mkdir()
    shutil.copy(text / "teacher" / "tokenizer.model", run)
    return run


@pytest.mark.thorough
def test_a_small_student_comes_near_to_its_teacher(text: Path, tmp_path: Path) -> None:
    """Nearer than a student of the same text without it, in the distributions of valid text."""
    words = ["model.encoder_layers=1", "model.decoder_layers=1", "model.dropout=0.0"]
    words += ["training.peak_learning_rate=4e-3", "training.precision=fp32"]
    taught = [*words, f"training.teacher={text / 'teacher/final'}", "training.teacher_share=1.0"]
    teacher = checkpoint.load(text / "teacher" / "final")
    divergences = []
    for name, given in (("alone", words), ("taught", taught)):
        run = run_with_vocabulary(text, tmp_path / name)
        student = checkpoint.load(Trainer(settings(80, *given), text, run).train())
        total = 0.0
        for english, german in reverse_pairs(30, seed=2):
            src = torch.tensor([teacher.tokenizer.encode_source(english, "de")])
            tgt = torch.tensor([[1, *teacher.tokenizer.encode(german)]])
            theirs, ours = (
                model.project(model(src, src > 0, tgt)).log_softmax(-1).detach()
                for model in (teacher.model, student.model)
            )
            total += (theirs.exp() * (theirs - ours)).sum().item()
        divergences.append(total)
    assert divergences[1] < 0.9 * divergences[0]


def test_a_run_with_a_teacher_resumes_to_the_same_weights(text: Path, tmp_path: Path) -> None:
    words = (f"training.teacher={text / 'teacher/final'}", "training.part_tokens=100")
    whole = run_with_vocabulary(text, tmp_path / "whole")
    cut = run_with_vocabulary(text, tmp_path / "cut")
    right = Trainer(settings(8, *words), text, whole).train()
    Trainer(settings(5, *words), text, cut).train()
    resumed = Trainer(settings(8, *words), text, cut, resume=True).train()
    name = "model.safetensors"
    assert (resumed / name).read_bytes() == (right / name).read_bytes()
    assert "teacher" in (resumed / "config.json").read_text()


def test_a_teacher_that_does_not_fit_is_refused_in_one_line(text: Path, tmp_path: Path) -> None:
    folder = text / "teacher" / "final"
    tokenizer = Tokenizer(folder / "tokenizer.model")
    config = settings(1, f"training.teacher={folder}")
    assert read_teacher(settings(1), tokenizer, CPU) is None
    teacher = read_teacher(config, tokenizer, CPU)
    assert teacher is not None
    assert teacher.share == 0.5
    assert not teacher.model.training
    assert not any(weight.requires_grad for weight in teacher.model.parameters())
    sentences = [side for pair in reverse_pairs(300, seed=5) for side in pair]
    other = tmp_path / "other.model"
    train_vocabulary([*sentences, "yellow purple"] * 2, ("en", "de"), config.vocabulary, other)
    with pytest.raises(UsageError, match="has another vocabulary than the run: start") as raised:
        read_teacher(config, Tokenizer(other), CPU)
    assert "\n" not in str(raised.value)
    french = resolve(
        None,
        ["data.languages=['en','de','fr']", "data.train=['a']", f"training.teacher={folder}"],
    )
    with pytest.raises(UsageError, match="does not translate en-fr, which the run trains"):
        read_teacher(french, tokenizer, CPU)
    with pytest.raises(UsageError, match=r"nowhere/config\.json: cannot be read"):
        read_teacher(settings(1, "training.teacher=nowhere"), tokenizer, CPU)
    for share in ("0", "1.5"):
        with pytest.raises(UsageError, match=r"training\.teacher_share is .*: give a share above"):
            settings(1, f"training.teacher_share={share}")
