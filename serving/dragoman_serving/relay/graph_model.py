"""A bundle's graph as a Triton model, for users with their own decoding loop.

It is for a Triton without an ONNX Runtime backend, such as the embedded one.

Source: https://github.com/triton-inference-server/python_backend#usage
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.manifest import GraphEntry, Manifest
from dragoman_serving.engine.runtimes.onnx_session import open_graph

_BUNDLE = Path("translate") / "1" / "bundle"
"""Path within the model repository."""
_TYPES = {"float32": "TYPE_FP32", "int64": "TYPE_INT64"}


def graph_model(file: str) -> type[Any]:
    """Returns the class that Triton's Python backend loads from a `model.py`.

    Args:
        file: path of the `model.py`, in its version's folder; the model has the graph's name.
    """
    folder = Path(file).resolve().parents[1]
    graph, bundle = folder.name, folder.parent / _BUNDLE

    class TritonPythonModel:
        """Runs the graph on the tensors of a request."""

        @staticmethod
        def auto_complete_config(config: Any) -> Any:
            """Add the tensors from the manifest."""
            entry = _entry(bundle, graph)
            for tensors, add in (
                (entry.inputs, config.add_input),
                (entry.outputs, config.add_output),
            ):
                for tensor in tensors:
                    dims = [int(size) if size.isdigit() else -1 for size in tensor.shape]
                    add({"name": tensor.name, "data_type": _TYPES[tensor.dtype], "dims": dims})
            config.set_max_batch_size(0)
            return config

        def initialize(self, _arguments: dict[str, str]) -> None:
            """Load the graph."""
            try:
                self._session = open_graph(bundle, Manifest.load(bundle), graph)
            except DragomanError as error:
                raise pb_utils.TritonModelException(str(error)) from None
            self._inputs = [tensor.name for tensor in self._session.get_inputs()]

        def execute(self, requests: Sequence[Any]) -> list[Any]:
            """Answer requests one by one; an invalid one fails alone."""
            return [self._answer(request) for request in requests]

        def _answer(self, request: Any) -> Any:
            feeds = {
                name: pb_utils.get_input_tensor_by_name(request, name).as_numpy()
                for name in self._inputs
            }
            names = list(request.requested_output_names())
            try:
                arrays = self._session.run(names, feeds)
            except Exception as error:  # ONNX Runtime has a class for each status code
                reason = str(error).partition("\n")[0]
                failed = pb_utils.TritonError(reason, pb_utils.TritonError.INVALID_ARG)
                return pb_utils.InferenceResponse(error=failed)
            tensors = [pb_utils.Tensor(n, array) for n, array in zip(names, arrays, strict=True)]
            return pb_utils.InferenceResponse(tensors)

    return TritonPythonModel


def _entry(bundle: Path, graph: str) -> GraphEntry:
    try:
        return Manifest.load(bundle).graphs[graph]
    except DragomanError as error:
        raise pb_utils.TritonModelException(str(error)) from None
