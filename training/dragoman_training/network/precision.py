"""Number format of matrix products on a device."""

from __future__ import annotations

from functools import cache

import torch

from dragoman_training.network.architecture import Precision

_LOWER = {"bf16": torch.bfloat16, "fp16": torch.float16}


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
