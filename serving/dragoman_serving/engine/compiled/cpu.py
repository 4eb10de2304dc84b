"""Instruction sets, and checks whether this machine's CPU has them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

INSTRUCTION_SETS = {
    "avx512vnni": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"},
    "avxvnni": {"avx2", "fma", "f16c", "avx_vnni"},
    "avx2": {"avx2", "fma", "f16c"},
    "neon": {"asimddp"},
    "c": set[str](),
}
"""Instruction sets that the library is compiled for, fastest first, with their flags in Linux."""
_CPUINFO = Path("/proc/cpuinfo")
_EXACT = {"avx512_vnni", "avx_vnni", "asimddp"}
"""Flags of instructions that sum 8-bit products without saturating at 16 bits."""


def has_instruction_set(name: str, cpuinfo: Path = _CPUINFO) -> bool:
    """Whether this CPU has one of `INSTRUCTION_SETS`."""
    return flags(cpuinfo) >= INSTRUCTION_SETS[name]


def exact_int8_products(cpuinfo: Path = _CPUINFO) -> bool:
    """Whether ONNX Runtime's 8-bit products are exact on this CPU.

    Without such instructions, it sums pairs of products in 16 bits on x86, where they saturate. The
    compiled library's products are exact on every CPU.

    Source: https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html
    """
    return bool(flags(cpuinfo) & _EXACT)


@cache
def flags(cpuinfo: Path = _CPUINFO) -> frozenset[str]:
    """Returns the CPU's flags from Linux; empty if they are not available."""
    try:
        return frozenset(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    except OSError:
        return frozenset()
