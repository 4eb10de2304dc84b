"""The contenders, which run in separate processes and are used over pipes."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from dragoman.kernel.errors import DragomanError, UsageError
from lab.measurement import PROJECT
from lab.peers.workers.worker_protocol import Answer, BatchSearch, Inputs, write_request

Precision = Literal["fp32", "int8"]
ComputeType = Literal["float32", "int8"]


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


@dataclass(frozen=True)
class PeerSetting:
    """The settings with which CTranslate2's process is started."""

    compute_type: ComputeType
    threads: Threads

    def __str__(self) -> str:
        """Its name in the tables."""
        return f"{self.compute_type}, {self.threads}"


class WorkerProcess:
    """A contender in its own process, which also measures the time."""

    def __init__(
        self, module: str, words: Sequence[str], python: Path = Path(sys.executable)
    ) -> None:
        """Start the process and wait until it has loaded the model.

        Args:
            module: implements `lab.peers.workers.worker_protocol`.
            words: its command line.
            python: interpreter that runs it.

        Raises:
            DragomanError: it did not start.
        """
        self._module = module
        self._process = subprocess.Popen(
            [str(python), "-m", module, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=PROJECT,
        )
        self.pid = self._process.pid
        self.peak_bytes = 0
        """Peak resident memory up to the last answer."""
        try:
            greeting = self._read()
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

    def run(self, inputs: Inputs, search: BatchSearch) -> Answer:
        """Translate sentences in order, one batch after the other.

        Raises:
            DragomanError: the process ended.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is nothing to read either
            self._process.stdin.write(write_request(inputs, search) + "\n")
            self._process.stdin.flush()
        answer = Answer(**self._read())
        self.peak_bytes = answer.peak_bytes
        return answer

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DragomanError(f"the process of {self._module} ended; see its output above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def start_peer(
    model: Path, bundle: Path, setting: PeerSetting, endless: bool = False
) -> WorkerProcess:
    """CTranslate2 with a model of `models.ctranslate2_model`, and the bundle of its weights.

    If `endless`, it generates up to the token limit in every translation.

    Raises:
        DragomanError: it did not start.
    """
    words = peer_words(model, bundle, setting, endless)
    return WorkerProcess("lab.peers.workers.ctranslate2_worker", words)


def peer_words(model: Path, bundle: Path, setting: PeerSetting, endless: bool) -> list[str]:
    """The command line of a peer's worker."""
    threads = setting.threads
    return [
        *("--model", str(model.resolve()), "--bundle", str(bundle.resolve())),
        *("--intra-threads", str(threads.intra), "--inter-threads", str(threads.inter)),
        *("--compute-type", setting.compute_type, *["--endless"] * endless),
    ]


def start_engine(
    bundle: Path, precision: Precision, takes: Literal["texts", "ids"], endless: bool = False
) -> WorkerProcess:
    """Our engine, without Triton, for one kind of inputs.

    If `endless`, it generates up to the token limit in every translation of ids.

    Raises:
        DragomanError: it did not start.
    """
    words = ["--bundle", str(bundle.resolve()), "--precision", precision, "--input", takes]
    return WorkerProcess("lab.peers.workers.engine_worker", words + ["--endless"] * endless)


@contextlib.contextmanager
def converted(bundle: Path) -> Iterator[Path]:
    """CTranslate2's temporary model of a bundle or checkpoint.

    The conversion runs in its own process, to keep this one small.

    Raises:
        DragomanError: CTranslate2 is missing, or the conversion failed.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise UsageError("ctranslate2 is not installed: pip install 'dragoman[benchmark]'")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model"
        command = [
            sys.executable,
            "-m",
            "lab.peers.models.ctranslate2_model",
            str(bundle.resolve()),
        ]
        if subprocess.run([*command, "--out", str(model)], cwd=PROJECT).returncode:
            raise DragomanError(f"{bundle}: could not be converted; see the message above")
        yield model
