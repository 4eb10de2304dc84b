"""Checkpoints: folders that appear complete or not at all, and their average.

A checkpoint has `model.safetensors`, `config.json` and `tokenizer.model`; one that training can
resume from also has `optimizer.safetensors` and `progress.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Limits
from dragoman.kernel.settings import from_mapping
from dragoman.kernel.text import Tokenizer
from dragoman_training.config import RunConfig
from dragoman_training.network.transformer import Transformer
from dragoman_training.run import checkpoint_folder
from dragoman_training.run.checkpoint_folder import WEIGHTS
from dragoman_training.steps.loss_scale import LossScale
from dragoman_training.steps.optimizer import Optimizer

FINAL, BEST = "final", "best"
_OPTIMIZER, _PROGRESS = "optimizer.safetensors", "progress.json"
_RANDOM_STATE = "random_state"
"""In checkpoints of earlier versions; the dropout of each step now has its own seed."""


@dataclass(frozen=True)
class Kept:
    """A validation whose model is kept."""

    step: int
    quality: float
    """Higher is better."""
    metric: str
    """The metric of `quality`."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come."""

    step: int = 0
    epoch: int = 0
    batches_of_epoch: int = 0
    tgt_tokens: int = 0
    elapsed_s: float = 0.0
    best: float | None = None
    """Result of the best validation so far, higher is better; its model is the folder `best`."""
    best_metric: str | None = None
    """The metric of `best`."""
    validations_since_best: int = 0
    part_tokens: int | None = None
    """Tokens in a part of this epoch's steps; with the settings, it determines the batches."""
    kept: tuple[Kept, ...] = ()
    """The best validations, best first."""
    loss_scale: LossScale = field(default_factory=LossScale)
    """Of fp16."""
    most_tokens: int | None = None
    """Largest number of tokens that fits memory at once, if a part did not fit."""
    text: str | None = None
    """A digest of the encoded text; None in checkpoints of earlier versions."""
    drawn: tuple[int, ...] | None = None
    """Examples that this epoch and earlier ones draw from each corpus; None as for `text`."""


@dataclass(frozen=True)
class Checkpoint:
    """A model with everything needed to use it."""

    model: Transformer
    config: RunConfig
    tokenizer: Tokenizer
    limits: Limits
    """The limits of the bundle, if it is one."""


def save(
    folder: Path,
    weights: dict[str, Tensor],
    config: RunConfig,
    tokenizer: Path,
    optimizer: Optimizer | None = None,
    progress: Progress | None = None,
    tgt_tokenizer: Path | None = None,
) -> None:
    """Write a checkpoint completely or not at all; see `checkpoint_folder.save`.

    Raises:
        UsageError: the disk is full or cannot be written; an existing checkpoint is kept.
    """

    def save_files(partial: Path) -> None:
        safetensors.torch.save_file(weights, partial / WEIGHTS)
        if optimizer is not None and progress is not None:
            safetensors.torch.save_file(optimizer.state(), partial / _OPTIMIZER)
            (partial / _PROGRESS).write_text(json.dumps(asdict(progress)), encoding="utf-8")

    checkpoint_folder.save(folder, save_files, config, tokenizer, tgt_tokenizer)


def load(folder: Path) -> Checkpoint:
    """Read a checkpoint's model, in fp32 and evaluation mode.

    Raises:
        UsageError: a file is missing or damaged, its tensors do not fit the configuration, or a
            bundle does not match its manifest.
    """
    described = checkpoint_folder.describe(folder)
    model = Transformer(described.config.model).eval()
    load_weights(model, folder / WEIGHTS)
    return Checkpoint(model, described.config, described.tokenizer, described.limits)


def load_weights(model: Transformer, path: Path) -> None:
    """Fill a model from a safetensors file of any floating-point type, or int8 with scales.

    Raises:
        UsageError: the file is missing or damaged, or its names or shapes do not fit.
    """
    weights = _read_tensors(path)
    shapes = {name: tensor.shape for name, tensor in weights.items()}
    checkpoint_folder.check_shapes(path, shapes, model.config)
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()})


def load_progress(folder: Path, optimizer: Optimizer) -> tuple[Progress, int]:
    """Restore the optimizer and the progress of the run.

    Returns:
        The progress, and the number of parameters without optimizer state, if the optimizer
        changed.

    Raises:
        UsageError: the checkpoint has no training state, or a file is damaged.
    """
    tensors = _read_tensors(folder / _OPTIMIZER)
    try:
        values: Any = json.loads((folder / _PROGRESS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder}: cannot be resumed from: {error}") from error
    tensors.pop(_RANDOM_STATE, None)
    progress = from_mapping(Progress, values, str(folder / _PROGRESS))
    return progress, optimizer.load_state(tensors)


def step_folders(run: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted((run / "checkpoints").glob("step-*"))


def former_steps(run: Path, resume: bool) -> list[Path]:
    """The checkpoints that a run resumes from, oldest first; empty for a new run.

    Raises:
        UsageError: the folder has a run and `resume` is not given, or has only the final model.
    """
    finished = step_folders(run)
    if finished and not resume:
        raise UsageError(f"{run}: has a run already; resume it with --resume, or name another")
    if not finished and (run / FINAL).exists():
        raise UsageError(f"{run}: has a model but no checkpoint to resume from; name another")
    return finished


def average(folders: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several checkpoints' weights, taken in float64, as float32.

    Args:
        folders: checkpoints of one architecture, at least one.

    Raises:
        UsageError: no folder, or tensors that do not match each other.

    Source: Vaswani et al. 2017, section 6.1.
    """
    if not folders:
        raise UsageError("no checkpoints to average")
    total: dict[str, Tensor] = {}
    for index, folder in enumerate(folders):
        for name, tensor in _read_tensors(folder / WEIGHTS).items():
            if index and (name not in total or total[name].shape != tensor.shape):
                raise UsageError(f"{folder / WEIGHTS}: {name!r} does not fit {folders[0]}")
            total[name] = total.get(name, 0) + tensor.double()
    return {name: (tensor / len(folders)).float() for name, tensor in total.items()}


def blend(weights: Mapping[str, Tensor], folder: Path, share: float) -> dict[str, Tensor]:
    """Interpolate between a fine-tuned model and the checkpoint that it started from.

    Args:
        weights: of the fine-tuned model.
        folder: the checkpoint.
        share: weight of the checkpoint, from 0 to 1.

    Source: Wortsman et al. 2022, https://arxiv.org/abs/2109.01903, section 3.
    """
    former = _read_tensors(folder / WEIGHTS)
    return {name: tensor.lerp(former[name], share) for name, tensor in weights.items()}


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return checkpoint_folder.with_scales(safetensors.torch.load_file(path))
    except (OSError, safetensors.SafetensorError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
