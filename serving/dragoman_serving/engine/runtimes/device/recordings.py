"""Records recurring sequences of device operations, and replays each in one call."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol

log = logging.getLogger(__name__)

_MOST = 64
"""Maximum number of recordings; each takes some megabytes of GPU memory."""
_MOST_SEEN = 4096
"""Maximum number of keys that were seen once; then all are forgotten."""


class Recorder(Protocol):
    """A stream of work that can be recorded."""

    def record(self, enqueue: Callable[[], Any]) -> tuple[Any, Any]:
        """Run and record operations; returns the recording, and the result of `enqueue`.

        Raises:
            RuntimeError: the operations cannot be recorded.
        """
        ...

    def replay(self, recording: Any) -> None:
        """Run recorded operations."""
        ...

    def synchronize(self) -> None:
        """Wait for all operations."""


class Recordings:
    """Runs operations, and records them when they occur a second time."""

    def __init__(self, recorder: Recorder, most: int = _MOST) -> None:
        """Start without recordings.

        Args:
            recorder: recorder of the device.
            most: maximum number of recordings; the least recently used one is dropped.
        """
        self._recorder = recorder
        self._most = most
        self._seen: set[Hashable] = set()
        self._kept: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()
        self._works = True

    def run(
        self, key: Hashable, now: Callable[[], None], recordable: Callable[[], Callable[[], Any]]
    ) -> None:
        """Run operations, which must be idempotent.

        Args:
            key: equal if and only if the operations are equal, including all addresses.
            now: runs the operations.
            recordable: returns a function that runs the same operations and may be recorded; its
                result is kept as long as the recording.
        """
        recording = self._kept.get(key)
        if recording is not None:
            self._kept.move_to_end(key)
            self._recorder.replay(recording[0])
        elif not self._works or key not in self._seen:
            now()
            self._remember(key)
        else:
            try:
                self._keep(key, self._recorder.record(recordable()))
            except Exception as error:  # after any error, it works without recordings
                self._works = False
                log.warning("nothing is recorded on the GPU any more: %s", error)
                now()

    def _remember(self, key: Hashable) -> None:
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)

    def _keep(self, key: Hashable, recording: tuple[Any, Any]) -> None:
        self._seen.discard(key)
        self._kept[key] = recording
        if len(self._kept) > self._most:
            self._recorder.synchronize()  # the dropped recording may still be running
            self._kept.popitem(last=False)
