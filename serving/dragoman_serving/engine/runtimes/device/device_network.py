"""A `Network` with its caches on a device."""

from __future__ import annotations

from dragoman.kernel.manifest import Manifest, SpecialIds
from dragoman_serving.engine.runtimes.device.device_decoding import DeviceDecoding, Runner
from dragoman_serving.engine.runtimes.device.device_memory import Memory


class DeviceNetwork:
    """See `Network`. One worker is enough, because a device runs operations one after another."""

    pads_sources = True
    gains_alone = False

    def __init__(self, manifest: Manifest, runner: Runner, memory: Memory) -> None:
        """Store the graphs of a bundle.

        Args:
            manifest: manifest of the bundle.
            runner: runs its graphs on the device.
            memory: memory of the device.
        """
        self._manifest = manifest
        self._runner = runner
        self._memory = memory

    @property
    def most_rows(self) -> int | None:
        """See `Network`."""
        return self._runner.most_rows

    def most_bytes(self, width: int, slots: int) -> int:
        """See `Network`."""
        return self.begin(width, self._manifest.special_ids, slots).most_bytes

    def begin(
        self, width: int, special_ids: SpecialIds, slots: int, searches: int = 1
    ) -> DeviceDecoding:
        """See `Network`."""
        manifest = self._manifest
        return DeviceDecoding(
            runner=self._runner,
            memory=self._memory,
            sizes=manifest.dimensions,
            limits=manifest.limits,
            special_ids=special_ids,
            width=width * searches,
            most_slots=slots,
            searches=searches,
        )
