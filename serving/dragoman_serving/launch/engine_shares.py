"""How many engine processes a server has, and the share of each: workers and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.processors import usable_cores
from dragoman_serving.launch.repository import BundleList, Repository
from dragoman_serving.models.footprint import check_memory
from dragoman_serving.models.loading import GPU_RUNTIMES
from dragoman_serving.models.routes import read_bundles
from dragoman_serving.service.configuration import engine_settings
from dragoman_serving.service.models_to_serve import ModelsToServe

CORES_PER_ENGINE = 2
"""Cores for which a server has one more engine process by default. All workers of a process share
the interpreter's lock, and wait for it the longer, the more there are. Computed for 8 cores
(`lab.served.interpreter`; table in docs/scaling.md), 4 processes do 7 to 28 % more than 2, and 8
another 3 to 9 %. Two processes on two cores are as fast as one; each costs 40 MB."""
MOST_ENGINES = 64
"""Also in relay/relay.h."""


@dataclass(frozen=True)
class Share:
    """What one engine process gets.

    Attributes:
        parameters: settings of the engine, and rules for requests.
        to_serve: the bundles, with the process's memory limit.
    """

    parameters: Mapping[str, str]
    to_serve: ModelsToServe


def default_engines(repository: Repository | BundleList) -> int:
    """Returns the number of engine processes for this machine: one for every few workers.

    It is smaller if a memory limit has no space for as many, and 1 on a GPU.
    """
    layout = repository.layout
    if layout is None or layout.runtime in GPU_RUNTIMES:
        return 1
    workers = engine_settings(repository.parameters).workers or usable_cores()
    number = min(max(1, workers // CORES_PER_ENGINE), MOST_ENGINES)
    while number > 1:
        try:
            engine_shares(repository, number)
        except UsageError:
            number -= 1
        else:
            break
    return number


def engine_shares(repository: Repository | BundleList, number: int) -> list[Share]:
    """Divides the workers and the memory limit of a server.

    Args:
        repository: what is served; for one process, it was checked when it was read.
        number: number of engine processes.

    Raises:
        UsageError: the number is out of range, or a share is too small.
    """
    if not 1 <= number <= MOST_ENGINES:
        raise UsageError(f"--engines {number}: give 1 to {MOST_ENGINES}")
    parameters, to_serve, layout = repository.parameters, repository.to_serve, repository.layout
    if number == 1:
        return [Share(parameters, to_serve)]
    if layout is None:
        raise UsageError(f"--engines {number}: the model translate has a backend of Triton's own")
    settings = engine_settings(parameters)
    if settings.workers is not None and settings.workers < number:
        raise UsageError(
            f"--engines {number}: more than workers, of which there are {settings.workers}"
        )
    if to_serve.memory_bytes is not None:
        to_serve = replace(to_serve, memory_bytes=to_serve.memory_bytes // number)
    shares = [Share(parameters, to_serve)] * number
    if layout.runtime not in GPU_RUNTIMES:
        most = settings.workers or settings.tuning.workers_most
        workers = settings.workers or usable_cores()
        parts = (workers // number + (index < workers % number) for index in range(number))
        own = (min(max(part, 1), most) for part in parts)
        shares = [Share({**parameters, "workers": str(part)}, to_serve) for part in own]
    _check_memory(shares[0], number)  # which has the most workers
    return shares


def _check_memory(share: Share, number: int) -> None:
    memory_bytes = share.to_serve.memory_bytes
    if memory_bytes is None:
        return
    bundles = read_bundles([Path(folder) for folder in share.to_serve.bundles])
    try:
        check_memory(memory_bytes, bundles, engine_settings(share.parameters))
    except UsageError as error:
        message = f"--engines {number} divides --memory by {number}. For each process: {error}"
        raise UsageError(message) from error
