"""The Triton model `translate`: text in, text out.

Knows Triton's request and response objects; everything else it hands to `serving.translator`.

`execute` returns at once; answers go out later through each request's response sender, which a
model that is not decoupled may do too, so that plain `infer` and `generate` are served on both
protocols while the engine batches what arrives.

Source: https://github.com/triton-inference-server/python_backend#default-mode
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.errors import UsageError
from serving.engine.scheduler import BatchLimits, Closed, Overloaded
from serving.translator import InvalidRequest, RequestOptions, Translation, Translator

_TEXT = "text_input"
_MOST_SESSIONS = 8
"""Chosen by itself; each holds the weights again, so that more must be asked for."""
_TRITON_PARAMETERS = {"sequence_id", "sequence_start", "sequence_end", "priority", "timeout"}
"""Request parameters with a meaning to Triton itself."""


class TranslateModel:
    """Serves the bundle that lies beside the model's `model.py`."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the bundle and translate once, so that "ready" means just that.

        Args:
            arguments: as Triton gives them: `model_repository`, `model_version`, `model_config`.

        Raises:
            TritonModelException: the bundle or the configuration is not usable.
        """
        # Triton owns the log; ours goes the same way, and never holds texts.
        logging.basicConfig(level=logging.WARNING, format="dragoman: %(message)s")
        folder = Path(arguments["model_repository"]) / arguments["model_version"]
        parameters = json.loads(arguments["model_config"])["parameters"]
        try:
            settings = {
                name: int(parameters[name]["string_value"])
                for name in ("sessions", "threads", "max_rows", "max_waiting")
            }
            limits = BatchLimits(rows=settings["max_rows"], waiting=settings["max_waiting"])
            for name, value in settings.items():
                if value < (name != "sessions"):
                    raise UsageError(f"config.pbtxt: {name} is {value}: too small")
            # One-thread sessions beside each other beat one session with all the threads.
            cores = len(os.sched_getaffinity(0))
            most = min(_MOST_SESSIONS, max(1, cores // settings["threads"]))
            sessions = settings["sessions"] or most
            self._translator = Translator(folder / "bundle", sessions, settings["threads"], limits)
            self._translator.translate(["1"])
        except UsageError as error:
            raise pb_utils.TritonModelException(str(error)) from None
        except (KeyError, ValueError) as error:
            raise pb_utils.TritonModelException(f"config.pbtxt, parameters: {error}") from None

    def execute(self, requests: Sequence[Any]) -> None:
        """Hand requests to the engine; each is answered when its translations are there."""
        for request in requests:
            sender = request.get_response_sender()
            try:
                texts, options = _read(request)
                future = self._translator.submit(texts, options)
            except Exception as error:  # one request's error must not reach the others
                _send(sender, _error_response(error))
                continue
            future.add_done_callback(partial(_answer, sender))

    def finalize(self) -> None:
        """Finish what was begun."""
        self._translator.close()


def _read(request: Any) -> tuple[list[str], RequestOptions]:
    """Texts and options of a request.

    Raises:
        InvalidRequest: a text that is not UTF-8, or an option that is unknown or ill-typed.
    """
    options: dict[str, Any] = {}
    for name, value in json.loads(request.parameters() or "{}").items():
        if name not in _TRITON_PARAMETERS:
            options[name] = value
    texts: list[str] = []
    for tensor in request.inputs():
        name, values = tensor.name(), tensor.as_numpy().ravel()
        if name == _TEXT:
            texts = [_decode(value, f"text {index}") for index, value in enumerate(values)]
        else:
            options[name] = _option(name, values)
    return texts, RequestOptions.from_mapping(options)


def _option(name: str, values: npt.NDArray[Any]) -> Any:
    if len(values) != 1:
        raise InvalidRequest(f"input {name} has {len(values)} values: give one")
    if values.dtype == np.object_:
        return _decode(values[0], f"input {name}")
    return values[0].item()


def _decode(value: bytes, what: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{what} is not valid UTF-8 at byte {error.start}") from None


def _answer(sender: Any, done: Future[list[Translation]]) -> None:
    try:
        response = _response(done.result())
    except Exception as error:  # an engine's thread must not die of an answer
        response = _error_response(error)
    _send(sender, response)


def _response(translations: Sequence[Translation]) -> Any:
    texts = [translation.text.encode("utf-8") for translation in translations]
    reasons = ["stop" if t.complete else "length" for t in translations]
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor("text_output", np.array(texts, dtype=np.object_)),
            pb_utils.Tensor(
                "output_tokens", np.array([t.output_tokens for t in translations], dtype=np.int32)
            ),
            pb_utils.Tensor("finish_reason", np.array(reasons, dtype=np.object_)),
        ]
    )


def _error_response(error: Exception) -> Any:
    codes = pb_utils.TritonError
    if isinstance(error, InvalidRequest):
        code = codes.INVALID_ARG
    elif isinstance(error, Overloaded | Closed):
        code = codes.UNAVAILABLE
    else:
        code = codes.INTERNAL
        logging.getLogger(__name__).error("a request failed: %s", type(error).__name__)
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error), code))


def _send(sender: Any, response: Any) -> None:
    """Answer a request; if even an error cannot be sent, end the process, so that Triton says so.

    A request that is never answered would let its client wait for ever.
    """
    flags = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
    try:
        sender.send(response, flags=flags)
    except Exception as error:  # such as no room in shared memory for a large answer
        try:
            sender.send(_error_response(error), flags=flags)
        except Exception:
            logging.getLogger(__name__).critical("an answer cannot be sent; giving up")
            os._exit(1)
