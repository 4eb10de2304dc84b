"""The way back to one request's client."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.kernel.errors import as_dragoman_error

log = logging.getLogger(__name__)


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

    @property
    def is_answered(self) -> bool:
        """Whether the last answer is on its way."""
        return self._answered

    def send(self, response: Any) -> None:
        """Send the only or last answer."""
        with self._lock:
            self._answered = True
            _send(self._sender, response, final=True)

    def send_part(self, response: Any) -> bool:
        """Send an answer that others follow; False if it could not be, and an error ended it."""
        with self._lock:
            self._answered = _send(self._sender, response, final=False)
            return not self._answered

    def is_cancelled(self) -> bool:
        """Whether the client has given up before it was answered."""
        with self._lock:
            return not self._answered and bool(self._sender.is_cancelled())


def _send(sender: Any, response: Any, final: bool) -> bool:
    """Answer a request; if even an error cannot be sent, end the process, so that Triton says so.

    A request that is never answered would let its client wait for ever.

    Returns:
        Whether this was the last answer: an error in place of a part is.
    """
    last = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
    # Triton 24.10 drops the tensors that a client did not ask for while it does not hold the
    # interpreter's lock. Were that their last reference, the interpreter's memory would be
    # overwritten sooner or later; so another one is held until all is sent.
    held = response.output_tensors()
    try:
        sender.send(response, flags=last if final else 0)
        return final
    except Exception as error:  # such as no room in shared memory for a large answer
        try:
            sender.send(_failure(error), flags=last)
            return True
        except Exception:
            log.critical("an answer cannot be sent; giving up")
            os._exit(1)
    finally:
        del held


def _failure(error: Exception) -> Any:
    log.error("an answer cannot be sent: %s", type(error).__name__)
    message = str(as_dragoman_error(error))
    return pb_utils.InferenceResponse(
        error=pb_utils.TritonError(message, pb_utils.TritonError.INTERNAL)
    )
