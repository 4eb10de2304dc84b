"""Running servers of the model `translate`, ours or CTranslate2's, to put under load."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from dragoman_load_test.requests.messages import INFER, grpc_request, read_grpc_answer
from dragoman_options.table import TRANSLATE
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from dragoman.kernel.errors import CheckFailed
from lab import servers
from lab.load import LoadJob, LoadPlan, LoadResult, measure
from lab.peers.contenders import LENGTH_PENALTY, TARGET_LANGUAGE
from lab.peers.ctranslate2_repository import Setting, write_repository

SERVER, ENGINE, IDLE = "server", "engine", "idle"
"""Names in `LoadResult.cpu_s`: Triton's own process, the processes that do its model's work, and
all processes of the servers not under load."""
_CONFIG = "config.pbtxt"
_TIMEOUT_S = 60.0
_KEPT_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
"""For CTranslate2, which runs in a child of Triton's and allocates memory for each batch: with the
thresholds of 128 KiB that `dragoman serve` sets for Triton, it has 0.4 to 0.7 of its speed."""


@dataclass(frozen=True)
class Endpoint:
    """A running server.

    Attributes:
        address: host and port of gRPC.
        server_pid: Triton's own process.
        engine_pids: the processes that do its model's work.
    """

    address: str
    server_pid: int
    engine_pids: tuple[int, ...]

    def load(
        self,
        texts: Sequence[str],
        beam_width: int,
        plan: LoadPlan,
        others: Sequence[Endpoint] = (),
        more: Mapping[str, Any] | None = None,
    ) -> LoadResult:
        """Put it under load; `others` should be idle meanwhile, `more` are further options."""
        idle = [pid for other in others for pid in (other.server_pid, *other.engine_pids)]
        watched = {SERVER: [self.server_pid], ENGINE: self.engine_pids, IDLE: idle}
        options = {**_options(beam_width), **(more or {})}
        return measure(LoadJob(self.address, texts, options, plan, watched))

    def translate(self, texts: Sequence[str], beam_width: int) -> list[str]:
        """Translate one text after the other.

        Raises:
            CheckFailed: a request failed.
        """
        translations: list[str] = []
        with grpc.insecure_channel(self.address) as channel:
            call = channel.unary_unary(INFER)
            try:
                for text in texts:
                    message = call(
                        grpc_request([text], _options(beam_width), _TIMEOUT_S), timeout=_TIMEOUT_S
                    )
                    translations += read_grpc_answer(message).texts
            except (grpc.RpcError, ValueError) as error:
                raise CheckFailed(f"a request failed: {error}") from error
        return translations


@contextlib.contextmanager
def serve(repository: Path) -> Iterator[Endpoint]:
    """Start a server of the model `translate` on free ports, and stop it at the end."""
    with servers.serve(repository) as server:
        address = server.grpc_url.removeprefix("grpc://")
        yield Endpoint(address, server.pid, tuple(server.model_pids))


@dataclass(frozen=True)
class CTranslate2Servers:
    """The inputs of CTranslate2's servers: its model, and the bundle of the same weights."""

    model: Path
    bundle: Path

    @contextlib.contextmanager
    def serve(self, setting: Setting) -> Iterator[Endpoint]:
        """Start a server with a setting and stop it at the end."""
        with tempfile.TemporaryDirectory() as scratch:
            repository = Path(scratch) / "repository"
            write_repository(repository, setting, self.model, self.bundle)
            with contextlib.ExitStack() as running:
                with _environment(_KEPT_MEMORY):
                    endpoint = running.enter_context(serve(repository))
                yield endpoint


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started in the context."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def with_precision(repository: Path, precision: str, folder: Path) -> Path:
    """Write a repository with the same model, configured for a precision, into a folder."""
    source = repository.resolve() / TRANSLATE
    text = (source / _CONFIG).read_text(encoding="utf-8")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    config.parameters["precision"].string_value = precision
    model = folder / TRANSLATE
    model.mkdir(parents=True)
    (model / "1").symlink_to(source / "1", target_is_directory=True)
    (model / _CONFIG).write_text(text_format.MessageToString(config), encoding="utf-8")
    return folder


def _options(beam_width: int) -> dict[str, Any]:
    return {
        "target_language": TARGET_LANGUAGE,
        "beam_width": beam_width,
        "length_penalty": LENGTH_PENALTY,
    }
