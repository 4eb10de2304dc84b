"""The conditions of a benchmark: machine, versions and command line."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dragoman_load_test.machine import cpu_name

from dragoman.kernel.processors import usable_processors

_VARIABLES = ("OMP_", "GOMP_", "KMP_", "CT2_", "ONEDNN_", "DNNL_", "MKL_", "DRAGOMAN_ISA")
"""Prefixes of environment variables that affect speed."""
_PACKAGES = (
    *("dragoman", "dragoman-client", "onnxruntime", "nvidia-pytriton", "tritonclient"),
    *("ctranslate2", "sentencepiece", "numpy", "sacrebleu"),
)


def conditions(module: str, words: Sequence[str], load_1min: float) -> dict[str, Any]:
    """The machine, the versions and the command line of a measurement.

    Args:
        module: the module that was run.
        words: the command line after the module's name.
        load_1min: load average when the program started.
    """
    return {
        "command": shlex.join(["python", "-m", module, *words]),
        "cpu": cpu_name(),
        "cores": len(usable_processors()),
        "load_average_1min_at_start": load_1min,
        "environment": {k: v for k, v in os.environ.items() if k.startswith(_VARIABLES)},
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    }


def close(
    module: str,
    words: Sequence[str],
    load_1min: float,
    results: Mapping[str, Any],
    path: Path | None,
) -> None:
    """Finish a benchmark: print the conditions, and write all results as JSON.

    Args:
        module: the module that was run.
        words: the command line after the module's name.
        load_1min: load average when the program started.
        results: the results; must be JSON values.
        path: of the file; None: no file is written.
    """
    found = conditions(module, words, load_1min)
    print(f"\n{found['cpu']}, {found['cores']} cores: {found['command']}")
    if path is not None:
        path.write_text(json.dumps({**found, **results}, indent=1) + "\n", encoding="utf-8")
