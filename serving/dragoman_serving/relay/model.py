"""Triton's entry to a model where the relay in C was not compiled: the same relay, in Python.

Triton's Python backend loads it for each model that names the backend it lies in.

Source: https://github.com/triton-inference-server/backend/blob/main/docs/python_based_backends.md
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.kernel.errors import DragomanError
from dragoman_serving.relay.python_relay import Relay
from dragoman_serving.service.frames import Hello


class TritonPythonModel:
    """Hands requests to the engine's process, whose answers go out as they come."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Wait until the engine's process has loaded the model.

        Args:
            arguments: as Triton gives them: `model_name`, `model_repository` (the model's own
                folder), `model_version`, `model_config`.

        Raises:
            TritonModelException: the engine's process refuses the model, or is not there.
        """
        # Triton owns the log; ours goes the same way, and never holds texts.
        logging.basicConfig(level=logging.INFO, format="dragoman: %(message)s")
        hello = Hello(
            arguments["model_repository"],
            int(arguments["model_version"]),
            arguments["model_config"],
        )
        try:
            self._relay = Relay(arguments["model_name"], hello)
        except DragomanError as error:
            raise pb_utils.TritonModelException(str(error)) from None

    def execute(self, requests: Sequence[Any]) -> None:
        """Hand requests over; each is answered through its own response sender."""
        for request in requests:
            self._relay.take(request)

    def finalize(self) -> None:
        """Hang up."""
        self._relay.close()
