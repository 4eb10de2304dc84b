"""Configurations of the engine's Triton models: in a repository, and at loading."""

from __future__ import annotations

import json
from typing import Any, Final

from dragoman_options.table import INFO, OPTIONS, OUTPUTS, SCORE, STREAM, TEXT_INPUTS, TRANSLATE

_MOST_REQUESTS = 128
"""Triton's `max_batch_size`; 0 would mean that tensors have no batch dimension."""
MODELS: Final = tuple(TEXT_INPUTS)
"""Names of the engine's Triton models; a repository has all except the last."""

BACKEND: Final = "dragoman"
"""Name of Triton's backend, the relay."""
_PARAMETERS = {
    TRANSLATE: {
        "precision": "auto",
        "runtime": "auto",
        "workers": "auto",
        "lone_threads": "auto",
        "max_rows": "auto",
        "max_waiting": "40000",
        "deadline_s": "300",
        "allow_priority": "false",
    },
}
"""Parameters that an operator may change, with their defaults; they hold for all models."""


def config_text(model: str) -> str:
    """Returns a model's `config.pbtxt`, without inputs and outputs, which the backend sets."""
    lines = [f'name: "{model}"', f'backend: "{BACKEND}"']
    if model == STREAM:
        lines.append("model_transaction_policy { decoupled: true }")
    lines.append("instance_group [ { count: 1 kind: KIND_CPU } ]")
    lines += [
        f'parameters {{ key: "{name}" value: {{ string_value: "{value}" }} }}'
        for name, value in _PARAMETERS.get(model, {}).items()
    ]
    return "".join(f"{line}\n" for line in lines)


def model_config(model: str) -> str:
    """Returns a model's inputs, outputs and batch size as JSON for `TRITONBACKEND_ModelSetConfig`.

    Source:
    https://github.com/triton-inference-server/core/blob/main/include/triton/core/tritonbackend.h
    """
    inputs = [_tensor(name, "BYTES", is_list=True) for name in TEXT_INPUTS[model]]
    if model == INFO:
        outputs = [_tensor(INFO, "BYTES")]
    else:
        inputs += [
            _tensor(option.name, option.datatype, option.is_list) | {"optional": True}
            for option in OPTIONS.values()
        ]
        outputs = [
            _tensor(output.name, output.codec.datatype, is_list=True)
            for output in OUTPUTS.values()
            if model in output.models
        ]
    most = _MOST_REQUESTS if model in (TRANSLATE, SCORE) else 0
    return json.dumps({"max_batch_size": most, "input": inputs, "output": outputs})


def _tensor(name: str, datatype: str, is_list: bool = False) -> dict[str, Any]:
    kind = "STRING" if datatype == "BYTES" else datatype
    return {"name": name, "data_type": f"TYPE_{kind}", "dims": [-1 if is_list else 1]}
