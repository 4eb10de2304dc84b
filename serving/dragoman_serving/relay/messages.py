"""Triton's requests as frames, and the engine's answers as Triton's responses."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman_serving.service.frames import Answer, DataType, Failure, Request, Tensor


def read_request(request: Any, number: int) -> Request:
    """What a request of Triton's holds.

    Args:
        request: as Triton gives it.
        number: by which its answers will name it.
    """
    return Request(
        number,
        request.timeout(),
        json.loads(request.parameters() or "{}"),
        tuple(request.requested_output_names()),
        tuple(map(_read_tensor, request.inputs())),
    )


def response_of(answer: Answer | Failure) -> Any:
    """An answer as a response of Triton's."""
    # Its names are looked up when needed: Triton fills its module in after it imports the model.
    if isinstance(answer, Failure):
        code = getattr(pb_utils.TritonError, answer.code.name)
        return pb_utils.InferenceResponse(error=pb_utils.TritonError(answer.message, code))
    return pb_utils.InferenceResponse(list(map(_tensor, answer.outputs)))


def _read_tensor(tensor: Any) -> Tensor:
    array = tensor.as_numpy()
    datatype = pb_utils.numpy_to_triton_type(array.dtype)
    if datatype == DataType.BYTES:
        return Tensor.of(tensor.name(), DataType.BYTES, array.shape, array.ravel().tolist())
    return Tensor(tensor.name(), datatype, array.shape, array.tobytes())


def _tensor(output: Tensor) -> Any:
    kind = pb_utils.triton_to_numpy_type(output.datatype)
    return pb_utils.Tensor(output.name, np.array(output.values, kind).reshape(output.shape))
