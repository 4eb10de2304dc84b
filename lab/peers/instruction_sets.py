"""Restricts both sides to one instruction set, and reads what CTranslate2 reports that it uses.

CT2_FORCE_CPU_ISA affects only CTranslate2's own kernels. Matrix products are done by a library:
oneDNN, or oneMKL on Intel's CPUs (CT2_USE_MKL chooses it elsewhere). Each has its own variable,
which is only an upper limit: on a CPU without the instruction set it uses a lesser one, and an
unknown value changes nothing. So a probe translates in the same environment, and its log must name
the instruction set.

Source:
    https://opennmt.net/CTranslate2/environment_variables.html
    https://uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html
    https://intel.com/content/www/us/en/docs/onemkl/developer-guide-linux/2025-0/instruction-set-specific-dispatch-on-intel-archs.html
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from dragoman_serving.engine.compiled.library import choose_instruction_set

from dragoman.kernel.errors import CheckFailed, DragomanError, UsageError
from lab.measurement import PROJECT
from lab.peers.processes import ComputeType

InstructionSet = Literal["avx2", "avxvnni", "avx512vnni"]
"""Our names of the instruction sets that both sides support."""
INSTRUCTION_SETS: tuple[InstructionSet, ...] = get_args(InstructionSet)
_VERBOSE = {"CT2_VERBOSE": "1", "ONEDNN_VERBOSE": "1", "MKL_VERBOSE": "1"}
_PROBE = """import sys, ctranslate2
model, compute_type = sys.argv[1:]
options = {"device": "cpu", "compute_type": compute_type, "intra_threads": 1}
translator = ctranslate2.Translator(model, **options)
translator.translate_batch([["a"]], beam_size=1, max_decoding_length=2)
"""
"""Translates one token, which need not be in the vocabulary: a library logs what it uses on first
use."""
_SELECTED = re.compile(r"Selected ISA: (\S+)")
_BACKEND = re.compile(r"- (?:SGEMM|GEMM_S8) backend: (\S+)")
_LIBRARIES = {"DNNL": "oneDNN", "MKL": "oneMKL"}
"""Matrix libraries, by CTranslate2's names."""
_REPORTS = {
    "oneDNN": re.compile(r"^onednn_verbose,.*\bcpu,isa:(.*)$", re.MULTILINE),
    "oneMKL": re.compile(r"^MKL_VERBOSE .* architecture (.*), Lnx ", re.MULTILINE),
}


@dataclass(frozen=True)
class PeerReport:
    """What CTranslate2 and its matrix libraries log that they use.

    Attributes:
        ctranslate2: the instruction set of its own kernels; None if it logged none.
        libraries: that of each library in use; None if it logged none.
    """

    ctranslate2: str | None
    libraries: Mapping[str, str | None]

    def __str__(self) -> str:
        """As text, such as: CTranslate2 AVX2, oneDNN Intel AVX2."""
        named = {"CTranslate2": self.ctranslate2, **self.libraries}
        return ", ".join(f"{name} {reported or 'unknown'}" for name, reported in named.items())


@dataclass(frozen=True)
class _Names:
    """An instruction set in the terms of CTranslate2, oneDNN and oneMKL: values, then reports."""

    ctranslate2: str
    onednn: str
    mkl: str
    onednn_reports: str
    mkl_reports: str


_NAMES = {
    "avx2": _Names(
        ctranslate2="AVX2",
        onednn="AVX2",
        mkl="AVX2",
        onednn_reports="Intel AVX2",
        mkl_reports="Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX2) enabled processors",
    ),
    "avxvnni": _Names(
        ctranslate2="AVX2",
        onednn="AVX2_VNNI",
        mkl="AVX2_E1",
        onednn_reports="Intel AVX2 with Intel DL Boost",
        mkl_reports="Intel(R) Advanced Vector Extensions 2 (Intel(R) AVX-2) "
        "with support of Intel(R) Deep Learning Boost (Intel(R) DL Boost)",
    ),
    "avx512vnni": _Names(
        ctranslate2="AVX512",
        onednn="AVX512_CORE_VNNI",
        mkl="AVX512_E1",
        onednn_reports="Intel AVX-512 with Intel DL Boost",
        mkl_reports="Intel(R) Advanced Vector Extensions 512 (Intel(R) AVX-512) "
        "with support of Intel(R) Deep Learning Boost (Intel(R) DL Boost)",
    ),
}


def hold(requested: InstructionSet | None) -> InstructionSet:
    """Restrict all processes that are started from now on to one instruction set.

    It is the one asked for, or else the one that our library chooses here.

    Raises:
        UsageError: this CPU lacks it, our library was not compiled for it, or the peer cannot be
            restricted to it.
    """
    if requested is not None:
        os.environ["DRAGOMAN_ISA"] = requested
    chosen = choose_instruction_set()
    if chosen not in INSTRUCTION_SETS:
        raise UsageError(
            f"our library uses {chosen or 'no compiled code'} here, and CTranslate2 cannot be "
            f"restricted to that: give --isa one of {', '.join(INSTRUCTION_SETS)}"
        )
    os.environ.update(environment(chosen))
    return chosen


def environment(instruction_set: InstructionSet) -> dict[str, str]:
    """Variables that restrict both sides to an instruction set."""
    names = _NAMES[instruction_set]
    return {
        "DRAGOMAN_ISA": instruction_set,
        "CT2_FORCE_CPU_ISA": names.ctranslate2,
        "ONEDNN_MAX_CPU_ISA": names.onednn,
        "MKL_ENABLE_INSTRUCTIONS": names.mkl,
    }


def probe_peer(model: Path, compute_type: ComputeType) -> PeerReport:
    """What CTranslate2 uses in a process that inherits this one's environment.

    Raises:
        DragomanError: the process failed.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, str(model.resolve()), compute_type],
        env={**os.environ, **_VERBOSE},
        cwd=PROJECT,
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise DragomanError(f"CTranslate2 in {compute_type} does not translate: {last}")
    return read_report(done.stdout + done.stderr)


def read_report(log: str) -> PeerReport:
    """Parse the log of a process that translated in the environment of `probe_peer`."""
    libraries = [_LIBRARIES.get(name, name) for name in dict.fromkeys(_BACKEND.findall(log))]
    return PeerReport(
        _first(_SELECTED, log),
        {name: _first(_REPORTS[name], log) if name in _REPORTS else None for name in libraries},
    )


def check_peer(compute_type: ComputeType, report: PeerReport, expected_set: InstructionSet) -> None:
    """Check that CTranslate2 and all its libraries use an instruction set.

    Raises:
        CheckFailed: one of them does not, or did not log what it uses.
    """
    names = _NAMES[expected_set]
    reports = {"oneDNN": names.onednn_reports, "oneMKL": names.mkl_reports}
    libraries = list(report.libraries) or ["oneDNN"]
    expected = PeerReport(names.ctranslate2, {name: reports.get(name) for name in libraries})
    if report != expected or None in report.libraries.values():
        raise CheckFailed(
            f"{expected_set}, {compute_type}: the peer reports {report}; not {expected}"
        )


def check_ours(reported: str | None, expected_set: InstructionSet) -> None:
    """Check that one of our processes uses an instruction set.

    Raises:
        CheckFailed: it uses another one, or not the compiled library.
    """
    if reported != expected_set:
        raise CheckFailed(
            f"our engine uses {reported or 'no compiled code'} instead of {expected_set}"
        )


def _first(pattern: re.Pattern[str], log: str) -> str | None:
    match = pattern.search(log)
    return None if match is None else match[1].strip()
