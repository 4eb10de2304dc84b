"""Sequences of device operations that recur, recorded and replayed in one call."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol

log = logging.getLogger(__name__)

_MOST = 64
"""Recordings that are kept; each takes some megabytes of the GPU's memory."""
_MOST_SEEN = 4096
"""Of what came once; beyond them it begins anew."""


class Recorder(Protocol):
    """A stream of work that can be recorded."""

    def record(self, enqueue: Callable[[], Any]) -> tuple[Any, Any]:
        """Do what is enqueued, and record it; gives the recording, and what was returned.

        Raises:
            RuntimeError: it cannot be recorded.
        """
        ...

    def replay(self, recording: Any) -> None:
        """Do what was recorded."""
        ...

    def synchronize(self) -> None:
        """Wait for all that was asked for."""


class Recordings:
    """Does things, and records those that come a second time."""

    def __init__(self, recorder: Recorder, most: int = _MOST) -> None:
        """Begin without any.

        Args:
            recorder: of the device.
            most: recordings to keep; the one that was not used for longest goes.
        """
        self._recorder = recorder
        self._most = most
        self._seen: set[Hashable] = set()
        self._kept: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()
        self._works = True

    def run(
        self, key: Hashable, now: Callable[[], None], recordable: Callable[[], Callable[[], Any]]
    ) -> None:
        """Do something, which may be done twice without harm.

        Args:
            key: the same if and only if it is the same, to the addresses.
            now: does it.
            recordable: gives what does the same, and may be recorded; what that returns is held
                for as long as the recording.
        """
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            self._recorder.replay(found[0])
        elif not self._works or key not in self._seen:
            now()
            self._remember(key)
        else:
            try:
                self._keep(key, self._recorder.record(recordable()))
            except Exception as error:  # whatever the device says, it works without
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
            self._recorder.synchronize()  # it may be running still
            self._kept.popitem(last=False)
