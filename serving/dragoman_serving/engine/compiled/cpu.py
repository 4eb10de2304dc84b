"""What this machine's CPU can do."""

from __future__ import annotations

from pathlib import Path

_EXACT = {"avx512_vnni", "avx_vnni", "asimddp"}
"""Flags of instructions that add 8-bit products up without saturating at 16 bits."""


def exact_int8_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether 8-bit products are exact here.

    Without such instructions ONNX Runtime adds pairs of products up in 16 bits on x86, where they
    saturate.

    Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
    """
    return bool(flags(cpuinfo) & _EXACT)


def flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> set[str]:
    """Linux's names of the instruction sets that this CPU has; none where they are not told."""
    try:
        return set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return set()
