"""Answers to Triton requests: translations, and errors under Triton's codes."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.errors import DragomanError
from serving.translator import Translation

FINISHED, CUT, GOING_ON = "stop", "length", ""
"""Why a translation ends where it ends."""
# Triton's names, looked up when needed: Triton fills its module in after it imports the model.
_CODES = {
    "InvalidRequest": "INVALID_ARG",
    "Overloaded": "UNAVAILABLE",
    "Closed": "UNAVAILABLE",
    "DeadlineExceeded": "CANCELLED",
    "CancelledError": "CANCELLED",
}


@dataclass(frozen=True)
class Form:
    """How a client wants its answer: which outputs, and in the shape of its texts."""

    outputs: Collection[str]
    shape: tuple[int, ...]


def of_translations(translations: Sequence[Translation], form: Form) -> Any:
    """A response with one element a text."""
    reasons = [FINISHED if t.complete else CUT for t in translations]
    tokens = [translation.output_tokens for translation in translations]
    return of_texts([translation.text for translation in translations], tokens, reasons, form)


def of_texts(
    texts: Sequence[str], tokens: Sequence[int], reasons: Sequence[str], form: Form
) -> Any:
    """A response with texts, their numbers of tokens and why they end."""
    columns: dict[str, tuple[Sequence[Any], type]] = {
        "text_output": ([text.encode("utf-8") for text in texts], np.object_),
        "output_tokens": (tokens, np.int32),
        "finish_reason": (reasons, np.object_),
    }
    return pb_utils.InferenceResponse(
        [
            pb_utils.Tensor(name, np.array(values, kind).reshape(form.shape))
            for name, (values, kind) in columns.items()
            if name in form.outputs
        ]
    )


def of_error(error: BaseException, kind: str | None = None) -> Any:
    """A response that says what went wrong; `kind` names the error's class, if not its own."""
    kind = kind or type(error).__name__
    code = getattr(pb_utils.TritonError, _CODES.get(kind, "INTERNAL"))
    if kind not in _CODES:
        logging.getLogger(__name__).error("a request failed: %s", kind)
    message = str(error) if isinstance(error, DragomanError) else f"the request failed: {kind}"
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))


def send(sender: Any, response: Any, final: bool = True) -> bool:
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
            sender.send(of_error(error), flags=last)
            return True
        except Exception:
            logging.getLogger(__name__).critical("an answer cannot be sent; giving up")
            os._exit(1)
    finally:
        del held
