"""The teacher of a run: reading it, and checking that it fits the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Tokenizer
from dragoman_training.config import RunConfig
from dragoman_training.run import checkpoint
from dragoman_training.steps.loss import Teacher


def read_teacher(config: RunConfig, tokenizer: Tokenizer, device: torch.device) -> Teacher | None:
    """Read the model of `training.teacher`, a bundle or a checkpoint; None if there is none.

    Args:
        config: of the run.
        tokenizer: of the run.
        device: to compute on.

    Raises:
        UsageError: the model cannot be read, has another vocabulary, or lacks a direction.
    """
    if config.training.teacher is None:
        return None
    folder = Path(config.training.teacher)
    teacher = checkpoint.load(folder)
    if any(map(_differ, _sides(teacher.tokenizer), _sides(tokenizer))):
        raise UsageError(
            f"training.teacher: {folder} has another vocabulary than the run: start the run with "
            "its tokenizer.model in --out, or from it with --start-from"
        )
    missing = [pair for pair in config.data.directions if pair not in teacher.config.directions]
    if missing:
        raise UsageError(
            f"training.teacher: {folder} does not translate {'-'.join(missing[0])}, which the run "
            "trains"
        )
    model = teacher.model.eval().requires_grad_(False).to(device)
    return Teacher(model, config.training.teacher_share)


def _sides(tokenizer: Tokenizer) -> Sequence[Tokenizer]:
    return (tokenizer, tokenizer.target)


def _differ(tokenizer: Tokenizer, other: Tokenizer) -> bool:
    return tokenizer.vocab_size != other.vocab_size or any(
        tokenizer.piece(entry) != other.piece(entry) for entry in range(tokenizer.vocab_size)
    )
