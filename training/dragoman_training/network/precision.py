"""Number format and kernels of matrix products on a device."""

from __future__ import annotations

from functools import cache

import torch

from dragoman_training.network.architecture import Precision

_LOWER = {"bf16": torch.bfloat16, "fp16": torch.float16}


def set_up(device: torch.device, tf32: bool) -> None:
    """Choose the kernels of a device, for the whole process.

    Args:
        device: that computes.
        tf32: round the products of fp32 to TF32 on GPUs that have it.
    """
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    if device.type == "cuda":
        # PyTorch 2.11 prefers cuDNN's attention on compute capability 9.x, which builds a plan for
        # every new shape, about a second each. Nearly every batch has a new shape.
        torch.backends.cuda.enable_cudnn_sdp(False)


def padding_multiple(device: torch.device) -> int:
    """What a GPU's lengths are padded to a multiple of: its kernels are fastest for eights."""
    return 8 if device.type == "cuda" else 1


@cache
def computes_bf16(device: torch.device) -> bool:
    """Whether a device multiplies in bf16 natively; others are several times slower in it."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in ("avx512_bf16", "amx_bf16"))


def lower_dtype(precision: Precision, device: torch.device) -> torch.dtype | None:
    """The dtype of products if it is lower than fp32, or None for fp32."""
    if precision == "auto":
        return torch.bfloat16 if computes_bf16(device) else None
    return _LOWER.get(precision)
