"""The tensors in a Marian model's files, as arrays; only pickles need PyTorch."""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import UsageError
from dragoman.kernel.installation import install_command
from dragoman_training.marian.settings import CONFIG
from dragoman_training.run.checkpoint_folder import read_arrays

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"

Floats = npt.NDArray[np.float32]


class StoredTensors:
    """A file's tensors, taken one by one; a tensor that nobody takes is an error."""

    def __init__(self, path: Path, tensors: dict[str, Any]) -> None:
        """Start with the tensors of a file."""
        self.path, self._tensors = path, tensors

    @classmethod
    def read(cls, folder: Path) -> StoredTensors:
        """Read the weights in a folder, from safetensors if present.

        Raises:
            UsageError: there are none, or they are damaged or contain other things.
        """
        if (path := folder / SAFETENSORS).exists():
            return cls(path, read_arrays(path))
        if (path := folder / PICKLE).exists():
            return cls(path, _read_pickle(path))
        raise UsageError(f"{folder}: has no {SAFETENSORS} and no {PICKLE}")

    def __contains__(self, name: str) -> bool:
        """Whether a tensor is present and not yet taken."""
        return name in self._tensors

    def __getitem__(self, name: str) -> Floats:
        """A tensor that is not yet taken, as fp32."""
        tensor: Floats = self._tensors[name].astype(np.float32, copy=False)
        return tensor

    def take(self, name: str, *shape: int) -> Floats:
        """Take a tensor, as fp32.

        Raises:
            UsageError: it is missing, or has the wrong type, shape or values.
        """
        tensor = self._tensors.pop(name, None)
        if tensor is None:
            raise UsageError(f"{self.path}: the tensor {name!r} is missing")
        if not isinstance(tensor, np.ndarray):
            raise UsageError(f"{self.path}: {name!r} is not stored as a dense tensor")
        if tensor.shape != shape:
            raise UsageError(
                f"{self.path}: {name!r} has shape {list(tensor.shape)}, "
                f"{CONFIG} and the vocabulary say {list(shape)}"
            )
        if tensor.dtype.kind != "f":
            raise UsageError(f"{self.path}: {name!r} is of {tensor.dtype}, not floating-point")
        with np.errstate(over="ignore"):
            array: Floats = tensor.astype(np.float32)
        if not np.isfinite(array).all():
            raise UsageError(f"{self.path}: {name!r} has numbers that are not finite")
        return array

    def check_empty(self) -> None:
        """Refuse tensors that were not taken.

        Raises:
            UsageError: there is one.
        """
        if self._tensors:
            name = min(self._tensors)
            raise UsageError(f"{self.path}: the tensor {name!r} is not part of a Marian model")


def _read_pickle(path: Path) -> dict[str, Any]:
    """Tensors by name; one that NumPy cannot represent stays as it is."""
    if obstacle := pickle_obstacle():
        raise UsageError(f"{path}: {obstacle}")
    import torch

    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(
            f"{path}: contains more than tensors, possibly code, and is not loaded"
        ) from error
    # No code of the file runs, but a damaged file can raise any exception.
    except Exception as error:
        raise UsageError(f"{path}: cannot be read: {_first_line(error)}") from error
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor)
        for name, tensor in tensors.items()
    ):
        raise UsageError(f"{path}: is not a list of tensors by name")
    return {name: _as_array(tensor) for name, tensor in tensors.items()}


def _as_array(tensor: Any) -> Any:
    """A PyTorch tensor as an array, if it is dense."""
    import torch

    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_nested:
        return tensor
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()
    return tensor.detach().numpy()


def pickle_obstacle() -> str | None:
    """Why pickles cannot be read here, and how to fix it; None if they can."""
    if find_spec("torch") is not None:
        return None
    return (
        f"reading it needs torch: {install_command('train')}; or name a revision that has "
        f"{SAFETENSORS}"
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
