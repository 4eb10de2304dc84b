"""Every instruction set gives the same tokens and scores, to the last bit."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from dragoman_serving.engine.compiled import library
from dragoman_serving.engine.compiled.weights import load_weights
from dragoman_serving.engine.sentence import Sentence
from libraries import extensions

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Manifest
from tests import debian
from tests.conftest import REPOSITORY
from tests.digests import digests

FEW, MANY = {"c": 20}, {"c": 60}
"""Number of sentences for an instruction set that takes minutes for more of them."""
FEW_CASES = ["greedy", "sampling", "beam 4, constraints, details"]
"""Cases of `FEW`, which use all kernels; others differ from them in the search."""
CAPACITY = 512
"""Capacity of `decode.c`."""
EMULATED = 20
"""Number of sentences, for which an emulated CPU takes up to a minute."""


@pytest.mark.parametrize("name", library.usable_instruction_sets())
@pytest.mark.parametrize(
    ("numbers", "default"), [(FEW, 60), pytest.param(MANY, 600, marks=pytest.mark.thorough)]
)
def test_digests_equal_the_committed_ones(name: str, numbers: dict[str, int], default: int) -> None:
    words = ["--sentences", str(numbers.get(name, default))]
    if numbers is FEW and name in FEW:
        words += ["--cases", *FEW_CASES]
    done = subprocess.run(
        [sys.executable, "-m", "tests.digests", *words],
        cwd=REPOSITORY,
        env={**os.environ, library.VARIABLE: name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{name}: 0 of ")


@pytest.mark.thorough
@pytest.mark.skipif(platform.machine() != "x86_64", reason="qemu is unpacked for x86-64")
@pytest.mark.parametrize("name", ["neon", "c"])
def test_an_emulated_arm_cpu_gives_the_same_results(name: str, tmp_path: Path) -> None:
    command = [_emulator(tmp_path), str(_compile(name, tmp_path))]
    right = digests.read()
    for case in ("greedy", "beam 4", "sampling"):
        sentences = digests.read_sentences(digests.CASES[case], EMULATED)
        hashes = digests.digests(_decode(command, sentences, tmp_path))
        assert hashes == right[case][: EMULATED // digests.BLOCK]


def _compile(name: str, folder: Path) -> Path:
    """A program without shared libraries, for aarch64."""
    (library,) = (
        extension
        for extension in extensions("aarch64", "ziglang")
        if extension.name.endswith(f"_kernels_{name}")
    )
    program = folder / "decode"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static"]
    command += [*library.extra_compile_args, "-I", str(Path(library.sources[0]).parent)]
    command += ["tests/digests/decode.c", *library.sources, "-o", str(program)]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return program


def _emulator(folder: Path) -> str:
    return str(debian.unpack(folder / "system", "qemu-user-static") / "usr/bin/qemu-aarch64-static")


def _decode(command: list[str], sentences: list[Sentence], folder: Path) -> list[Hypothesis]:
    """The program's results for sentences of one beam width."""
    manifest = Manifest.load(digests.BUNDLE)
    limits, ids = manifest.limits, manifest.special_ids
    longest = max(limits.max_source_tokens, limits.max_target_tokens)
    weights = load_weights(digests.BUNDLE / manifest.weights, manifest.dimensions, longest)
    weights.block.tofile(folder / "weights")
    numbers = [
        number
        for sentence in sentences
        for number in (len(sentence.src_ids), sentence.max_tokens, *sentence.src_ids)
    ]
    np.array(numbers, "<i8").tofile(folder / "sources")
    width, constraints = sentences[0].options.beam_width, sentences[0].options.constraints
    words: list[object] = [width, ids.begin, ids.end]
    if constraints is not None:
        sampling = digests.SAMPLING
        _random_numbers(sentences).tofile(folder / "numbers")
        words += ["numbers", sampling.temperature, sampling.top_k, sampling.top_p]
    done = subprocess.run(
        [*command, "weights", "sources", *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = sorted(
        (line.split() for line in done.stdout.splitlines()), key=lambda fields: int(fields[0])
    )
    is_scored = width > 1 or constraints is not None
    return [
        Hypothesis(
            ids=tuple(map(int, tokens)),
            log_prob=float.fromhex(score) if is_scored else None,
            complete=complete == "1",
        )
        for _, complete, score, *tokens in lines
    ]


def _random_numbers(sentences: list[Sentence]) -> npt.NDArray[np.float64]:
    """The random numbers with which the engine samples, in rows of the program's capacity."""
    numbers = np.zeros((len(sentences), CAPACITY), "<f8")
    for row, sentence in zip(numbers, sentences, strict=True):
        assert sentence.options.constraints
        assert sentence.options.constraints.sampling
        generator = np.random.Generator(
            np.random.Philox(sentence.options.constraints.sampling.seed)
        )
        row[: sentence.max_tokens] = generator.random(sentence.max_tokens)
    return numbers
