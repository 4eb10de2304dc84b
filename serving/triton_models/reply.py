"""The way back to one request's client."""

from __future__ import annotations

import threading
from typing import Any

from serving.triton_models import response


class Reply:
    """Sends a request's answers, and says whether its client has given up.

    Triton frees a request's sender with its last answer, and asking it afterwards ends the process;
    so nobody asks any more once the last answer is on its way.
    """

    def __init__(self, request: Any) -> None:
        """Take over a request's response sender."""
        self._sender = request.get_response_sender()
        self._answered = False
        self._lock = threading.Lock()

    def send(self, answer: Any) -> None:
        """Send the only or last answer."""
        with self._lock:
            self._answered = True
            response.send(self._sender, answer)

    def send_part(self, answer: Any) -> bool:
        """Send an answer that others follow; False if it could not be, and an error ended it."""
        with self._lock:
            self._answered = response.send(self._sender, answer, final=False)
            return not self._answered

    def is_cancelled(self) -> bool:
        """Whether the client has given up before it was answered."""
        with self._lock:
            return not self._answered and bool(self._sender.is_cancelled())
