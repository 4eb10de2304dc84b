"""A background thread that runs while a context is open."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Use it as a context; leaving the context waits for the thread's end."""

    def __init__(self) -> None:
        """Prepare; entering the context starts the thread."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_busy(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """The thread's work, until `_stopping` is set."""
