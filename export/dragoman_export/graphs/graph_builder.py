"""A small builder of ONNX graphs.

Weights are not copied into the graphs: each graph refers to ranges of the `model.safetensors`
beside it, so that four graphs and the PyTorch checkpoint share the same bytes. They are stored in
the checkpoint's precision and cast to fp32 in the graph, and those in int8 multiplied by their
scales; a runtime folds this once, when it loads the graph.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from dragoman.kernel.manifest import TensorEntry
from dragoman.kernel.tensors import SCALES

OPSET = 24
_OPSETS = {"": OPSET, "com.microsoft": 1}
IR_VERSION = 11
"""The oldest version that the graphs work with, so that older runtimes can read them."""

_SAFETENSORS_TYPES = {
    "F32": TensorProto.FLOAT,
    "F16": TensorProto.FLOAT16,
    "I8": TensorProto.INT8,
}
_TYPES = {
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


class WeightsFile:
    """The location of each tensor in a safetensors file.

    Source: https://github.com/huggingface/safetensors#format
    """

    def __init__(self, path: Path) -> None:
        """Read the header of a file with tensors in fp32, fp16, or int8 with scales."""
        self.name = path.name
        with path.open("rb") as file:
            (header_bytes,) = struct.unpack("<Q", file.read(8))
            self._entries = json.loads(file.read(header_bytes))
        self._data_start = 8 + header_bytes

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def proto(self, name: str) -> TensorProto:
        """A tensor that refers to its bytes in the file."""
        entry = self._entries[name]
        begin, end = entry["data_offsets"]
        tensor = TensorProto(
            name=name,
            data_type=_SAFETENSORS_TYPES[entry["dtype"]],
            dims=entry["shape"],
            data_location=TensorProto.EXTERNAL,
        )
        place = {"location": self.name, "offset": self._data_start + begin, "length": end - begin}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class GraphBuilder:
    """Collects the nodes of one graph; a value is identified by its name."""

    def __init__(self, name: str, weights: WeightsFile) -> None:
        """Start an empty graph."""
        self.name = name
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}
        self._casts: dict[str, str] = {}
        self.inputs: list[TensorEntry] = []
        self.outputs: list[TensorEntry] = []

    def input(self, name: str, dtype: str, *shape: str | int) -> str:
        """Declare an input; names in the shape are dynamic dimensions."""
        self.inputs.append(TensorEntry(name, dtype, tuple(map(str, shape))))
        return name

    def output(self, value: str, name: str, dtype: str, *shape: str | int) -> None:
        """Declare an output and give a value its name."""
        self.outputs.append(TensorEntry(name, dtype, tuple(map(str, shape))))
        self._nodes.append(helper.make_node("Identity", [value], [name], name=f"name_{name}"))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name.

        The attribute `domain` names the operator's domain, if it is not ONNX's own.
        """
        return self.split_op(kind, *inputs, outputs=1, **attributes)[0]

    def split_op(self, kind: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs and return their names."""
        node = f"{kind}_{len(self._nodes)}"
        names = [f"{node}:{index}" for index in range(outputs)]
        self._nodes.append(helper.make_node(kind, inputs, names, name=node, **attributes))
        return names

    def inplace_op(self, kind: str, *inputs: str, output: TensorEntry, **attributes: Any) -> str:
        """Add a node whose only output is an output of the graph, which a runtime may alias."""
        self._nodes.append(
            helper.make_node(
                kind, inputs, [output.name], name=f"{kind}_{output.name}", **attributes
            )
        )
        self.outputs.append(output)
        return output.name

    def weight(self, name: str) -> str:
        """A tensor of the checkpoint in fp32."""
        if name not in self._casts:
            self._casts[name] = self._in_fp32(name)
        return self._casts[name]

    def rows(self, name: str, ids: str) -> str:
        """Rows `ids` of a tensor of the checkpoint in fp32; the other rows stay as stored."""
        return self._in_fp32(name, ids)

    def _in_fp32(self, name: str, ids: str | None = None) -> str:
        """A stored tensor, or rows of it, in fp32."""
        self._initializers[name] = proto = self._weights.proto(name)
        value = name if ids is None else self.op("Gather", name, ids)
        if proto.data_type != TensorProto.FLOAT:
            value = self.op("Cast", value, to=TensorProto.FLOAT)
        scales = name + SCALES
        return (
            self.op("Mul", value, self._in_fp32(scales, ids)) if scales in self._weights else value
        )

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.int64) -> str:
        """A constant stored in the graph itself; equal constants are stored once."""
        array = np.asarray(value, dtype=dtype)
        described = f"{array.dtype.str}{array.shape}".encode() + array.tobytes()
        name = f"constant_{hashlib.sha256(described).hexdigest()[:16]}"
        self._initializers[name] = numpy_helper.from_array(array, name)
        return name

    def build(self) -> onnx.ModelProto:
        """The finished model; it must be loaded from the folder of the weights file."""
        graph = helper.make_graph(
            self._nodes,
            self.name,
            [_value_info(entry) for entry in self.inputs],
            [_value_info(entry) for entry in self.outputs],
            list(self._initializers.values()),
        )
        return helper.make_model(
            graph,
            producer_name="dragoman",
            ir_version=IR_VERSION,
            opset_imports=[
                helper.make_opsetid(domain, _OPSETS[domain])
                for domain in sorted({"", *(node.domain for node in self._nodes)})
            ],
        )


def _value_info(entry: TensorEntry) -> onnx.ValueInfoProto:
    shape: Sequence[int | str] = [int(size) if size.isdigit() else size for size in entry.shape]
    return helper.make_tensor_value_info(entry.name, _TYPES[entry.dtype], shape)
