"""Time of one training step on this machine, on random ids, in bf16 or, if that is slow, fp32."""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch
from dragoman_training.config import AlignmentConfig, resolve
from dragoman_training.network.architecture import PRESETS
from dragoman_training.network.precision import lower_dtype
from dragoman_training.network.transformer import Transformer
from dragoman_training.steps.guided_alignment import GuidedAlignment
from dragoman_training.steps.loss import projected_cross_entropy

from lab.measurement import Results, option, program

SENTENCES, LENGTH = 230, 9


@program(
    option("--preset", choices=PRESETS, default="small"),
    option(
        "--guided", action="store_true", help="guide a head, each target token linked to a source"
    ),
)
def main(arguments: argparse.Namespace) -> Results:
    """Print the median of ten steps."""
    preset = arguments.preset
    dtype = lower_dtype("auto", torch.device("cpu"))
    config = resolve(None, [f"model.preset={preset}", "model.norm=pre"]).model
    torch.manual_seed(0)
    model = Transformer(config)
    guided = GuidedAlignment(model, AlignmentConfig(weight=0.05)) if arguments.guided else None
    linked = torch.eye(LENGTH, dtype=torch.bool).expand(SENTENCES, -1, -1)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True)
    ids = torch.randint(4, config.vocab_size, (SENTENCES, LENGTH))
    keep_mask = torch.ones(SENTENCES, LENGTH, dtype=torch.bool)
    elapsed_s = []
    for _ in range(13):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            hidden = model(ids, keep_mask, ids).flatten(0, 1)
            loss = projected_cross_entropy(hidden, model.embedding.weight, ids.flatten(), 0.1)
        if guided:
            loss = loss + guided.weight * guided.loss(linked)
        (loss / ids.numel()).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        elapsed_s.append(time.perf_counter() - begin)
    median_s = statistics.median(elapsed_s[3:])
    parameters = sum(weight.numel() for weight in model.parameters())
    print(f"{parameters / 1e6:.1f} M parameters, {ids.numel()} target tokens a step:")
    speed = f"{median_s * 1000:.0f} ms a step, {ids.numel() / median_s:.0f} target tokens/s"
    print(f"{speed}, {dtype or torch.float32}")
    return {"parameters": parameters, "tgt_tokens": ids.numel(), "step_s": elapsed_s[3:]}


if __name__ == "__main__":
    sys.exit(main())
