"""The models of a run's best validations: which are kept, and when the run stops early."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dragoman_training.config import OptimisationConfig
from dragoman_training.run import checkpoint, checkpoint_folder
from dragoman_training.run.checkpoint import Kept, Progress
from dragoman_training.run.validation import ValidationScores


class BestModels:
    """The best models of one run, in its folders `best` and `best-models`."""

    def __init__(
        self,
        run: Path,
        config: OptimisationConfig,
        write: Callable[[Path], None],
        is_first: bool = True,
    ) -> None:
        """Set up the folders.

        Args:
            run: the run's folder.
            config: which validation result counts, how many models are kept, and the patience.
            write: writes the current model into a folder.
            is_first: whether this process writes and removes folders.
        """
        self._best, self._several = run / checkpoint.BEST, run / "best-models"
        self._config, self._write, self._is_first = config, write, is_first

    @property
    def wanted(self) -> bool:
        """Whether any models are kept."""
        config = self._config
        return config.stop_after_validations is not None or config.average_best is not None

    def are_past(self, progress: Progress) -> bool:
        """Whether the run ends, because too many validations in a row brought no new best."""
        patience = self._config.stop_after_validations
        return patience is not None and progress.validations_since_best >= patience

    def put_back(self) -> None:
        """Restore folders that an interrupted write has put aside."""
        checkpoint_folder.put_back(self._best)
        for former in self._several.glob(".step-*.former"):
            checkpoint_folder.put_back(former.with_name(former.name[1:].removesuffix(".former")))

    def still_known(self, progress: Progress) -> Progress:
        """A checkpoint's progress, without models that are unwanted, lost or of another metric."""
        metric = self._config.stop_on
        kept = [
            model
            for model in progress.kept
            if model.metric == metric
            and math.isfinite(model.quality)
            and self._folder(model).exists()
        ]
        progress = replace(progress, kept=tuple(kept[: self._config.average_best or 0]))
        has_best = self._config.stop_after_validations is not None and self._best.exists()
        is_known = progress.best is not None and math.isfinite(progress.best)
        if not has_best or not is_known or progress.best_metric != metric:
            return replace(progress, best=None, best_metric=None, validations_since_best=0)
        return progress

    def after_validation(self, progress: Progress, scores: ValidationScores) -> Progress:
        """Keep the current model if its result is good enough; a result that is NaN never is."""
        metric = self._config.stop_on
        quality = -scores.loss if metric == "loss" else scores.bleu
        assert quality is not None  # a run without text for this metric was refused
        is_number = math.isfinite(quality)
        if self._config.average_best is not None and is_number:
            progress = self._among_several(progress, Kept(progress.step, quality, metric))
        if self._config.stop_after_validations is None:
            return progress
        if is_number and (progress.best is None or quality > progress.best):
            self._write(self._best)
            return replace(progress, best=quality, best_metric=metric, validations_since_best=0)
        return replace(progress, validations_since_best=progress.validations_since_best + 1)

    def final(self, progress: Progress) -> list[Path]:
        """The models to average for the final one; empty: use the last checkpoints."""
        if progress.kept:
            return [self._folder(model) for model in progress.kept]
        return [self._best] if progress.best is not None else []

    def _among_several(self, progress: Progress, new: Kept) -> Progress:
        ranked = sorted((*progress.kept, new), key=lambda model: (-model.quality, model.step))
        kept = tuple(ranked[: self._config.average_best])
        if new in kept:
            self._write(self._folder(new))
        if self._is_first and self._several.exists():
            names = {self._folder(model).name for model in kept}
            for folder in self._several.iterdir():
                if folder.name not in names:
                    shutil.rmtree(folder, ignore_errors=True)
        return replace(progress, kept=kept)

    def _folder(self, kept: Kept) -> Path:
        return self._several / f"step-{kept.step:07d}"
