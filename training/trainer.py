"""The training loop: batches in, checkpoints out, able to go on after a kill."""

from __future__ import annotations

import itertools
import json
import logging
import math
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from dragoman.errors import UsageError
from dragoman.text import PAD_ID, Tokenizer
from training import checkpoint
from training.config import CorpusConfig, RunConfig
from training.data import Batch, Examples, ParallelText, read_pairs
from training.loss import projected_cross_entropy
from training.model import Transformer
from training.schedule import learning_rate
from training.vocabulary import train_vocabulary, vocabulary_text

log = logging.getLogger(__name__)


@dataclass
class _Window:
    """What happened since the last progress line."""

    loss_sum: float = 0.0
    tgt_tokens: int = 0
    started_s: float = 0.0


class Trainer:
    """One run in one folder.

    The folder gets `tokenizer.model`, `checkpoints/step-*`, `log.jsonl`, TensorBoard events, and at
    the end `final`, the average of the last checkpoints.
    """

    def __init__(self, config: RunConfig, data_dir: Path, run: Path, resume: bool = False) -> None:
        """Read the text, learn or read the vocabulary, and build or bring back the model.

        Args:
            config: the run's settings.
            data_dir: where relative prefixes of `config.data` begin.
            run: the run's folder.
            resume: go on from the newest checkpoint in `run`, if there is one.

        Raises:
            UsageError: text that cannot be read, a folder in use, or a checkpoint that cannot be
                gone on from.
        """
        self._config, self._run = config, run
        finished = checkpoint.step_folders(run)
        if finished and not resume:
            raise UsageError(f"{run}: holds a run already; go on with --resume, or name another")
        if not config.data.train:
            raise UsageError("data.train is empty: name the text to learn from")
        texts = [_read(data_dir, corpus) for corpus in config.data.train]
        if not any(text.pairs for text in texts):
            prefixes = ", ".join(corpus.prefix for corpus in config.data.train)
            raise UsageError(f"data.train: no sentence pairs in {prefixes}")
        run.mkdir(parents=True, exist_ok=True)
        self._tokenizer_path = run / checkpoint.TOKENIZER
        tokenizer = self._tokenizer(texts)
        limit = config.data.max_length_tokens
        self._train = Examples(texts, tokenizer, limit, config.data.temperature)
        self._valid = {
            corpus.prefix: Examples([_read(data_dir, corpus)], tokenizer, limit)
            for corpus in config.data.valid
        }
        left_out = self._train.left_out
        if not len(self._train):
            raise UsageError(f"all {left_out} pairs exceed data.max_length_tokens, {limit}")
        directions = ", ".join(f"{src}-{tgt}" for src, tgt in self._train.directions)
        log.info("%d examples (%s), %d pairs left out", len(self._train), directions, left_out)

        torch.manual_seed(config.training.seed)
        device = "cuda" if torch.cuda.is_available() else "cpu"
        self._device = torch.device(device)
        self._model = Transformer(config.model).to(self._device)
        self._optimizer = torch.optim.Adam(
            self._model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=True
        )
        self._progress = checkpoint.Progress()
        if finished:
            checkpoint.load_weights(self._model, finished[-1] / checkpoint.WEIGHTS)
            self._progress = checkpoint.load_progress(finished[-1], self._optimizer)
            log.info("going on from %s", finished[-1])

    def train(self) -> Path:
        """Run to the last step.

        Returns:
            The folder of the final model.
        """
        settings = self._config.training
        parameters = sum(weight.numel() for weight in self._model.parameters())
        log.info("%.1f M parameters on %s", parameters / 1e6, self._device)
        with SummaryWriter(str(self._run / "tensorboard")) as board:
            self._model.train()
            started_s = time.monotonic() - self._progress.elapsed_s
            window = _Window(started_s=time.monotonic())
            for batch in self._batches():
                if self._progress.step >= settings.steps:
                    break
                step = self._progress.step + 1
                loss, tokens = self._step(batch, step)
                window.loss_sum += loss
                window.tgt_tokens += tokens
                self._progress = replace(
                    self._progress,
                    step=step,
                    batches_of_epoch=self._progress.batches_of_epoch + 1,
                    tgt_tokens=self._progress.tgt_tokens + tokens,
                    elapsed_s=time.monotonic() - started_s,
                )
                last = step == settings.steps
                if step % settings.log_every_steps == 0 or last:
                    self._report(window, board)
                    window = _Window(started_s=time.monotonic())
                if step % settings.validate_every_steps == 0 or last:
                    self._validate(board)
                if step % settings.checkpoint_every_steps == 0 or last:
                    self._save()
        return self._finish()

    def _tokenizer(self, texts: Sequence[ParallelText]) -> Tokenizer:
        """The run's vocabulary, learnt from its text unless it lies there already."""
        config, path = self._config, self._tokenizer_path
        if not path.exists():
            log.info("learning a vocabulary of %d pieces", config.vocabulary.size)
            sentences = vocabulary_text(texts)
            train_vocabulary(sentences, config.data.languages, config.vocabulary, path)
        tokenizer = Tokenizer(path)
        if tokenizer.vocab_size != config.model.vocab_size:
            raise UsageError(
                f"model.vocab_size is {config.model.vocab_size}, but {path} has "
                f"{tokenizer.vocab_size} entries"
            )
        return tokenizer

    def _batches(self) -> Iterator[Batch]:
        settings, data = self._config.training, self._config.data
        for epoch in itertools.count(self._progress.epoch):
            if epoch > self._progress.epoch:
                self._progress = replace(self._progress, epoch=epoch, batches_of_epoch=0)
            yield from itertools.islice(
                self._train.batches(settings.batch_tokens, settings.seed, epoch, data.joined_share),
                self._progress.batches_of_epoch,
                None,
            )

    def _loss(self, batch: Batch, smoothing: float) -> tuple[Tensor, int]:
        """Sum of the loss over target tokens, and their number."""
        src = batch.src_ids.to(self._device)
        tgt_out = batch.tgt_out_ids.to(self._device)
        bf16 = self._config.training.precision == "bf16"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=bf16):
            hidden = self._model(src, src != PAD_ID, batch.tgt_in_ids.to(self._device))
            counted = tgt_out != PAD_ID
            target = tgt_out[counted]
            weight = self._model.embedding.weight
            loss = projected_cross_entropy(hidden[counted], weight, target, smoothing)
        return loss, len(target)

    def _step(self, batch: Batch, step: int) -> tuple[float, int]:
        settings = self._config.training
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(step, settings, self._config.model.model_size)
        self._optimizer.zero_grad(set_to_none=True)
        loss, tokens = self._loss(batch, settings.label_smoothing)
        (loss / tokens).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), settings.clip_norm)
        self._optimizer.step()
        value = loss.item()
        if not math.isfinite(value):
            raise UsageError(f"step {step}: the loss is {value}; lower training.peak_learning_rate")
        return value, tokens

    def _report(self, window: _Window, board: SummaryWriter) -> None:
        step, steps = self._progress.step, self._config.training.steps
        rate = window.tgt_tokens / max(time.monotonic() - window.started_s, 1e-9)
        loss = window.loss_sum / window.tgt_tokens
        left_s = self._progress.elapsed_s / step * (steps - step)
        left = timedelta(seconds=round(left_s))
        epoch = self._progress.epoch + 1
        log.info(
            "step %d/%d  epoch %d  loss %.3f  %.0f tgt tokens/s  %s left",
            *(step, steps, epoch, loss, rate, left),
        )
        board.add_scalar("train/loss", loss, step)
        board.add_scalar("train/tgt_tokens_per_s", rate, step)
        board.add_scalar("train/learning_rate", self._optimizer.param_groups[0]["lr"], step)
        self._log(kind="train", step=step, loss=round(loss, 4), tgt_tokens_per_s=round(rate))

    def _validate(self, board: SummaryWriter) -> None:
        self._model.eval()
        found = {prefix: self._loss_on(text) for prefix, text in self._valid.items() if len(text)}
        self._model.train()
        if not found:
            return
        loss = sum(loss for loss, _ in found.values()) / sum(tokens for _, tokens in found.values())
        step = self._progress.step
        log.info("step %d  valid loss %.4f  perplexity %.2f", step, loss, math.exp(loss))
        board.add_scalar("valid/loss", loss, step)
        by_corpus = {prefix: round(total / tokens, 4) for prefix, (total, tokens) in found.items()}
        self._log(kind="valid", step=step, loss=round(loss, 4), corpora=by_corpus)

    @torch.no_grad()
    def _loss_on(self, examples: Examples) -> tuple[float, int]:
        """Sum of the loss over held-out target tokens, and their number."""
        total, tokens = 0.0, 0
        for batch in examples.batches(self._config.training.batch_tokens, 0, 0):
            loss, count = self._loss(batch, smoothing=0.0)
            total, tokens = total + loss.item(), tokens + count
        return total, tokens

    def _save(self) -> None:
        folder = self._run / "checkpoints" / f"step-{self._progress.step:07d}"
        weights = {name: tensor.detach().cpu() for name, tensor in self._model.state_dict().items()}
        checkpoint.save(
            *(folder, weights, self._config, self._tokenizer_path),
            optimizer=self._optimizer,
            progress=self._progress,
        )
        for old in checkpoint.step_folders(self._run)[: -self._config.training.keep_checkpoints]:
            shutil.rmtree(old)

    def _finish(self) -> Path:
        folders = checkpoint.step_folders(self._run)[-self._config.training.average_last :]
        final = self._run / "final"
        weights = checkpoint.average(folders)
        checkpoint.save(final, weights, self._config, self._tokenizer_path)
        log.info("average of the last %d checkpoints written to %s", len(folders), final)
        return final

    def _log(self, **values: object) -> None:
        values["elapsed_s"] = round(self._progress.elapsed_s)
        values["tgt_tokens"] = self._progress.tgt_tokens
        with (self._run / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")


def _read(data_dir: Path, corpus: CorpusConfig) -> ParallelText:
    pairs = read_pairs(data_dir / corpus.prefix, corpus.languages)
    return ParallelText(pairs, corpus.languages, corpus.weight, corpus.max_pairs)
