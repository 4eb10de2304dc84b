"""What goes on in a thread of its own while a context is entered."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self


class Background(ABC):
    """Use it as a context; leaving it waits for the end."""

    def __init__(self) -> None:
        """Prepare; entering the context begins."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end."""
        self._stopping.set()
        self._thread.join()

    @property
    def is_busy(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    @abstractmethod
    def _run(self) -> None:
        """What it does, until `_stopping` is set."""
