"""Time of one training step on this machine, on random ids, in bf16 or, if that is slow, fp32.

`--parity` first compares the loss and the gradients of a small batch with those of the CPU in fp32,
and fails if they differ.
"""

from __future__ import annotations

import argparse
import operator
import statistics
import sys
import time
from pathlib import Path

import torch
from dragoman_training.config import AlignmentConfig, resolve
from dragoman_training.network.architecture import PRESETS
from dragoman_training.network.precision import lower_dtype, set_up
from dragoman_training.network.transformer import Transformer
from dragoman_training.steps.guided_alignment import GuidedAlignment
from dragoman_training.steps.loss import projected_cross_entropy
from torch import Tensor

from dragoman.kernel.errors import CheckFailed
from lab.measurement import Results, number, option, program

SENTENCES, LENGTH = 230, 9
_TOLERANCES = {torch.float32: (1e-4, 1e-4), torch.bfloat16: (1e-2, 3e-2)}
"""Of the loss, and of the gradients as one vector, relative to the CPU's in fp32. In bf16, the
gradients of a CPU differ by 1.1e-2."""


@program(
    option("--preset", choices=PRESETS, default="small"),
    option("--config", type=Path, help="a recipe, whose model is measured instead"),
    option("--set", action="append", default=[], metavar="NAME=VALUE", help="override a setting"),
    option(
        "--guided", action="store_true", help="guide a head, each target token linked to a source"
    ),
    option("--device", choices=("cpu", "cuda"), default="cpu"),
    option("--parity", action="store_true", help="compare with the CPU in fp32 first"),
    number("--sentences", SENTENCES),
    number("--length", LENGTH),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print the median of ten steps.

    Raises:
        CheckFailed: the device computes something else than the CPU.
    """
    device = torch.device(arguments.device)
    set_up(device, tf32=False)
    settings = [] if arguments.config else [f"model.preset={arguments.preset}", "model.norm=pre"]
    torch.manual_seed(0)
    model = Transformer(resolve(arguments.config, [*settings, *arguments.set]).model)
    is_equal = not arguments.parity or check_parity(model, device)
    results = measure(model, device, arguments.sentences, arguments.length, arguments.guided)
    if not is_equal:
        raise CheckFailed(f"{device.type} and the CPU in fp32 differ")
    return results


def loss_of(model: Transformer, ids: Tensor, keep_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Summed loss of a batch whose targets are its sources."""
    lowered = dtype != torch.float32
    with torch.autocast(ids.device.type, dtype if lowered else None, enabled=lowered):
        hidden = model(ids, keep_mask, ids).flatten(0, 1)
        return projected_cross_entropy(hidden, model.embedding.weight, ids.flatten(), 0.1)


def check_parity(model: Transformer, device: torch.device) -> bool:
    """Compare loss and gradients of a padded batch with the CPU's in fp32; print the differences.

    Returns:
        Whether all are within the tolerances.
    """
    model.eval()  # dropout differs between devices
    ids = torch.randint(4, model.config.vocab_size, (8, 17))
    keep_mask = torch.arange(17) < torch.randint(5, 18, (8, 1))

    def measured(device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        model.to(device).zero_grad(set_to_none=True)
        loss = loss_of(model, ids.to(device), keep_mask.to(device), dtype) / ids.numel()
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        return loss.detach().cpu(), torch.cat([gradient.flatten().cpu() for gradient in gradients])

    right = measured(torch.device("cpu"), torch.float32)
    are_equal = True
    for dtype, tolerances in _TOLERANCES.items():
        differences = [
            float((value - expected).norm() / expected.norm())
            for value, expected in zip(measured(device, dtype), right, strict=True)
        ]
        within = all(map(operator.lt, differences, tolerances))
        are_equal = are_equal and within
        result = "ok  " if within else "FAIL"
        loss, gradients = differences
        print(f"{result}  {device.type} {dtype}: loss {loss:.1e}, gradients {gradients:.1e} apart")
    model.zero_grad(set_to_none=True)
    model.train()
    return are_equal


def measure(
    model: Transformer, device: torch.device, sentences: int, length: int, is_guided: bool
) -> Results:
    """Print the median time of ten steps."""
    model.to(device)
    dtype = lower_dtype("auto", device) or torch.float32
    guided = GuidedAlignment(model, AlignmentConfig(weight=0.05)) if is_guided else None
    linked = torch.eye(length, dtype=torch.bool, device=device).expand(sentences, -1, -1)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    ids = torch.randint(4, model.config.vocab_size, (sentences, length), device=device)
    keep_mask = torch.ones_like(ids, dtype=torch.bool)
    elapsed_s = []
    for _ in range(13):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model, ids, keep_mask, dtype)
        if guided:
            loss = loss + guided.weight * guided.loss(linked)
        (loss / ids.numel()).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()  # waits for the device
        optimizer.step()
        elapsed_s.append(time.perf_counter() - begin)
    median_s = statistics.median(elapsed_s[3:])
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{parameters / 1e6:.1f} M parameters, {ids.numel()} target tokens a step:")
    speed = f"{median_s * 1000:.0f} ms a step, {ids.numel() / median_s:.0f} target tokens/s"
    print(f"{speed}, {device.type}, {dtype}")
    return {"parameters": parameters, "tgt_tokens": ids.numel(), "step_s": elapsed_s[3:]}


if __name__ == "__main__":
    sys.exit(main())
