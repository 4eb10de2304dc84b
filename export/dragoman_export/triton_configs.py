"""Configurations with which Triton's own backends run a bundle's graphs.

They are for the models `encoder` and `decoder` in a container whose Triton has those backends: one
file each in `configs/`, selected by `dragoman serve --config`. They are serialized through Triton's
protobuf. A test compares those in the project's repository with what this module makes of the
shipped model.

Source: https://github.com/triton-inference-server/server/blob/main/docs/user_guide/model_configuration.md
"""

from __future__ import annotations

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from dragoman.kernel.manifest import Manifest, TensorEntry
from dragoman.kernel.tensors import cache_tensors, plain_name, plan_name

GRAPHS = ("encoder", "decoder")
PLAIN_PRECISION = "fp16"
"""Precision of the plans that Triton's TensorRT backend loads."""
_FROM_VERSION = "../../translate/1/bundle"
"""Path of the bundle from a model's version folder."""
_MOST_AT_ONCE = 64
_CAPABILITIES = ("8.0", "8.6", "8.9", "9.0", "10.0", "12.0")
_TYPES = {"float32": pb.TYPE_FP32, "int64": pb.TYPE_INT64}
_WARM_UP_TOKENS = 8
_DYNAMIC = -1


def graph_configs(manifest: Manifest) -> dict[str, str]:
    """Configurations by their paths in a model repository."""
    return {
        f"{graph}/configs/{backend}.pbtxt": text_format.MessageToString(config)
        for graph in GRAPHS
        for backend, config in (
            ("onnxruntime", _onnxruntime(manifest, graph)),
            ("tensorrt", _tensorrt(manifest, graph)),
        )
    }


def _onnxruntime(manifest: Manifest, graph: str) -> pb.ModelConfig:
    file = manifest.graphs[graph].file
    config = _common(manifest, graph, "onnxruntime", set())
    config.default_model_filename = f"{_FROM_VERSION}/{file}"
    return config


def _tensorrt(manifest: Manifest, graph: str) -> pb.ModelConfig:
    lowered = cache_tensors(manifest.dimensions.decoder_layers)
    # A plan's cache has a fixed length, that of the longest translation.
    config = _common(manifest, graph, "tensorrt", lowered, manifest.limits.max_target_tokens)
    for capability in _CAPABILITIES:
        file = plan_name(plain_name(graph), PLAIN_PRECISION, capability, "tensorrt")
        config.cc_model_filenames[capability] = f"{_FROM_VERSION}/{file}"
    return config


def _common(
    manifest: Manifest,
    graph: str,
    backend: str,
    lowered: set[str],
    cache_tokens: int = _DYNAMIC,
) -> pb.ModelConfig:
    """The common part of both backends' configurations; `lowered` tensors are in fp16.

    Requests of the same shapes are batched if the beam width is one: a wider beam has more rows
    than sources.
    """
    entry = manifest.graphs[graph]
    config = pb.ModelConfig(name=graph, backend=backend, max_batch_size=_MOST_AT_ONCE)
    for tensor in entry.inputs:
        config.input.append(_tensor(tensor, lowered, cache_tokens, pb.ModelInput))
    for tensor in entry.outputs:
        config.output.append(_tensor(tensor, lowered, cache_tokens, pb.ModelOutput))
    config.instance_group.add(count=1, kind=pb.ModelInstanceGroup.KIND_GPU)
    config.dynamic_batching.preferred_batch_size.append(_MOST_AT_ONCE)
    warm_up = config.model_warmup.add(name="zeros", batch_size=1)
    for model_input in config.input:
        dims = [_WARM_UP_TOKENS if size < 0 else size for size in model_input.dims]
        data_type = model_input.data_type
        warm_up.inputs[model_input.name].CopyFrom(
            pb.ModelWarmup.Input(data_type=data_type, dims=dims, zero_data=True)
        )
    return config


def _tensor(
    entry: TensorEntry,
    lowered: set[str],
    cache_tokens: int,
    kind: type[pb.ModelInput | pb.ModelOutput],
) -> pb.ModelInput | pb.ModelOutput:
    """A tensor with the batch as first dimension; one without others gets a dimension of size 1."""
    data_type = pb.TYPE_FP16 if entry.name in lowered else _TYPES[entry.dtype]
    letters = {"C": cache_tokens}
    dims = [
        int(size) if size.isdigit() else letters.get(size, _DYNAMIC) for size in entry.shape[1:]
    ]
    made = kind(name=entry.name, data_type=data_type, dims=dims or [1])
    if not dims:
        made.reshape.SetInParent()
    return made
