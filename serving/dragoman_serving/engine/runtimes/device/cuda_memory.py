"""The memory of an NVIDIA GPU, through cuda-python.

Source: https://nvidia.github.io/cuda-python/cuda-bindings/latest/module/runtime.html
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.installation import install_command
from dragoman_serving.engine.runtimes.device.device_memory import Block, Lines

_STAGING_BYTES = 1 << 22


class OutOfMemory(DragomanError):
    """The GPU does not have enough free memory."""


class CudaMemory:
    """See `Memory`: one GPU, one stream, one thread.

    Arrays are copied through pinned memory, which the GPU accesses directly.
    """

    def __init__(self) -> None:
        """Use the first GPU, which is the default of every thread.

        Raises:
            UsageError: cuda-bindings is not installed, or there is no GPU.
        """
        try:
            from cuda.bindings import runtime
        except ImportError:
            install = install_command("serve-gpu")
            raise UsageError(f"cuda-bindings is not installed: {install}") from None
        self._cuda = runtime
        (error,) = runtime.cudaSetDevice(0)
        if error != runtime.cudaError_t.cudaSuccess:
            raise UsageError(f"there is no GPU to use: {self._name(error)}")
        self.stream = self._check(runtime.cudaStreamCreate())
        self._staging = self._check(runtime.cudaHostAlloc(_STAGING_BYTES, 0))
        kinds = runtime.cudaMemcpyKind
        self._to_device = kinds.cudaMemcpyHostToDevice
        self._to_host = kinds.cudaMemcpyDeviceToHost
        self._within = kinds.cudaMemcpyDeviceToDevice
        self._staged = 0

    def allocate(self, nbytes: int) -> Block:
        """See `Memory`."""
        error, address = self._cuda.cudaMalloc(nbytes) if nbytes else (None, 0)
        if error is not None and error != self._cuda.cudaError_t.cudaSuccess:
            raise OutOfMemory(
                f"the GPU has no {nbytes / 1e6:.0f} MB left ({self._name(error)}): "
                "serve with fewer max_rows"
            )
        if nbytes:
            self._check(self._cuda.cudaMemsetAsync(address, 0, nbytes, self.stream))
        return _CudaBlock(self._cuda, int(address), nbytes)

    def upload(self, array: npt.NDArray[Any], address: int) -> None:
        """See `Memory`."""
        content = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        if self._staged + content.nbytes > _STAGING_BYTES:
            self.synchronize()  # after this, the staging memory is free
        if content.nbytes > _STAGING_BYTES:
            raise ValueError(f"{content.nbytes} bytes at once")
        source = int(self._staging) + self._staged
        ctypes.memmove(source, content.ctypes.data, content.nbytes)
        self._staged += content.nbytes
        self._copy(address, source, content.nbytes, self._to_device)

    def download(self, address: int, array: npt.NDArray[Any]) -> None:
        """See `Memory`."""
        if array.nbytes > _STAGING_BYTES:
            self._copy(array.ctypes.data, address, array.nbytes, self._to_host)
            self.synchronize()
            return
        if self._staged + array.nbytes > _STAGING_BYTES:
            self.synchronize()
        target = int(self._staging) + self._staged
        self._copy(target, address, array.nbytes, self._to_host)
        self.synchronize()
        ctypes.memmove(array.ctypes.data, target, array.nbytes)

    def copy(self, source: Lines, target: Lines, count: int, nbytes: int) -> None:
        """See `Memory`."""
        if not count or not nbytes:
            return
        self._check(
            self._cuda.cudaMemcpy2DAsync(
                target.address,
                target.pitch,
                source.address,
                source.pitch,
                nbytes,
                count,
                self._within,
                self.stream,
            )
        )

    def synchronize(self) -> None:
        """See `Memory`."""
        self._check(self._cuda.cudaStreamSynchronize(self.stream))
        self._staged = 0

    def record(self, enqueue: Callable[[], Any]) -> tuple[Any, Any]:
        """See `Recorder`: a CUDA graph, ready to launch."""
        # Relaxed, because unused memory may be freed during the capture.
        mode = self._cuda.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
        enqueue()  # a capture does not execute, and first-time allocations must not be captured
        self._check(self._cuda.cudaStreamBeginCapture(self.stream, mode))
        try:
            returned = enqueue()
        finally:
            ended = self._cuda.cudaStreamEndCapture(self.stream)
        graph = self._check(ended)
        try:
            handle = self._check(self._cuda.cudaGraphInstantiate(graph, 0))
        finally:
            self._cuda.cudaGraphDestroy(graph)
        return _CudaGraph(self._cuda, handle), returned

    def replay(self, recording: Any) -> None:
        """See `Recorder`."""
        self._check(self._cuda.cudaGraphLaunch(recording.handle, self.stream))

    def _copy(self, target: int, source: int, nbytes: int, kind: Any) -> None:
        self._check(self._cuda.cudaMemcpyAsync(target, source, nbytes, kind, self.stream))

    def _check(self, returned: tuple[Any, ...]) -> Any:
        error, *values = returned
        if error != self._cuda.cudaError_t.cudaSuccess:
            raise RuntimeError(f"CUDA: {self._name(error)}")
        return values[0] if values else None

    def _name(self, error: Any) -> str:
        name = self._cuda.cudaGetErrorName(error)[1]
        return name.decode() if isinstance(name, bytes) else str(name)


class _CudaGraph:
    def __init__(self, cuda: Any, handle: Any) -> None:
        self._cuda = cuda
        self.handle = handle

    def __del__(self) -> None:
        self._cuda.cudaGraphExecDestroy(self.handle)


class _CudaBlock:
    def __init__(self, cuda: Any, address: int, nbytes: int) -> None:
        self._cuda = cuda
        self.address = address
        self.nbytes = nbytes

    def __del__(self) -> None:
        if self.address:
            self._cuda.cudaFree(self.address)
