"""Model repositories that serve CTranslate2 behind Triton's own dynamic batcher.

The usual setup: Triton gathers single requests into a batch, and a Python model translates the
batch in one call.

Source: https://docs.nvidia.com/deeplearning/triton-inference-server/user-guide/docs/user_guide/batcher.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman_options.table import TRANSLATE
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from lab.measurement import PROJECT

MAX_BATCH_SIZE = 64
_MODEL_PY = '''"""Triton's entry to CTranslate2."""

import sys

sys.path.insert(0, {project!r})

from lab.peers.ctranslate2_backend import TranslateModel as TritonPythonModel

__all__ = ["TritonPythonModel"]
'''


@dataclass(frozen=True)
class Layout:
    """How the cores are divided.

    Attributes:
        instances: copies of the model, each a process with its own batches.
        inter: sub-batches of a batch that are translated in parallel.
        intra: threads for each sub-batch.
    """

    instances: int
    inter: int
    intra: int


@dataclass(frozen=True)
class Setting:
    """A way to run CTranslate2 behind Triton.

    Attributes:
        layout: how the cores are divided.
        queue_delay_us: longest time that a request waits for others to join it.
        preferred: batch sizes that are sent at once; empty leaves it to Triton.
        compute_type: CTranslate2's precision.
    """

    layout: Layout
    queue_delay_us: int
    preferred: tuple[int, ...] = ()
    compute_type: str = "float32"

    def __str__(self) -> str:
        """Its name in the tables."""
        layout = self.layout
        return (
            f"{self.compute_type}, {layout.instances} x inter {layout.inter} intra {layout.intra}, "
            f"delay {self.queue_delay_us / 1000:g} ms"
        )


def write_repository(folder: Path, setting: Setting, model: Path, bundle: Path) -> None:
    """Write a model repository.

    Its model has the same name and tensors as ours, as far as a plain request needs them, so that
    the same launcher and the same client work with it. Vocabulary and limits are the bundle's.
    """
    version = folder / TRANSLATE / "1"
    version.mkdir(parents=True)
    (version / "bundle").symlink_to(bundle.resolve(), target_is_directory=True)
    (version / "model.py").write_text(_MODEL_PY.format(project=str(PROJECT)), encoding="utf-8")
    config = text_format.MessageToString(build_config(setting, model.resolve()))
    (folder / TRANSLATE / "config.pbtxt").write_text(config, encoding="utf-8")


def build_config(setting: Setting, model: Path) -> Any:
    """Triton's `ModelConfig` for a setting, and a model of `lab.peers.models.ctranslate2_model`."""
    kinds = model_config_pb2
    config = kinds.ModelConfig(name=TRANSLATE, backend="python", max_batch_size=MAX_BATCH_SIZE)
    config.input.add(name="text_input", data_type=kinds.TYPE_STRING, dims=[1])
    for name, kind in (
        ("target_language", kinds.TYPE_STRING),
        ("beam_width", kinds.TYPE_INT32),
        ("length_penalty", kinds.TYPE_FP32),
    ):
        config.input.add(name=name, data_type=kind, dims=[1], optional=True)
    config.output.add(name="text_output", data_type=kinds.TYPE_STRING, dims=[1])
    config.output.add(name="output_tokens", data_type=kinds.TYPE_INT32, dims=[1])
    config.dynamic_batching.max_queue_delay_microseconds = setting.queue_delay_us
    config.dynamic_batching.preferred_batch_size.extend(setting.preferred)
    config.instance_group.add(
        count=setting.layout.instances, kind=kinds.ModelInstanceGroup.Kind.KIND_CPU
    )
    parameters = {
        "model": str(model),
        "compute_type": setting.compute_type,
        "inter_threads": str(setting.layout.inter),
        "intra_threads": str(setting.layout.intra),
    }
    for name, value in parameters.items():
        config.parameters[name].string_value = value
    return config
