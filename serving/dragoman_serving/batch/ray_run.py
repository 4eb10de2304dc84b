"""Translates chunks with actors on a Ray cluster, or on a local Ray.

Ray Data distributes the chunks, restarts actors and moves work from lost nodes. As everywhere else,
only the parts in the output tell which chunks are finished; Ray's own checkpoints are not used. An
actor that gets a chunk again checks whether its part exists.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import ray
from ray.data import ActorPoolStrategy, DataContext, Dataset
from ray.exceptions import RayError

from dragoman.kernel.errors import DragomanError
from dragoman_serving.batch.chunk_work import ChunkWork, WorkOrder
from dragoman_serving.batch.chunks import Chunk
from dragoman_serving.batch.storage import InputFile
from dragoman_serving.batch.tally import Tally

LOCAL = "local"
_TASK_RETRIES = 20
"""Retries after an actor has died. Rows are not at fault: a row can crash the engine, not the
actor. Until Ray notices that a node is gone, it sends a task to it again and again, which also
counts: six times were seen."""
_INIT_DEATHS = 3
"""Consecutive actors that may die during their start."""
_MOST_BLOCKS = 10_000
_CHUNKS_OF_BLOCK = 2
"""Ray distributes blocks of chunks. Blocks are small, but their number is limited."""


_TOO_SLOW = "timed out during startup"
"""In the message of a Ray whose processes were not ready after its limit, 30 seconds."""


@dataclass(frozen=True)
class Cluster:
    """Where the actors run.

    Attributes:
        address: address of a cluster, or `LOCAL`.
        actors: maximum number of actors; None: as many as there are cores for.
        cores: cores of each actor.
    """

    address: str
    actors: int | None
    cores: int

    @contextlib.contextmanager
    def connected(self) -> Iterator[None]:
        """Connect, or start a local Ray.

        Raises:
            DragomanError: the cluster is not available.
        """
        logging.getLogger("ray").setLevel(logging.WARNING)
        try:
            try:
                self._connect()
            except Exception as error:
                if self.address != LOCAL or _TOO_SLOW not in str(error):
                    raise
                ray.shutdown()
                self._connect()
        except Exception as error:  # Ray raises no class of its own here
            raise DragomanError(f"--ray {self.address}: {error}") from error
        try:
            # Ray reports lost nodes on stdout, which is for results.
            with contextlib.redirect_stdout(sys.stderr):
                yield
        finally:
            ray.shutdown()

    def _connect(self) -> None:
        is_local = self.address == LOCAL
        ray.init(
            address=self.address,  # by "local", Ray joins no other cluster of this machine
            num_cpus=self.cores * (self.actors or 1) if is_local else None,
            include_dashboard=False if is_local else None,
            log_to_driver=False,
            logging_level=logging.WARNING,
        )

    @property
    def all_cores(self) -> int:
        """Cores of all actors together; only while connected."""
        return self.cores * self._most_actors

    @property
    def _most_actors(self) -> int:
        fitting = max(int(ray.cluster_resources().get("CPU", 0)) // self.cores, 1)
        return fitting if self.actors is None else self.actors

    def run(self, chunks: Sequence[Chunk], order: WorkOrder, concurrency: int) -> Iterator[Tally]:
        """Translate chunks, and yield the tally of each as soon as it is finished.

        Args:
            chunks: chunks to translate.
            order: the work on them.
            concurrency: parallel blocks of chunks per actor.

        Raises:
            DragomanError: an actor failed, or actors died too often.
        """
        _configure()
        done = self._planned(chunks, order, concurrency)
        try:
            for row in done.iter_rows():
                yield Tally(**json.loads(row["tally"]))
        except RayError as error:
            cause = getattr(error, "cause", None) or error
            reason = str(cause).strip().splitlines()[-1]
            raise DragomanError(f"--ray {self.address}: {reason}") from error

    def _planned(self, chunks: Sequence[Chunk], order: WorkOrder, concurrency: int) -> Dataset:
        blocks = min(math.ceil(len(chunks) / _CHUNKS_OF_BLOCK), _MOST_BLOCKS)
        rows = [{"chunk": json.dumps(asdict(chunk))} for chunk in chunks]
        dataset = ray.data.from_items(rows, override_num_blocks=blocks)
        warnings.filterwarnings("ignore", message="`ray_remote_args` is deprecated")
        return dataset.map(
            _Actor,
            fn_constructor_args=(order,),
            compute=ActorPoolStrategy(
                min_size=1,
                max_size=self._most_actors,
                initial_size=self._most_actors,
                max_concurrent_calls_per_actor=concurrency,
                enable_true_multi_threading=True,
            ),
            num_cpus=self.cores,
            max_task_retries=_TASK_RETRIES,
        )


class _Actor:
    """Translates chunks on a node; its engine stays loaded."""

    def __init__(self, order: WorkOrder) -> None:
        self._work = ChunkWork(order)
        self._work.warm_up()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        fields = json.loads(row["chunk"])
        chunk = Chunk(**{**fields, "source": InputFile(**fields["source"])})
        # Another actor may have finished it before it died.
        tally = Tally() if self._work.is_done(chunk) else self._work.do(chunk)
        return {"tally": json.dumps(asdict(tally))}


def _configure() -> None:
    """Set the options of Ray Data; its own progress output is switched off."""
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.max_consecutive_actor_init_deaths = _INIT_DEATHS
