"""What a run logs: `log.jsonl`, TensorBoard events, and lines on stderr."""

from __future__ import annotations

import json
import logging
import math
import os
import time
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from dragoman.kernel.replacement import replacing
from dragoman_training.config import OptimisationConfig
from dragoman_training.run.checkpoint import Progress
from dragoman_training.run.validation import ValidationScores
from dragoman_training.steps.gradients import Losses

log = logging.getLogger(__name__)

FILE_NAME = "log.jsonl"


class RunLog(AbstractContextManager["RunLog"]):
    """The logs of one run; entries after the checkpoint that it resumes from are dropped."""

    def __init__(self, run: Path, progress: Progress) -> None:
        """Open the logs in the run's folder, as they were at `progress`."""
        self._path = run / FILE_NAME
        self._forget(progress.step)
        self._board = _EventFile(run / "tensorboard", progress.step + 1)
        self._losses, self._tgt_tokens = Losses(), 0
        self._since_s = time.monotonic()

    def __exit__(self, *_: object) -> None:
        """Close the TensorBoard file."""
        self._board.close()

    def count(self, losses: Losses, tgt_tokens: int) -> None:
        """Add a step: the sums of its losses, over this many tokens."""
        self._losses = self._losses.plus(losses)
        self._tgt_tokens += tgt_tokens

    def report(self, progress: Progress, config: OptimisationConfig, learning_rate: float) -> None:
        """Log the average of the steps since the last report."""
        if not self._tgt_tokens:
            return  # all steps were skipped
        step = progress.step
        rate = self._tgt_tokens / max(time.monotonic() - self._since_s, 1e-9)
        loss = self._losses.translation / self._tgt_tokens
        if config.minutes is None:
            of_steps, left_s = f"/{config.steps}", progress.elapsed_s / step * (config.steps - step)
        else:
            of_steps, left_s = "", max(0.0, 60 * config.minutes - progress.elapsed_s)
        log.info(
            "step %d%s  epoch %d  loss %.3f  %.0f tgt tokens/s  %s left",
            step,
            of_steps,
            progress.epoch + 1,
            loss,
            rate,
            timedelta(seconds=round(left_s)),
        )
        measured: dict[str, object] = {"loss": round(loss, 4), "tgt_tokens_per_s": round(rate)}
        if skipped := progress.loss_scale.skipped_steps:
            measured["skipped_steps"] = skipped
        if linked_tokens := self._losses.linked_tokens:
            alignment = self._losses.alignment / linked_tokens
            log.info("step %d  alignment loss %.3f", step, alignment)
            measured["alignment_loss"] = round(alignment, 4)
            self._board.add(step, train_alignment_loss=alignment)
        self._write(progress, kind="train", **measured)
        rates = {"train_tgt_tokens_per_s": rate, "train_learning_rate": learning_rate}
        self._board.add(step, train_loss=loss, **rates)
        self._losses, self._tgt_tokens = Losses(), 0
        self._since_s = time.monotonic()

    def report_validation(self, progress: Progress, scores: ValidationScores) -> None:
        """Log the loss on held-out text, and BLEU if it was measured."""
        step, loss = progress.step, scores.loss
        log.info("step %d  valid loss %.4f  perplexity %.2f", step, loss, _perplexity(loss))
        self._board.add(step, valid_loss=loss)
        measured: dict[str, object] = {}
        if scores.bleu is not None:
            log.info("step %d  valid BLEU %.2f", step, scores.bleu)
            self._board.add(step, valid_bleu=scores.bleu)
            measured["bleu"] = round(scores.bleu, 2)
        measured["corpora"] = {prefix: round(mean, 4) for prefix, mean in scores.by_corpus.items()}
        self._write(progress, kind="valid", loss=round(loss, 4), **measured)

    def _write(self, progress: Progress, kind: str, **values: object) -> None:
        entry = {"kind": kind, "step": progress.step, **values}
        entry["elapsed_s"] = round(progress.elapsed_s)
        entry["tgt_tokens"] = progress.tgt_tokens
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def _forget(self, step: int) -> None:
        """Drop entries of later steps, and lines damaged by a kill or a disk error."""
        if not self._path.exists():
            return
        lines = self._path.read_bytes().splitlines(keepends=True)
        kept = [line for line in lines if (logged := _step(line)) is not None and logged <= step]
        with replacing(self._path) as (partial,):
            partial.write_bytes(b"".join(kept))


def _step(line: bytes) -> int | None:
    """The step of a line; None if it is not a complete line of the log."""
    try:
        step = json.loads(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, LookupError, TypeError):
        return None
    return step if isinstance(step, int) else None


def _perplexity(loss: float) -> float:
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


class _EventFile:
    """TensorBoard's scalars by step; they hide later steps in an earlier file of the folder.

    PyTorch's own writer uses a thread, which cannot report that the disk is full.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        """Start a file in a folder, for steps from `first_step` on."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}"
        self._records = RecordWriter(path.open("wb", buffering=0))
        self._write(Event(file_version="brain.Event:2"))
        session = SessionLog(status=SessionLog.START)
        self._write(Event(step=first_step, session_log=session))

    def add(self, step: int, **scalars: float) -> None:
        """Write scalars of a step; `train_loss` is shown as `train/loss`."""
        values = [
            Summary.Value(tag=name.replace("_", "/", 1), simple_value=value)
            for name, value in scalars.items()
        ]
        self._write(Event(step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
