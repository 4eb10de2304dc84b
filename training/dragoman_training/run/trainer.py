"""The training loop: text in, checkpoints out; resumes after a kill."""

from __future__ import annotations

import itertools
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from dragoman.kernel.errors import UsageError
from dragoman_training.config import RunConfig
from dragoman_training.network.precision import lower_dtype, set_up
from dragoman_training.network.transformer import Transformer
from dragoman_training.run import checkpoint, checkpoint_folder
from dragoman_training.run.best_models import BestModels
from dragoman_training.run.run_log import RunLog
from dragoman_training.run.run_text import RunText
from dragoman_training.run.start import Start
from dragoman_training.run.teacher import read_teacher
from dragoman_training.run.timer import Timer
from dragoman_training.run.validation import Validation
from dragoman_training.steps.gradients import Gradients, Losses
from dragoman_training.steps.guided_alignment import GuidedAlignment
from dragoman_training.steps.optimizer import Optimizer
from dragoman_training.steps.processes import Processes, join
from dragoman_training.steps.schedule import learning_rate
from dragoman_training.text.batches import Batches
from dragoman_training.text.examples import Part

log = logging.getLogger(__name__)

_START = "start"
"""Folder in the run's folder for the initial weights."""
_COLLATING = 3
"""Processes that collate for a GPU. Collating up to 40 ms a step, one would be too slow for it."""
_STEPS_AHEAD = 8
_NO_CPU_MEMORY = "can't allocate memory"


class Trainer:
    """One run in one folder, in one process or in several that share the folder.

    The folder gets the vocabulary, `checkpoints/step-*`, `log.jsonl`, TensorBoard events, and at
    the end `final`: the average of the last checkpoints, or of the best validated models if
    `training.average_best` or `training.stop_after_validations` is set.
    """

    def __init__(
        self,
        config: RunConfig,
        data_dir: Path,
        run: Path,
        resume: bool = False,
        processes: Processes | None = None,
        start: Start | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the text, train or read the vocabulary, and build or restore the model.

        Args:
            config: the run's settings; the text may give a smaller vocabulary.
            data_dir: where relative prefixes of `config.data` start.
            run: the run's folder.
            resume: resume from the newest checkpoint in `run`, if there is one.
            processes: those that train together; None: those that `join` finds.
            start: gives the initial weights of a new run, and its vocabulary, to which entries for
                further languages are added. Ignored for a resumed run.
            clock: in seconds.

        Raises:
            UsageError: text cannot be read, the folder is in use, a checkpoint cannot be resumed
                from, or memory is too small.
        """
        self._run, self._clock = run, clock
        self._processes = processes or join()
        finished = checkpoint.former_steps(run, resume)
        if not config.data.train:
            raise UsageError("data.train is empty: name the text, such as --text my.en my.de")
        self._tokenizer_path = run / checkpoint_folder.TOKENIZER
        if finished:
            start = None
        is_new = not self._tokenizer_path.exists()
        former = start.vocabulary if start and is_new else None
        text = RunText(config, data_dir, run, self._tokenizer_path, self._processes, former)
        self._config, self._train = text.config, text.examples
        collating = self._config.training.batch_processes
        if collating is None:
            is_gpu = self._processes.device.type == "cuda"
            collating = min(_COLLATING, (os.cpu_count() or 1) - 1) if is_gpu else 0
        self._batches = Batches(self._train, collating)

        torch.manual_seed(config.training.seed)
        set_up(self._processes.device, config.training.tf32)
        with _enough_memory(self._processes.device):
            self._build(text, finished, start)
        self._processes.wait()  # no checkpoint may be removed before all have read it

    def _build(self, text: RunText, finished: Sequence[Path], start: Start | None) -> None:
        """Build the model, optimizer and validation, restored from the last checkpoint if any."""
        config = self._config
        self._model = Transformer(config.model).to(self._processes.device)
        if start:
            start.give_weights(self._model, text.tokenizer)
            if config.training.start_share and start.is_same_model:
                self._write(self._run / _START)
        guides = config.alignment.weight is not None
        guided = GuidedAlignment(self._model, config.alignment) if guides else None
        if config.training.compile:
            self._model.compile(dynamic=True)
        self._optimizer = Optimizer(self._model, config.training.optimizer)
        self._validation = Validation(
            texts=text.held_out,
            model=self._model,
            tokenizer=text.tokenizer,
            config=config,
            processes=self._processes,
            part_tokens=self._part_tokens,
        )
        self._best = BestModels(self._run, config.training, self._write, self._processes.is_first)
        if self._best.wanted and not self._validation.can_measure(config.training.stop_on):
            raise UsageError(
                "training.stop_after_validations, average_best: no text in data.valid is in a "
                "trained direction and short enough"
            )
        self._progress = checkpoint.Progress(drawn=self._train.drawn_by(1))
        if finished:
            checkpoint.load_weights(self._model, finished[-1] / checkpoint_folder.WEIGHTS)
            self._progress = self._gone_on_from(finished[-1])
            log.info("resuming from %s", finished[-1])
        self._gradients = Gradients(
            model=self._model,
            batch=self._batches.batch,
            config=config.training,
            processes=self._processes,
            most_tokens=self._progress.most_tokens,
            guided=guided,
            teacher=read_teacher(config, text.tokenizer, self._processes.device),
        )

    def train(self) -> Path:
        """Run to the last step, or until validations no longer improve.

        Returns:
            The folder of the final model.

        Raises:
            UsageError: the loss or the gradients are NaN or infinite, the disk cannot be written,
                or memory is too small.
        """
        parameters = sum(weight.numel() for weight in self._model.parameters())
        processes = self._processes
        dtype = lower_dtype(self._config.training.precision, processes.device) or torch.float32
        with_what = (processes.number, processes.device, str(dtype).removeprefix("torch."))
        log.info("%.1f M parameters, %d x %s, %s", parameters / 1e6, *with_what)
        settings = self._config.training
        timer = Timer(settings.minutes, processes, self._progress.elapsed_s, self._clock)
        if timer.left_s <= 0:
            log.info("nothing is left to do: give more than %g training.minutes", settings.minutes)
        elif self._is_last(self._progress.step):
            log.info("nothing is left to do: give more than %d training.steps", self._progress.step)
        elif self._best.are_past(self._progress):
            log.info(
                "nothing is left to do: %d validations were no better than the best; raise "
                "training.stop_after_validations",
                self._progress.validations_since_best,
            )
        try:
            with _enough_memory(processes.device), timer.stopped_by_signals():
                if processes.is_first:
                    with RunLog(self._run, self._progress) as run_log, self._batches:
                        self._loop(run_log, timer)
                    self._finish()
                else:
                    with self._batches:
                        self._loop(None, timer)
        except OSError as error:
            raise UsageError(f"{self._run}: cannot be written: {error}") from error
        processes.wait()
        return self._run / checkpoint.FINAL

    def _gone_on_from(self, folder: Path) -> checkpoint.Progress:
        """A checkpoint's progress, adapted to settings that changed."""
        progress, anew = checkpoint.load_progress(folder, self._optimizer)
        if anew:
            log.info("another optimizer: %d parameters start without optimizer state", anew)
        former, config = RunConfig.from_json(folder / checkpoint_folder.CONFIG), self._config
        text, part_tokens = self._train.digest, self._part_tokens
        known = (progress.part_tokens or part_tokens, progress.text or text, _plan(former))
        if progress.drawn is None:  # assume that the weights never changed
            progress = replace(progress, drawn=self._train.drawn_by(progress.epoch + 1))
        if progress.batches_of_epoch and known != (part_tokens, text, _plan(config)):
            log.info(
                "the text, batches or processes changed: starting epoch %d", progress.epoch + 2
            )
            progress = self._of_next_epoch(progress)
        if progress.part_tokens != self._part_tokens:
            progress = replace(progress, most_tokens=None)  # forget the memory limit
        if self._processes.is_first:
            self._best.put_back()
        self._processes.wait()
        progress = self._best.still_known(progress)
        lengths = [
            (training.steps, training.cooldown_steps, training.minutes, training.cooldown_minutes)
            for training in (former.training, config.training)
        ]
        if lengths[0] != lengths[1]:
            return replace(progress, validations_since_best=0)
        return progress

    def _of_next_epoch(self, progress: checkpoint.Progress) -> checkpoint.Progress:
        """Progress at the start of the next epoch; the rest of a broken-off epoch is dropped."""
        drawn = self._train.drawn_by(1, progress.drawn or ())
        return replace(progress, epoch=progress.epoch + 1, batches_of_epoch=0, drawn=drawn)

    @property
    def _part_tokens(self) -> int:
        settings = self._config.training
        if settings.part_tokens is None:
            return settings.batch_tokens // self._processes.number
        return min(settings.part_tokens, settings.batch_tokens)

    def _is_last(self, step: int) -> bool:
        settings = self._config.training
        return settings.minutes is None and step >= settings.steps

    def _loop(self, run_log: RunLog | None, timer: Timer) -> None:
        settings = self._config.training
        self._model.train()
        for parts in self._steps():
            is_over = self._is_last(self._progress.step) or timer.left_s <= 0
            if is_over or self._best.are_past(self._progress):
                break
            step = self._progress.step + 1
            losses, tokens = self._step(parts, step, timer.left_s)
            timer.end_step()
            self._progress = replace(
                self._progress,
                step=step,
                batches_of_epoch=self._progress.batches_of_epoch + 1,
                tgt_tokens=self._progress.tgt_tokens + tokens,
                elapsed_s=timer.elapsed_s,
            )
            last = self._is_last(step) or timer.left_s <= 0
            if timer.is_stopped:
                log.info("SIGTERM: the run ends after step %d; --resume continues it", step)
            if run_log:
                run_log.count(losses, tokens)
                if step % settings.log_every_steps == 0 or last:
                    run_log.report(self._progress, settings, self._optimizer.learning_rate)
            # After SIGTERM there may be no time for a validation.
            if (step % settings.validate_every_steps == 0 or last) and not timer.is_stopped:
                self._validate(run_log)
                timer.end_pause("validation")
            over = self._best.are_past(self._progress) or timer.left_s <= 0
            if step % settings.checkpoint_every_steps == 0 or last or over:
                self._save()
                timer.end_pause("checkpoint")

    def _steps(self) -> Iterator[Sequence[Part]]:
        """The parts of each step; later ones are prepared meanwhile, and so is the next epoch."""
        settings, data = self._config.training, self._config.data

        def epoch_of(progress: checkpoint.Progress) -> tuple[Any, ...]:
            """The arguments of its plan."""
            return (
                *(settings.batch_tokens, self._part_tokens, settings.seed, progress.epoch),
                *(data.joined_share, progress.drawn),
            )

        self._progress = replace(
            self._progress, part_tokens=self._part_tokens, text=self._train.digest
        )
        while True:
            planned = self._batches.plan(*epoch_of(self._progress))
            rest = planned[self._progress.batches_of_epoch :]
            following = epoch_of(self._of_next_epoch(self._progress))
            for number, parts in enumerate(rest):
                self._batches.plan_ahead(*following)
                near = rest[number : number + 1 + _STEPS_AHEAD]
                self._batches.collate_ahead(
                    itertools.chain.from_iterable(map(self._processes.share, near))
                )
                yield parts
            self._progress = self._of_next_epoch(self._progress)

    def _step(self, parts: Sequence[Part], step: int, left_s: float) -> tuple[Losses, int]:
        """Train on all parts; the result does not depend on which process computes which part."""
        settings, weights = self._config.training, list(self._model.parameters())
        model_size = self._config.model.model_size
        self._optimizer.learning_rate = learning_rate(step, settings, model_size, left_s)
        tokens = sum(part.tgt_tokens for part in parts)
        scale = self._progress.loss_scale
        factor = scale.value if settings.precision == "fp16" else 1.0
        losses = self._gradients.add_up(parts, step, tokens / factor)
        for weight in weights:
            if factor != 1.0 and weight.grad is not None:
                weight.grad /= factor
        norm = torch.nn.utils.clip_grad_norm_(weights, settings.clip_norm).item()
        overflowed = not all(map(math.isfinite, (*losses, norm)))
        if settings.precision == "fp16":
            scale = scale.after_step(step, overflowed)
            self._progress = replace(self._progress, loss_scale=scale)
            if overflowed:
                return Losses(), 0
        elif overflowed:
            raise UsageError(
                f"step {step}: the loss is {losses.translation}, and its gradients' norm {norm}; "
                "lower training.peak_learning_rate"
            )
        self._optimizer.step()
        return losses, tokens

    def _validate(self, run_log: RunLog | None) -> None:
        scores = self._validation.measure(self._gradients.most_tokens)
        if scores is None:
            return
        if run_log:
            run_log.report_validation(self._progress, scores)
        if self._best.wanted:
            self._progress = self._best.after_validation(self._progress, scores)

    def _save(self) -> None:
        # Another process may resume, with the smallest memory of all.
        least = self._processes.least(self._gradients.most_tokens or math.inf)
        most_tokens = int(least) if math.isfinite(least) else None
        self._progress = replace(self._progress, most_tokens=most_tokens)
        self._write(
            self._run / "checkpoints" / f"step-{self._progress.step:07d}",
            optimizer=self._optimizer,
            progress=self._progress,
        )
        if self._processes.is_first:
            kept = self._config.training.keep_checkpoints
            for old in checkpoint.step_folders(self._run)[:-kept]:
                shutil.rmtree(old)

    def _write(
        self,
        folder: Path,
        optimizer: Optimizer | None = None,
        progress: checkpoint.Progress | None = None,
    ) -> None:
        if not self._processes.is_first:
            return
        weights = {name: tensor.detach().cpu() for name, tensor in self._model.state_dict().items()}
        self._save_checkpoint(folder, weights, optimizer, progress)

    def _save_checkpoint(
        self,
        folder: Path,
        weights: dict[str, torch.Tensor],
        optimizer: Optimizer | None = None,
        progress: checkpoint.Progress | None = None,
    ) -> None:
        names = checkpoint_folder.tokenizer_files(self._config)
        tokenizer, *of_target = (self._run / name for name in names)
        checkpoint.save(folder, weights, self._config, tokenizer, optimizer, progress, *of_target)

    def _finish(self) -> None:
        last = checkpoint.step_folders(self._run)[-self._config.training.average_last :]
        best = self._best.final(self._progress)
        folders = best or last
        final = self._run / checkpoint.FINAL
        weights = checkpoint.average(folders)
        if (share := self._config.training.start_share) and (self._run / _START).exists():
            weights = checkpoint.blend(weights, self._run / _START, share)
        self._save_checkpoint(final, weights)
        which = "best validations' models" if best else "last checkpoints"
        log.info("the average of %d %s written to %s", len(folders), which, final)


@contextmanager
def _enough_memory(device: torch.device) -> Iterator[None]:
    """Report in one line that memory is too small; PyTorch has no exception for CPU memory."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and _NO_CPU_MEMORY not in str(error):
            raise
        raise UsageError(
            f"the memory of {device} is too small for the model, its optimizer, a step or a "
            "validation; lower training.part_tokens, or use a smaller model"
        ) from error


def _plan(config: RunConfig) -> tuple[object, ...]:
    """The settings that, with the size of the parts, determine the steps of an epoch."""
    data, training = config.data, config.training
    corpora = [
        (corpus.prefix, corpus.languages, corpus.one_way, corpus.weight, corpus.max_pairs)
        for corpus in data.train
    ]
    mixed = (data.temperature, data.max_length_tokens, data.joined_share)
    return (corpora, *mixed, training.batch_tokens, training.seed)
