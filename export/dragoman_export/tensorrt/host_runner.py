"""Runs graphs in memory on this machine's CPU instead of a device.

So changes made to graphs for a GPU can be tested and inspected without one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from dragoman_serving.engine.runtimes.device.capacities import capacities
from dragoman_serving.engine.runtimes.device.device_memory import DeviceTensor
from dragoman_serving.engine.runtimes.device.onnx_runner import session_options

from dragoman.kernel.manifest import Limits, Manifest

_DTYPES: dict[str, np.dtype[Any]] = {"float32": np.dtype(np.float32), "int64": np.dtype(np.int64)}


class HostRunner:
    """See `Runner`. The graphs compute in fp32."""

    cache_dtype = "float32"
    most_rows = None
    pads_steps = False

    def __init__(self, graphs: Mapping[str, onnx.ModelProto], limits: Limits, folder: Path) -> None:
        """Load graphs.

        Args:
            graphs: by name, with the inputs and outputs of the manifest; they may have further
                outputs.
            limits: of the bundle.
            folder: contains the weights that are not in the graphs.
        """
        self._sessions = {name: open_session(graph, folder) for name, graph in graphs.items()}
        self.source_capacities = capacities(limits.max_source_tokens)
        self.target_capacities = capacities(limits.max_target_tokens)

    def run(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> None:
        """See `Runner`."""
        session = self._sessions[graph]
        feeds = {value.name: _array(tensors[value.name]) for value in session.get_inputs()}
        names = [value.name for value in session.get_outputs()]
        outputs = dict(zip(names, session.run(names, feeds), strict=True))
        for name in names:
            if name in tensors:
                _array(tensors[name])[...] = outputs.pop(name)
        self.look(graph, feeds, outputs)

    def look(
        self,
        graph: str,
        inputs: Mapping[str, npt.NDArray[Any]],
        others: Mapping[str, npt.NDArray[np.float32]],
    ) -> None:
        """Called with each run's inputs, and with the outputs that the manifest does not list."""


def read_decoding_graphs(bundle: Path, manifest: Manifest) -> dict[str, onnx.ModelProto]:
    """The graphs that decoding uses, without their weights."""
    return {
        name: onnx.load(bundle / manifest.graphs[name].file, load_external_data=False)
        for name in manifest.decoding_graphs
    }


def open_session(graph: onnx.ModelProto, folder: Path) -> onnxruntime.InferenceSession:
    """Load a graph; its weights may be in a folder."""
    options = session_options(folder)
    # Multiply the rounded numbers as they are, instead of using kernels for pairs of codes, which
    # do not exist for fp8.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    return onnxruntime.InferenceSession(
        graph.SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
        # It removes ReLU before fp8, as it does before codes that cannot be negative (1.31.1).
        disabled_optimizers=["ReluQuantRewrite"],
    )


def _array(tensor: DeviceTensor) -> npt.NDArray[Any]:
    """A view of a tensor's memory."""
    memory = (ctypes.c_byte * tensor.nbytes).from_address(tensor.address)
    array: npt.NDArray[Any] = np.frombuffer(memoryview(memory), _DTYPES[tensor.dtype])
    return array.reshape(tensor.shape)
