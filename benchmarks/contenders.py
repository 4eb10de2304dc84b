"""The two that are compared, behind one interface: texts in, translations and seconds out.

Knows how each is started and driven; must not know test sets, rounds or tables.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from dragoman_client import Translator

from dragoman.errors import DragomanError
from serving.launcher import ServeOptions, TritonServer

SOURCE_LANGUAGE, TARGET_LANGUAGE = "en", "de"
LENGTH_PENALTY = 0.6
_PROJECT = Path(__file__).parents[1]
_REQUEST_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Output:
    """A translation; `tokens` without the end symbol, `cut` if the limit of tokens ended it."""

    text: str
    tokens: int
    cut: bool
    ids: tuple[int, ...] | None = None
    """Token ids, from who tells them."""


@dataclass(frozen=True)
class Run:
    """What a contender made of some texts, and the seconds it took, tokenisation included."""

    elapsed_s: float
    outputs: tuple[Output, ...]


class Contender(Protocol):
    """Something that translates."""

    def translate(self, texts: Sequence[str], beam_width: int, batch_size: int) -> Run:
        """Translate texts in their order, one batch after the other.

        Args:
            texts: what to translate.
            beam_width: 1 for greedy search.
            batch_size: texts in a request.
        """
        ...


class ServedModel:
    """Triton with the model `translate`, through our client over gRPC."""

    def __init__(self, repository: Path) -> None:
        """Start a server on free ports.

        Args:
            repository: a model repository.

        Raises:
            DragomanError: it did not start.
        """
        options = ServeOptions(repository, http_port=0, grpc_port=0, metrics_port=0)
        self._server = TritonServer(options)
        self._translator = Translator(self._server.grpc_url, timeout_s=_REQUEST_TIMEOUT_S)

    def __enter__(self) -> Self:
        """The contender itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self._translator.close()
        self._server.stop()

    def translate(self, texts: Sequence[str], beam_width: int, batch_size: int) -> Run:
        """See `Contender.translate`; the clock runs in the client, so over the network stack."""
        found = []
        begin = time.perf_counter()
        for start in range(0, len(texts), batch_size):
            found += self._translator.translate(
                texts[start : start + batch_size],
                source_language=SOURCE_LANGUAGE,
                target_language=TARGET_LANGUAGE,
                beam_width=beam_width,
                length_penalty=LENGTH_PENALTY,
            )
        elapsed_s = time.perf_counter() - begin
        return Run(
            elapsed_s,
            tuple(Output(t.text, t.output_tokens, t.finish_reason == "length") for t in found),
        )


@dataclass(frozen=True)
class Threads:
    """CTranslate2's two ways to use cores: within a batch (`intra`), and batches beside each other.

    Source: https://opennmt.net/CTranslate2/parallel.html
    """

    intra: int
    inter: int

    def __str__(self) -> str:
        """As the tables name it."""
        return f"intra {self.intra}, inter {self.inter}"


class CTranslate2Process:
    """CTranslate2 in a process of its own; the clock runs inside it."""

    def __init__(self, model: Path, bundle: Path, threads: Threads) -> None:
        """Start the process and wait until it has loaded the model.

        Args:
            model: folder written by `benchmarks.ctranslate2_model`.
            bundle: the bundle of the same weights, for its vocabulary and limits.
            threads: CTranslate2's settings.

        Raises:
            DragomanError: it did not start.
        """
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.ctranslate2_worker"),
                *("--model", str(model.resolve()), "--bundle", str(bundle.resolve())),
                *("--intra-threads", str(threads.intra), "--inter-threads", str(threads.inter)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=_PROJECT,
        )
        try:
            self.version: str = self._read()["version"]
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
        request: dict[str, Any] = {
            "texts": list(texts),
            "target_language": TARGET_LANGUAGE,
            "beam_width": beam_width,
            "batch_size": batch_size,
            "length_penalty": LENGTH_PENALTY,
        }
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # then there is nothing to read either
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        answer = self._read()
        rows = zip(answer["texts"], answer["ids"], answer["cut"], strict=True)
        outputs = tuple(Output(text, len(ids), cut, tuple(ids)) for text, ids, cut in rows)
        return Run(answer["elapsed_s"], outputs)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DragomanError("the CTranslate2 process ended; its traceback above says why")
        answer: dict[str, Any] = json.loads(line)
        return answer
