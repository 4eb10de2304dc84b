"""Measures a model in training on held-out text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import torch

from dragoman.kernel.text import Tokenizer
from dragoman_training.config import RunConfig
from dragoman_training.network.precision import padding_multiple
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.search import Translator
from dragoman_training.run.evaluation import measure
from dragoman_training.steps.loss import summed_loss
from dragoman_training.steps.processes import Processes
from dragoman_training.text.examples import Batch, Examples, pieces
from dragoman_training.text.parallel_text import ParallelText, drawn_pairs


@dataclass(frozen=True)
class ValidationScores:
    """One validation: nats for each target token, overall and by corpus; mean BLEU."""

    loss: float
    by_corpus: Mapping[str, float]
    bleu: float | None


@dataclass(frozen=True)
class _Direction:
    src: tuple[str, ...]
    tgt: tuple[str, ...]
    language: str


class Validation:
    """Held-out text, encoded once, and the model that is validated."""

    def __init__(
        self,
        texts: Mapping[str, Sequence[ParallelText]],
        model: Transformer,
        tokenizer: Tokenizer,
        config: RunConfig,
        processes: Processes,
        part_tokens: int,
    ) -> None:
        """Encode the texts.

        Args:
            texts: of each corpus, by its name.
            model: to validate.
            tokenizer: its vocabulary.
            config: which metrics are measured, and on how many sentences.
            processes: all processes, which share the work.
            part_tokens: tokens in one forward pass, padding included.
        """
        self._part_tokens = part_tokens
        self._model, self._tokenizer, self._config = model, tokenizer, config.training
        self._limits = config.limits
        self._processes = processes
        limit = config.data.max_length_tokens
        multiple = padding_multiple(processes.device)
        encoded = {
            name: Examples(parts, tokenizer, limit, multiple=multiple)
            for name, parts in texts.items()
        }
        self._examples = {name: examples for name, examples in encoded.items() if len(examples)}
        sentences = config.training.valid_bleu_sentences
        texts_translated = chain.from_iterable(texts.values()) if sentences else ()
        self._directions = list(
            chain.from_iterable(_directions(text, sentences) for text in texts_translated)
        )

    def can_measure(self, metric: str) -> bool:
        """Whether there is text for a metric."""
        return bool(self._examples) and (metric == "loss" or bool(self._directions))

    def measure(self, most_tokens: int | None = None) -> ValidationScores | None:
        """Validate the current model; None if there is no text.

        Args:
            most_tokens: upper limit of tokens in one forward pass, if memory is too small.
        """
        if not self._examples:
            return None
        self._model.eval()
        with torch.no_grad():
            sums = [self._loss(examples, most_tokens) for examples in self._examples.values()]
            bleu = self._bleu() if self._directions else None
        self._model.train()
        loss = sum(total for total, _ in sums) / sum(tokens for _, tokens in sums)
        means = [total / tokens for total, tokens in sums]
        return ValidationScores(loss, dict(zip(self._examples, means, strict=True)), bleu)

    def _loss(self, examples: Examples, most_tokens: int | None) -> tuple[float, float]:
        """Sum over target tokens, and their number."""
        size = self._part_tokens
        parts = [part for step in examples.steps(size, size, 0, 0) for part in step]
        total = tokens = 0.0
        for part in self._processes.share(parts):
            for piece in pieces(examples.batch(part), most_tokens):
                total += self._loss_of(piece)
            tokens += part.tgt_tokens
        total, tokens = self._processes.sum([total, tokens])
        return total, tokens

    def _loss_of(self, piece: Batch) -> float:
        """Sum over target tokens; the batch is halved if memory is too small for it."""
        try:
            return summed_loss(self._model, piece, 0.0, self._config.precision).item()
        except torch.OutOfMemoryError:
            if len(piece.src_ids) == 1:
                raise
        # The memory that the exception kept alive is free here.
        return sum(map(self._loss_of, pieces(piece, math.ceil(piece.padded_tokens / 2))))

    def _bleu(self) -> float:
        translator = Translator(self._model, self._tokenizer, self._limits, beam_width=1)
        total = 0.0
        for direction in self._processes.share(self._directions):
            hypotheses = translator.translate(direction.src, direction.language)
            texts = [self._tokenizer.target.decode(hypothesis.ids) for hypothesis in hypotheses]
            total += measure(texts, direction.tgt).bleu
        return self._processes.sum([total])[0] / len(self._directions)


def learnt_parts(text: ParallelText, directions: Sequence[tuple[str, str]]) -> list[ParallelText]:
    """The parts of a held-out text that are in trained directions."""
    languages = text.languages
    trained = [(a, b) for a, b in text.directions if (languages[a], languages[b]) in directions]
    if len(trained) == len(text.directions):
        return [text]
    return [
        ParallelText(
            [(pair[a], pair[b]) for pair in text.pairs],
            (languages[a], languages[b]),
            max_pairs=text.max_pairs,
            one_way=(b, a) not in trained,
        )
        for a, b in trained
        if a < b or (b, a) not in trained
    ]


def _directions(text: ParallelText, sentences: int) -> list[_Direction]:
    sides = list(zip(*islice(drawn_pairs(text), sentences), strict=True))
    return [_Direction(sides[src], sides[tgt], text.languages[tgt]) for src, tgt in text.directions]
