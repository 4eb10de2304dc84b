"""Choices made if there is a GPU; the GPU is simulated."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import onnxruntime
import pytest
from dragoman_serving.engine.runtimes.device import gpu
from dragoman_serving.engine.runtimes.tensorrt_library import TensorRT
from dragoman_serving.engine.settings import EngineSettings, QuantizedPrecision
from dragoman_serving.launch import diagnosis
from dragoman_serving.models import loading
from dragoman_serving.models.loading import Layout, batch_limits, choose_layout, open_engine

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest


@pytest.fixture
def manifest(random_bundle: Path) -> Manifest:
    return Manifest.load(random_bundle)


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Ada GPU, ONNX Runtime for it, and a TensorRT whose name alone is used."""
    monkeypatch.setattr(gpu, "gpu_obstacle", lambda: None)
    monkeypatch.setattr(gpu, "local_compute_capability", lambda: "8.9")
    monkeypatch.setattr(gpu, "load", lambda: TensorRT(None, "tensorrt_rtx", "1.7.1"))
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: providers)


def test_without_a_gpu_the_cpu_decodes(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "gpu_obstacle", lambda: "there is no NVIDIA GPU")
    monkeypatch.setattr(loading, "exact_int8_products", lambda: False)
    monkeypatch.setattr(loading, "sizes_obstacle", lambda _sizes: "the moon is full")
    assert choose_layout(EngineSettings(), Path(), manifest) == Layout("onnxruntime", "fp32")
    for runtime in ("onnxruntime_cuda", "tensorrt"):
        with pytest.raises(UsageError, match=f"runtime is {runtime}, but there is no NVIDIA GPU"):
            choose_layout(EngineSettings(runtime=runtime), Path(), manifest)
    with pytest.raises(UsageError, match="precision is fp16, which is for GPUs"):
        choose_layout(EngineSettings(precision="fp16"), Path(), manifest)


@pytest.mark.usefixtures("with_gpu")
def test_a_gpu_is_used_if_there_is_one(manifest: Manifest) -> None:
    for settings, given in (
        (EngineSettings(), "fp16"),
        (EngineSettings(precision="bf16"), "bf16"),
        (EngineSettings(precision="fp32"), "fp32"),
    ):
        layout = choose_layout(settings, Path(), manifest)
        assert (layout.runtime, layout.precision) == ("onnxruntime_cuda", given)
    assert batch_limits(EngineSettings(), manifest.dimensions, "onnxruntime_cuda").rows == 256


@pytest.mark.usefixtures("with_gpu")
def test_fitting_plans_are_used(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "fitting_plans", lambda *_: {})
    assert choose_layout(EngineSettings(), Path(), manifest) == Layout("tensorrt", "fp16")
    for precision in get_args(QuantizedPrecision):
        settings = EngineSettings(precision=precision)
        assert choose_layout(settings, Path(), manifest) == Layout("tensorrt", precision)


@pytest.mark.usefixtures("with_gpu")
def test_impossible_settings_are_refused(manifest: Manifest) -> None:
    with pytest.raises(UsageError, match="runtime is tensorrt, but model: has no TensorRT plans"):
        choose_layout(EngineSettings(runtime="tensorrt"), Path("model"), manifest)
    for precision in get_args(QuantizedPrecision):
        settings = EngineSettings(runtime="onnxruntime_cuda", precision=precision)
        with pytest.raises(UsageError, match="it computes in fp32, fp16 or bf16"):
            choose_layout(settings, Path(), manifest)
    with pytest.raises(UsageError, match="precision is fp8, which is for GPUs, and no GPU here"):
        choose_layout(EngineSettings(precision="fp8"), Path(), manifest)


@pytest.mark.usefixtures("with_gpu")
def test_an_onnx_runtime_for_cpus_leaves_the_gpu_alone(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    assert choose_layout(EngineSettings(), Path(), manifest).runtime in ("native", "onnxruntime")
    with pytest.raises(UsageError, match="this ONNX Runtime is only for CPUs"):
        choose_layout(EngineSettings(runtime="onnxruntime_cuda"), Path(), manifest)


@pytest.mark.usefixtures("with_gpu")
def test_the_cpu_is_used_if_the_gpu_does_not_work(random_bundle: Path, manifest: Manifest) -> None:
    """Only if no GPU was requested; this machine has no CUDA, although a GPU is simulated."""
    opened = open_engine(random_bundle, manifest, EngineSettings())
    opened.engine.close()
    assert opened.layout.runtime in ("native", "onnxruntime")
    with pytest.raises(UsageError, match=r"\S"):
        open_engine(random_bundle, manifest, EngineSettings(runtime="onnxruntime_cuda"))
    with pytest.raises(UsageError, match="workers is 2, but a GPU runs a single worker"):
        open_engine(random_bundle, manifest, EngineSettings(runtime="onnxruntime_cuda", workers=2))


@pytest.mark.parametrize(
    ("obstacle", "provider_obstacle", "severity"),
    [("no GPU", None, "ok"), (None, "for CPUs", "slow"), (None, None, "ok")],
)
def test_the_doctor_reports_the_gpu(
    obstacle: str | None, provider_obstacle: str | None, severity: str
) -> None:
    assert diagnosis._gpu(obstacle, provider_obstacle).severity == severity
