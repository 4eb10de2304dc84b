"""How the project was installed, for messages with an installation command."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_WITH_TORCH = ("train", "export")
_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's index of CPU builds; the builds on PyPI include CUDA."""
_BESIDE_GPU = {"export": "export-gpu", "import": "serve-gpu", "serve-cpu": "serve-gpu"}
"""Used if `onnxruntime-gpu` is installed, because `onnxruntime` would overwrite it."""


def install_command(extra: str) -> str:
    """Returns the command that installs an extra, or several, separated by commas."""
    names = extra.split(",")
    if _has_gpu_runtime():
        names = [_BESIDE_GPU.get(name, name) for name in names]
    extras = ",".join(names)
    if (_ROOT / "client" / "pyproject.toml").is_file():
        others = " -e ./load_test" if "load-test" in names else ""
        command = f"{_pip()} install -e ./client{others} -e '.[{extras}]'"
        if any(name in _WITH_TORCH for name in names):
            command = f"make train-env creates .venv-train with it; or {command}"
        command = f"from the checkout, {command}"
    else:
        command = f"pip install 'dragoman[{extras}]'"
    if any(name in _WITH_TORCH for name in names):
        command += f"; for a machine without a GPU add --extra-index-url {_CPU_INDEX}"
    return command


def _pip() -> str:
    """The command of pip, with its folder if the environment is the checkout's, as `make` does."""
    prefix = Path(sys.prefix)
    return f"{prefix.name}/bin/pip" if prefix.parent == _ROOT else "pip"


def _has_gpu_runtime() -> bool:
    try:
        distribution("onnxruntime-gpu")
    except PackageNotFoundError:
        return False
    return True
