"""The contenders of the GPU check: the engine over each available runtime, and PyTorch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch
from dragoman_export.tensorrt.plans import PlanSettings, build_plans
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.network import Network
from dragoman_serving.engine.runtimes.device.device_memory import HostMemory
from dragoman_serving.engine.runtimes.device.device_network import DeviceNetwork
from dragoman_serving.engine.runtimes.device.gpu import (
    GpuRuntime,
    open_gpu_network,
    runtime_obstacle,
)
from dragoman_serving.engine.runtimes.device.onnx_runner import OnnxRunner
from dragoman_serving.engine.runtimes.tensorrt_library import load
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import (
    BatchLimits,
    FloatPrecision,
    Precision,
    QuantizedPrecision,
)
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.search import beam_search
from dragoman_training.run import checkpoint
from dragoman_training.text.examples import pad

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import BEGIN_ID, END_ID, PAD_ID
from lab.peers.workers.worker_protocol import TokenIds

NAMES = ("PyTorch eager", "PyTorch compiled", "ONNX Runtime", "TensorRT")
PRECISIONS = get_args(FloatPrecision)
LENGTH_PENALTY = 0.6
_TORCH_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

Decode = Callable[[TokenIds, int], list[tuple[int, ...]]]
"""Maps sources and a beam width to the translations."""


@dataclass(frozen=True)
class Contender:
    """A way to decode, started by `begin`; ours, or one to compare with."""

    name: str
    is_ours: bool
    precision: Precision
    begin: Callable[[], contextlib.AbstractContextManager[Decode]]


def contenders(
    bundle: Path,
    device: str,
    rows: int,
    sources: Sequence[Sequence[int]],
    left_out: Sequence[str] = (),
) -> tuple[list[Contender], dict[str, str]]:
    """All contenders that are available here, and why the others are not.

    Args:
        bundle: a writable bundle.
        device: `cuda`, or `cpu` for a rehearsal.
        rows: maximum number of rows at once.
        sources: texts for the calibration of 8-bit products.
        left_out: those of `NAMES` that are not wanted.
    """
    manifest = Manifest.load(bundle)
    available: list[Contender] = []
    missing = dict.fromkeys(left_out, "left out")
    for precision in PRECISIONS:
        for name in [name for name in NAMES[:2] if name not in missing]:
            begin = _torch_decoder(bundle, precision, device, compiled=name == "PyTorch compiled")
            available.append(Contender(name, False, precision, begin))
    on_gpu = device == "cuda"
    for name in [name for name in NAMES[2:] if name not in missing]:
        if name == "TensorRT":
            obstacle = _build_plans(bundle, rows, sources) if on_gpu else "a rehearsal on a CPU"
        else:
            obstacle = (
                runtime_obstacle("onnxruntime_cuda", bundle, manifest, "fp16") if on_gpu else None
            )
        if obstacle is not None:
            missing[name] = obstacle
            continue
        quantized = get_args(QuantizedPrecision) if name == "TensorRT" else ()
        if name == "TensorRT":
            plain = _network(bundle, manifest, name, "fp16", device, records=False)
            begin = _engine_decoder(plain, manifest, rows)
            available.append(Contender(f"{name} without CUDA graphs", True, "fp16", begin))
        for precision in (*PRECISIONS, *quantized):
            if not on_gpu and precision == "bf16":
                continue  # ONNX Runtime has no such kernels for CPUs
            network = _network(bundle, manifest, name, precision, device)
            begin = _engine_decoder(network, manifest, rows)
            available.append(Contender(name, True, precision, begin))
    return available, missing


def _build_plans(bundle: Path, rows: int, sources: Sequence[Sequence[int]]) -> str | None:
    """Build TensorRT plans; if that is impossible, return the reason."""
    try:
        library = load()
        for precision in get_args(Precision):
            settings = PlanSettings(
                precision, library=library.name, max_rows=rows, calibration=sources
            )
            list(build_plans(bundle, settings, force=True))
    except DragomanError as error:
        return str(error)
    return None


def _network(
    bundle: Path,
    manifest: Manifest,
    name: str,
    precision: Precision,
    device: str,
    records: bool = True,
) -> Callable[[], Network]:
    if device == "cpu":
        assert precision != "int8"
        assert precision != "fp8"
        memory = HostMemory()
        return lambda: DeviceNetwork(
            manifest, OnnxRunner(bundle, manifest, precision, "cpu", memory), memory
        )
    runtime: GpuRuntime = "tensorrt" if name == "TensorRT" else "onnxruntime_cuda"
    return lambda: open_gpu_network(bundle, Manifest.load(bundle), runtime, precision, records)


def _engine_decoder(
    network: Callable[[], Network], manifest: Manifest, rows: int
) -> Callable[[], contextlib.AbstractContextManager[Decode]]:
    @contextlib.contextmanager
    def begin() -> Iterator[Decode]:
        engine = Engine(network(), manifest.special_ids, workers=1, limits=BatchLimits(rows))

        def decode(inputs: TokenIds, width: int) -> list[tuple[int, ...]]:
            options = SearchOptions(width, LENGTH_PENALTY)
            sentences = [
                Sentence(tuple(ids), limit, options)
                for ids, limit in zip(inputs.sources, inputs.max_tokens, strict=True)
            ]
            return [future.result().ids for future in engine.submit(sentences)]

        try:
            yield decode
        finally:
            engine.close()

    return begin


def _torch_decoder(
    bundle: Path, precision: FloatPrecision, device: str, compiled: bool
) -> Callable[[], contextlib.AbstractContextManager[Decode]]:
    @contextlib.contextmanager
    def begin() -> Iterator[Decode]:
        model = checkpoint.load(bundle).model.to(device, _TORCH_TYPES[precision])
        if compiled:
            model.encode = torch.compile(model.encode, dynamic=True)  # type: ignore[method-assign]
            model.decode = torch.compile(model.decode, dynamic=True)  # type: ignore[method-assign]
        yield lambda inputs, width: _search(model, device, inputs, width)

    return begin


def _search(model: Transformer, device: str, inputs: TokenIds, width: int) -> list[tuple[int, ...]]:
    """Greedy search of all sentences as one batch, or the oracle's beam search; on prefixes."""
    with torch.device(device):
        if width == 1:
            return _greedy(model, inputs)
        hypotheses = beam_search(model, inputs.sources, inputs.max_tokens, width, LENGTH_PENALTY)
    return [hypothesis.ids for hypothesis in hypotheses]


@torch.no_grad()
def _greedy(model: Transformer, inputs: TokenIds) -> list[tuple[int, ...]]:
    # The oracle chooses sentence by sentence, so that the CPU would be measured, not the GPU.
    src_ids = pad(inputs.sources).to(model.embedding.weight.device)  # [B, S]
    keep = src_ids != PAD_ID
    memory = model.encode(src_ids, keep)
    limits = torch.tensor(inputs.max_tokens)
    tgt_ids = torch.full((len(src_ids), 1), BEGIN_ID)  # [B, T]
    ended = torch.zeros(len(src_ids), dtype=torch.bool)
    while not ended.all():
        logits = model.project(model.decode(tgt_ids, memory, keep)[:, -1])
        chosen = logits.argmax(dim=-1).masked_fill(ended, PAD_ID)
        tgt_ids = torch.cat([tgt_ids, chosen[:, None]], dim=1)
        ended |= (chosen == END_ID) | (tgt_ids.size(1) > limits)
    rows = zip(tgt_ids[:, 1:].tolist(), inputs.max_tokens, strict=True)
    marks = (PAD_ID, END_ID)
    return [tuple(token for token in ids[:limit] if token not in marks) for ids, limit in rows]
