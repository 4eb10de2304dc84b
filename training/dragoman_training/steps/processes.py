"""The processes that train one model together; each computes a share of every step."""

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
"""The first process encodes text for the others; if one ends, the others notice at once."""
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
        raise LostProcess(f"another process has ended, see its message: {reason}") from error


@dataclass(frozen=True)
class Processes:
    """This process and those that it trains with; by default it is alone."""

    rank: int = 0
    number: int = 1
    device: torch.device = field(default_factory=partial(torch.device, "cpu"))

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def share(self, parts: Sequence[T]) -> Sequence[T]:
        """This process's share of a list that all processes have."""
        return parts[self.rank :: self.number]

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.number > 1:
            with _together():
                dist.barrier()

    def leave(self) -> None:
        """Leave the process group."""
        if dist.is_initialized():
            dist.destroy_process_group()

    def sum(self, values: Sequence[float]) -> list[float]:
        """The sums over all processes, in every process."""
        if self.number == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        with _together():
            dist.all_reduce(total)
        return [float(value) for value in total]

    def least(self, value: float) -> float:
        """The minimum over all processes, in every process."""
        if self.number == 1:
            return value
        tensor = torch.tensor(value, dtype=torch.float64, device=self.device)
        with _together():
            dist.all_reduce(tensor, dist.ReduceOp.MIN)
        return float(tensor)

    def sum_gradients(
        self, parameters: Iterable[Tensor], losses: Sequence[float]
    ) -> Sequence[float]:
        """Add up the gradients of all processes, in place, and their losses.

        One message for all: a small model has many short gradients.

        Args:
            parameters: in the same order in every process; a gradient that is None counts as zero.
            losses: of this process.

        Returns:
            The losses summed over all processes.
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
    """Join the process group if `torchrun` started this process.

    Raises:
        UsageError: there are more processes on this host than GPUs, or WORLD_SIZE was not set
            by `torchrun`.
        LostProcess: the other processes do not join.
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
