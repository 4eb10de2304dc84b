"""The compiled code with address, thread and undefined-behaviour sanitizers, without a server.

A fuzzer in C sends damaged frames to the relay, within an imitation of Triton. The native library
runs its unit tests in a copy of the source tree.
"""

from __future__ import annotations

import json
import os
import platform
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dragoman_serving.engine.compiled.library import choose_instruction_set
from setuptools import Extension

from tests.campaigns.outcome import Outcome
from tests.campaigns.plan import Plan

_ROOT = Path(__file__).parents[2]
_RELAY = "dragoman_serving.relay._relay"
_LIBRARY = f"dragoman_serving.engine.compiled._kernels_{choose_instruction_set()}"
_FUZZER = (str(Path(__file__).parent / "relay/fuzz.c"), str(_ROOT / "tests/relay/imitation.c"))
_INCLUDE = (f"-I{_ROOT / 'serving/dragoman_serving/relay'}", f"-I{_ROOT / 'tests/relay'}")
_SANITIZE = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
_RACES = ("-g", "-O1", "-fsanitize=thread")
_COPIED = ("dragoman", "training", "export", "serving", "tests", "client")
_TESTS = (
    "tests/unit/serving/engine/compiled/test_native.py",
    "client/tests/options/test_frames.py",
)
_ROOTS = ("", "client/src", "export", "serving", "training")
"""Folders that contain the packages."""
_LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so")
_MOST_S = 300
_MARKS = (
    *("ERROR: AddressSanitizer", "ERROR: LeakSanitizer"),
    *("WARNING: ThreadSanitizer", "runtime error:"),
)


def run(plan: Plan) -> Outcome:
    """Build with sanitizers, fuzz the relay, and test the native library."""
    outcome = Outcome("frames")
    with tempfile.TemporaryDirectory() as folder:
        memory, threads = plan.of(200_000, 40_000), plan.of(20_000, 5_000)
        _fuzz_relay(outcome, Path(folder), "relay: memory", _SANITIZE, memory, plan.seed)
        _fuzz_relay(outcome, Path(folder), "relay: threads", _RACES, threads, plan.seed)
        _test_library(outcome, Path(folder))
    return outcome


def _fuzz_relay(
    outcome: Outcome, folder: Path, name: str, sanitize: Sequence[str], rounds: int, seed: int
) -> None:
    (folder := folder / name).mkdir()
    program = folder / "fuzz"
    flags = [*_flags(_RELAY), *sanitize, *_INCLUDE]
    _compile([*flags, *_sources(_RELAY), *_FUZZER, "-pthread", "-o", str(program)])
    command = [str(program), str(rounds), str(seed), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_S, check=False)
    report = json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}
    outcome.figures[name] = report
    outcome.requests += report.get("frames", 0)
    outcome.lost += abs(report.get("requests", 0) - report.get("released", 0))
    outcome.lost += abs(report.get("responses", 0) - report.get("sent", 0))
    _note(outcome, name, done)


def _test_library(outcome: Outcome, folder: Path) -> None:
    for name in _COPIED:
        ignored = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
        shutil.copytree(_ROOT / name, folder / name, ignore=ignored)
    shutil.copy(_ROOT / "pyproject.toml", folder)
    target = folder / "serving" / f"{_LIBRARY.replace('.', '/')}.so"
    flags = [*_flags(_LIBRARY), *_SANITIZE, "-fPIC", "-shared"]
    _compile([*flags, *_sources(_LIBRARY), "-o", str(target), "-lm"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *_TESTS],
        cwd=folder,
        env=_environment(folder),
        capture_output=True,
        text=True,
        timeout=_MOST_S,
        check=False,
    )
    outcome.figures["native library"] = (done.stdout.strip().splitlines() or ["no output"])[-1]
    outcome.requests += 1
    _note(outcome, "native library", done)


def _environment(folder: Path) -> dict[str, str]:
    """Python is not built with the sanitizer, so its library must be loaded first."""
    paths = (_output(["gcc", f"-print-file-name={name}"]) for name in _LIBRARIES)
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(paths),
        # Python never frees some of its memory, and PyTorch changes the order of libraries.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1:verify_asan_link_order=0",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": ":".join(str(folder / root) for root in _ROOTS),
    }


def _note(outcome: Outcome, name: str, done: subprocess.CompletedProcess[str]) -> None:
    """Count a failure as a crash, and keep the sanitizer's first lines."""
    if done.returncode == 0:
        return
    outcome.crashes += 1
    lines = (done.stdout + done.stderr).splitlines()
    begin = next((n for n, line in enumerate(lines) if any(mark in line for mark in _MARKS)), -15)
    outcome.figures[f"{name}: what failed"] = "\n    ".join(lines[begin:][:15])


def _compile(arguments: list[str]) -> None:
    subprocess.run(["gcc", *arguments], cwd=_ROOT, check=True, timeout=_MOST_S)


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _extension(name: str) -> Extension:
    libraries = runpy.run_path(str(_ROOT / "build_backend/libraries.py"))
    extensions: list[Extension] = libraries["extensions"](platform.machine(), development=True)
    return next(extension for extension in extensions if extension.name == name)


def _sources(name: str) -> list[str]:
    return list(map(str, _extension(name).sources))


def _flags(name: str) -> list[str]:
    flags = _extension(name).extra_compile_args
    return [flag for flag in flags if not flag.startswith("-O") and flag != "-Werror"]
