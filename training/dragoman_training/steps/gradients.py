"""The gradients of a step: forward and backward passes of its parts."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dragoman.kernel.errors import UsageError
from dragoman_training.config import OptimisationConfig
from dragoman_training.network.transformer import Transformer
from dragoman_training.steps.guided_alignment import GuidedAlignment
from dragoman_training.steps.loss import Teacher, summed_loss
from dragoman_training.steps.processes import Processes
from dragoman_training.text.examples import Batch, Part, pieces

log = logging.getLogger(__name__)


class Losses(NamedTuple):
    """Sums over a batch, or over a step."""

    translation: float = 0.0
    alignment: float = 0.0
    """Loss of the guided head, without its weight."""
    linked_tokens: float = 0.0
    """Target tokens that the guided head is trained on."""

    def plus(self, other: Losses) -> Losses:
        """Both together."""
        return Losses(*(loss + more for loss, more in zip(self, other, strict=True)))


class Gradients:
    """Accumulates the gradients of a step's parts; several processes share the parts.

    A part that does not fit memory is split, and so is every later part of its size. Each process
    does that independently, since the sums do not depend on it.
    """

    def __init__(
        self,
        model: Transformer,
        batch: Callable[[Part], Batch],
        config: OptimisationConfig,
        processes: Processes,
        most_tokens: int | None = None,
        guided: GuidedAlignment | None = None,
        teacher: Teacher | None = None,
    ) -> None:
        """Set the model and the settings.

        Args:
            model: whose gradients are computed.
            batch: collates the examples of a part.
            config: precision, label smoothing and seed.
            processes: those that share the parts.
            most_tokens: upper limit of tokens in one pass, padding included, if memory was too
                small before.
            guided: the model's head that is trained on word alignments, if there is one.
            teacher: a model whose distribution is a part of the target, if there is one.
        """
        self._model, self._batch, self._config = model, batch, config
        self._processes, self._guided, self._teacher = processes, guided, teacher
        self.most_tokens = most_tokens

    def add_up(self, parts: Sequence[Part], step: int, divisor: float) -> Losses:
        """Compute the gradients of all parts' loss, and leave them in the model.

        Args:
            parts: of the step, the same in every process.
            step: its number; with the part's index, it seeds dropout.
            divisor: the loss is divided by it before the backward pass.

        Returns:
            The losses of all parts, not divided.

        Raises:
            UsageError: a single example does not fit memory.
        """
        own = self._processes.share(list(enumerate(parts)))
        while (total := self._of_parts(own, step, divisor)) is None:
            if self._processes.device.type == "cuda":
                torch.cuda.empty_cache()
        losses = total.tolist()  # waits for the GPU
        return Losses(*self._processes.sum_gradients(self._model.parameters(), losses))

    def _of_parts(
        self, own: Sequence[tuple[int, Part]], step: int, divisor: float
    ) -> Tensor | None:
        """The `Losses` of this process's parts; None if memory was too small.

        After None, the gradients may be partial, so all parts must be computed again.
        """
        self._model.zero_grad(set_to_none=True)
        total = torch.zeros(len(Losses._fields), device=self._processes.device)
        for number, part in own:
            _seed_dropout(self._processes.device, _seed(self._config.seed, step, number))
            for piece in pieces(self._batch(part), self.most_tokens):
                losses = self._of_piece(piece, divisor)
                if losses is None:
                    self._lower(piece, step)
                    return None
                total += losses
        return total

    def _of_piece(self, piece: Batch, divisor: float) -> Tensor | None:
        """The `Losses` of a piece, whose gradients are added; None if memory was too small."""
        config, guided = self._config, self._guided
        try:
            loss = summed_loss(
                model=self._model,
                batch=piece,
                smoothing=config.label_smoothing,
                precision=config.precision,
                compiled=config.compile,
                teacher=self._teacher,
            )
            of_links, linked_tokens = torch.zeros_like(loss), 0.0
            if guided is not None and piece.linked is not None:
                of_links = guided.loss(piece.linked)
                linked_tokens = piece.linked.any(dim=-1).sum().item()
                ((loss + guided.weight * of_links) / divisor).backward()  # type: ignore[no-untyped-call]
            else:
                (loss / divisor).backward()  # type: ignore[no-untyped-call]
            return torch.stack([loss, of_links, loss.new_tensor(linked_tokens)]).detach()
        except torch.OutOfMemoryError:
            return None  # the memory that the exception kept alive is free by now
        finally:
            if guided is not None:
                guided.forget()

    def _lower(self, piece: Batch, step: int) -> None:
        if len(piece.src_ids) == 1:
            raise UsageError(
                f"step {step}: a sentence pair of {piece.padded_tokens} tokens does not fit the "
                f"memory of {self._processes.device}; lower data.max_length_tokens, or use a "
                "smaller model"
            )
        self.most_tokens = math.ceil(piece.padded_tokens / 2)
        log.warning(
            "step %d: %d tokens at a time do not fit the memory of %s; continuing with %d",
            step,
            piece.padded_tokens,
            self._processes.device,
            self.most_tokens,
        )


def _seed_dropout(device: torch.device, seed: int) -> None:
    """Seed what dropout samples from on a device."""
    if device.type == "cpu":
        # `torch.manual_seed` also notes the seed, with a stack trace, for GPUs that are never used.
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


def _seed(*numbers: int) -> int:
    """One seed from several numbers, so that sampling does not depend on earlier steps."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])
