"""The contenders, which run in separate processes and are used over pipes."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from dragoman.kernel.errors import DragomanError, UsageError
from lab.peers.contenders import LENGTH_PENALTY, TARGET_LANGUAGE, Output, Run
from lab.peers.worker_protocol import BatchSearch, Inputs, Texts, write_request

Precision = Literal["fp32", "int8"]
ComputeType = Literal["float32", "int8"]
PROJECT = Path(__file__).parents[2]
"""Working directory of the workers."""


@dataclass(frozen=True)
class Threads:
    """CTranslate2's two kinds of threads: within a batch (`intra`), and for parallel batches.

    Source: https://opennmt.net/CTranslate2/parallel.html
    """

    intra: int
    inter: int

    def __str__(self) -> str:
        """Its name in the tables."""
        return f"intra {self.intra}, inter {self.inter}"


class WorkerProcess:
    """A contender in its own process, which also measures the time."""

    def __init__(self, module: str, words: Sequence[str]) -> None:
        """Start the process and wait until it has loaded the model.

        Args:
            module: implements `lab.peers.worker_protocol`.
            words: its command line.

        Raises:
            DragomanError: it did not start.
        """
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=PROJECT,
        )
        self.peak_bytes = 0
        """Peak resident memory up to the last answer."""
        try:
            greeting = self._read()
            self.version: str = greeting["version"]
            self.instruction_set: str | None = greeting["instruction_set"]
            """Instruction set of our compiled library; None if it is not used."""
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The contender itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the process."""
        self.close()

    def close(self) -> None:
        """Stop the process, which ends with its input."""
        self._process.communicate()

    def translate(self, texts: Sequence[str], beam_width: int, batch_size: int) -> Run:
        """See `Contender.translate`."""
        search = BatchSearch(beam_width, batch_size, LENGTH_PENALTY)
        return self.run(Texts(texts, TARGET_LANGUAGE), search)

    def run(self, inputs: Inputs, search: BatchSearch) -> Run:
        """Translate sentences in order, one batch after the other.

        Args:
            inputs: what to translate.
            search: how to search.

        Returns:
            As many outputs; with empty texts if the inputs are ids.

        Raises:
            DragomanError: the process ended.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is nothing to read either
            self._process.stdin.write(write_request(inputs, search) + "\n")
            self._process.stdin.flush()
        answer = self._read()
        self.peak_bytes = answer["peak_bytes"]
        texts = answer["texts"] or [""] * len(inputs)
        ids = answer["ids"] or [None] * len(inputs)
        rows = zip(texts, answer["tokens"], answer["cut"], ids, strict=True)
        outputs = tuple(
            Output(text, tokens, cut, None if one is None else tuple(one))
            for text, tokens, cut, one in rows
        )
        return Run(answer["elapsed_s"], outputs)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DragomanError(f"the process of {self._module} ended; see its output above")
        answer: dict[str, Any] = json.loads(line)
        return answer


class CTranslate2Process(WorkerProcess):
    """CTranslate2."""

    def __init__(
        self,
        model: Path,
        bundle: Path,
        threads: Threads,
        compute_type: ComputeType = "float32",
        endless: bool = False,
    ) -> None:
        """Start the process and wait until it has loaded the model.

        Args:
            model: folder written by `lab.peers.ctranslate2_model`.
            bundle: the bundle of the same weights, for its vocabulary and limits.
            threads: CTranslate2's settings.
            compute_type: CTranslate2's precision.
            endless: generate up to the token limit in every translation.

        Raises:
            DragomanError: it did not start.
        """
        words = [
            *("--model", str(model.resolve()), "--bundle", str(bundle.resolve())),
            *("--intra-threads", str(threads.intra), "--inter-threads", str(threads.inter)),
            *("--compute-type", compute_type),
        ]
        super().__init__("lab.peers.ctranslate2_worker", words + ["--endless"] * endless)


class EngineProcess(WorkerProcess):
    """Our engine, without Triton."""

    def __init__(
        self,
        bundle: Path,
        precision: Precision,
        takes: Literal["texts", "ids"],
        endless: bool = False,
    ) -> None:
        """Start the process and wait until it has loaded the model.

        Args:
            bundle: folder of the bundle.
            precision: the engine's.
            takes: the kind of inputs that it will get.
            endless: with ids, generate up to the token limit in every translation.

        Raises:
            DragomanError: it did not start.
        """
        words = ["--bundle", str(bundle.resolve()), "--precision", precision, "--input", takes]
        super().__init__("lab.peers.engine_worker", words + ["--endless"] * endless)


def convert_for_ctranslate2(bundle: Path, model: Path) -> None:
    """Run `lab.peers.ctranslate2_model` in its own process, to keep this one small.

    Args:
        bundle: a bundle or a checkpoint.
        model: folder to create.

    Raises:
        DragomanError: CTranslate2 is missing, or the conversion failed.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise UsageError("ctranslate2 is not installed: pip install 'dragoman[benchmark]'")
    command = [sys.executable, "-m", "lab.peers.ctranslate2_model", str(bundle.resolve())]
    if subprocess.run([*command, "--out", str(model)], cwd=PROJECT).returncode:
        raise DragomanError(f"{bundle}: could not be converted; see the message above")
