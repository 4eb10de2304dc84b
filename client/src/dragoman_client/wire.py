"""What requests and answers look like to tritonclient, whoever carries them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tritonclient.utils import np_to_triton_dtype

from dragoman_client.access import FilePath
from dragoman_client.request import OUTPUTS, Array

_MAX_INT32 = 2**31 - 1

CHANNEL_ARGUMENTS = [
    # These replace tritonclient's own, so its unlimited message sizes are said again.
    ("grpc.max_send_message_length", _MAX_INT32),
    ("grpc.max_receive_message_length", _MAX_INT32),
    # By default gRPC waits up to two minutes before it looks again for a server that was away.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


def tensors(kind: Any, inputs: Mapping[str, Array]) -> list[Any]:
    """Arrays as tritonclient's input tensors; gRPC and HTTP have each their own kind."""
    return [
        kind(name, list(values.shape), np_to_triton_dtype(values.dtype)).set_data_from_numpy(values)
        for name, values in inputs.items()
    ]


def arrays(result: Any) -> dict[str, Array | None]:
    """The outputs of an answer; None for one that is not in it."""
    return {name: result.as_numpy(name) for name in OUTPUTS}


def microseconds(seconds: float) -> int:
    """As Triton counts a deadline, which this client sends along: then the server gives up, too."""
    return max(1, int(seconds * 1e6))


def path_of(file: FilePath | None) -> str | None:
    """As tritonclient takes it."""
    return None if file is None else os.fspath(file)


def refusal_message(answer: bytes) -> str:
    """What the server said in the body of a refusal: Triton's JSON, or the text of a proxy."""
    try:
        return str(json.loads(answer.removeprefix(b"data:"))["error"])
    except (KeyError, TypeError, ValueError):
        return answer[:200].decode("utf-8", "replace").strip()
