"""TensorBoard event file, written synchronously.

PyTorch's own writer uses a thread, which cannot report that the disk is full.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter


class EventFile:
    """Scalars by step; they hide later steps in an earlier file of the folder."""

    def __init__(self, folder: Path, first_step: int) -> None:
        """Start a file in a folder, for steps from `first_step` on."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"events.out.tfevents.{time.time_ns()}.{os.getpid()}"
        self._records = RecordWriter(path.open("wb", buffering=0))
        self._write(Event(file_version="brain.Event:2"))
        session = SessionLog(status=SessionLog.START)
        self._write(Event(step=first_step, session_log=session))

    def add(self, step: int, **scalars: float) -> None:
        """Write scalars of a step; `train_loss` is shown as `train/loss`."""
        values = [
            Summary.Value(tag=name.replace("_", "/", 1), simple_value=value)
            for name, value in scalars.items()
        ]
        self._write(Event(step=step, summary=Summary(value=values)))

    def close(self) -> None:
        """Close the file."""
        self._records.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
