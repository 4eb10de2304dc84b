"""The models of KServe's protocol with their tensors, as Triton describes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from dragoman_options.table import INFO, OPTIONS, OUTPUTS, SCORE, TEXT_INPUTS, TRANSLATE

from dragoman_gateway.core.errors import NotFound

VERSION = "1"
"""The version of every model."""
PLATFORM = "dragoman"
"""Name of the models' platform; in Triton it is that of the backend."""


class TensorType(NamedTuple):
    """The name, type and shape of a tensor; -1 in the shape is any number."""

    name: str
    datatype: str
    shape: list[int]


def _types(model: str, tensors: Iterable[tuple[str, str, bool]]) -> dict[str, TensorType]:
    """Returns types by name, from names, data types, and whether there may be several values."""
    rows = [-1] if model in (TRANSLATE, SCORE) else []
    return {
        name: TensorType(name, datatype, [*rows, -1 if is_list else 1])
        for name, datatype, is_list in tensors
    }


INPUTS = {
    model: _types(
        model,
        [(name, "BYTES", True) for name in texts]
        + [(option.name, option.datatype, option.is_list) for option in OPTIONS.values() if texts],
    )
    for model, texts in TEXT_INPUTS.items()
}
"""Inputs by model and name."""
ANSWERS = {
    model: _types(
        model,
        [
            (output.name, output.codec.datatype, True)
            for output in OUTPUTS.values()
            if model in output.models
        ]
        or [(INFO, "BYTES", False)],
    )
    for model in TEXT_INPUTS
}
"""Outputs by model and name."""


def check_model(name: str, version: str) -> None:
    """Check the name and the version of a model; an empty version is any.

    Raises:
        NotFound: there is no such model.
    """
    if name not in TEXT_INPUTS or version not in ("", VERSION):
        what = f"{name[:100]!r}" + (f", version {version[:20]!r}" if version else "")
        raise NotFound(
            f"there is no model {what}: give {', '.join(TEXT_INPUTS)}, in version {VERSION}"
        )


def description(model: str) -> dict[str, Any]:
    """Returns the description of a model, with its inputs and outputs."""
    return {
        "name": model,
        "versions": [VERSION],
        "platform": PLATFORM,
        "inputs": [tensor._asdict() for tensor in INPUTS[model].values()],
        "outputs": [tensor._asdict() for tensor in ANSWERS[model].values()],
    }
