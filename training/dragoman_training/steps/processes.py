"""The processes that train one model together, each with its share of every step."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from dragoman.kernel.errors import DragomanError, UsageError

T = TypeVar("T")


_LONGEST_WAIT = timedelta(hours=12)
"""The first process encodes text for the others; if one is gone, the rest hear of it at once."""
_OF_TORCHRUN = ("RANK", "MASTER_ADDR", "MASTER_PORT")
_NUMBERS = ("RANK", "LOCAL_RANK", "MASTER_PORT")


class LostProcess(DragomanError):
    """Another process has ended; its own message says why."""


@contextmanager
def _together() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        (reason, *_) = str(error).splitlines() or [""]
        raise LostProcess(f"another process is gone, see its message: {reason}") from error


@dataclass(frozen=True)
class Processes:
    """This process among those that train together; by default it is alone."""

    rank: int = 0
    number: int = 1
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))

    @property
    def is_first(self) -> bool:
        """Whether it is this process that writes files and speaks."""
        return self.rank == 0

    def share(self, parts: Sequence[T]) -> Sequence[T]:
        """What of a list that all processes have is for this one to do."""
        return parts[self.rank :: self.number]

    def wait(self) -> None:
        """Go on when all have come here."""
        if self.number > 1:
            with _together():
                dist.barrier()

    def leave(self) -> None:
        """Part from the others."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def sum(self, values: Sequence[float]) -> list[float]:
        """The values of all processes added up, in every process."""
        if self.number == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        with _together():
            dist.all_reduce(total)
        return [float(value) for value in total]

    def least(self, value: float) -> float:
        """The least value of all processes, in every process."""
        if self.number == 1:
            return value
        found = torch.tensor(value, dtype=torch.float64, device=self.device)
        with _together():
            dist.all_reduce(found, dist.ReduceOp.MIN)
        return float(found)

    def sum_gradients(
        self, parameters: Iterable[Tensor], losses: Sequence[float]
    ) -> Sequence[float]:
        """Add up the gradients of all processes, in place, and their losses.

        One message for all of them: a small model's gradients are many and short.

        Args:
            parameters: in the same order in every process; a gradient that is None counts as zero.
            losses: this process's share of them.

        Returns:
            The losses of all.
        """
        if self.number == 1:
            return losses
        weights = list(parameters)
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        flat = torch.cat([*(grad.flatten() for grad in gradients), gradients[0].new_tensor(losses)])
        with _together():
            dist.all_reduce(flat)
        sizes = [grad.numel() for grad in gradients]
        *of_gradients, of_losses = torch.split(flat, [*sizes, len(losses)])
        for grad, summed in zip(gradients, of_gradients, strict=True):
            grad.copy_(summed.view_as(grad))
        return of_losses.tolist()


def join() -> Processes:
    """Meet the processes that `torchrun` started beside this one, if it did.

    Raises:
        UsageError: it started more processes on this host than there are GPUs, or it was not
            `torchrun` that set WORLD_SIZE.
        LostProcess: the others do not come.
    """
    world = os.environ.get("WORLD_SIZE", "1")
    missing = [name for name in _OF_TORCHRUN if name not in os.environ]
    if not world.isdecimal() or (world != "1" and missing):
        lacks = f" without {missing[0]}" if missing else ""
        raise UsageError(f"WORLD_SIZE is {world!r}{lacks}: start with torchrun, or unset it")
    for name in _NUMBERS:
        if not os.environ.get(name, "0").isdecimal():
            raise UsageError(f"{name} is {os.environ[name]!r}: start with torchrun, or unset it")
    number = int(world)
    on_gpu = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if on_gpu and local >= torch.cuda.device_count():
        raise UsageError(
            f"torchrun --nproc-per-node is above {torch.cuda.device_count()}, the number of GPUs"
        )
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if number == 1:
        return Processes(device=device)
    if on_gpu:
        torch.cuda.set_device(device)
    if not dist.is_initialized():
        with _together():
            dist.init_process_group("nccl" if on_gpu else "gloo", timeout=_LONGEST_WAIT)
    return Processes(dist.get_rank(), number, device)
