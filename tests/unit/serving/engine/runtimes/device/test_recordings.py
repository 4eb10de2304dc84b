"""When a device's work is recorded; the device is simulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from dragoman_serving.engine.runtimes.device.recordings import Recordings


class Device:
    """Records what it did."""

    def __init__(self, fails: bool = False) -> None:
        self.done: list[str] = []
        self.fails = fails

    def record(self, enqueue: Callable[[], Any]) -> tuple[Any, Any]:
        if self.fails:
            raise RuntimeError("CUDA: cudaErrorStreamCaptureUnsupported")
        return f"recorded {enqueue()}", enqueue()

    def replay(self, recording: Any) -> None:
        self.done.append(recording)

    def synchronize(self) -> None:
        self.done.append("waited")


def run(recordings: Recordings, device: Device, name: str) -> None:
    recordings.run(name, lambda: device.done.append(name), lambda: lambda: name)


def test_repeated_work_is_recorded_and_then_replayed() -> None:
    device = Device()
    recordings = Recordings(device)
    for name in ("a", "b", "a", "a", "b", "a"):
        run(recordings, device, name)
    # Recording "a" and "b" runs them too, at their second use.
    assert device.done == ["a", "b", "recorded a", "recorded a"]


def test_recordings_are_limited_and_never_dropped_while_running() -> None:
    device = Device()
    recordings = Recordings(device, most=2)
    for name in ("a", "a", "b", "b", "a", "c", "c"):
        run(recordings, device, name)
    assert device.done == ["a", "b", "recorded a", "c", "waited"]
    run(recordings, device, "b")  # was least recently used, so it is new again
    assert device.done[-1] == "b"
    run(recordings, device, "a")
    assert device.done[-1] == "recorded a"


def test_work_runs_even_if_it_cannot_be_recorded(
    caplog: pytest.LogCaptureFixture,
) -> None:
    device = Device(fails=True)
    recordings = Recordings(device)
    for _ in range(4):
        run(recordings, device, "a")
    assert device.done == ["a"] * 4
    assert [record.message for record in caplog.records] == [
        "nothing is recorded on the GPU any more: CUDA: cudaErrorStreamCaptureUnsupported"
    ]
