"""A `Network` whose caches stay on a device."""

from __future__ import annotations

from dragoman.manifest import Manifest, SpecialIds
from serving.engine.cache import CacheShape
from serving.engine.device.decoding import DeviceDecoding, Runner
from serving.engine.device.memory import Memory


class DeviceNetwork:
    """See `Network`. A device does one thing after another, so one worker is all it needs."""

    pads_sources = True
    gains_alone = False

    def __init__(self, manifest: Manifest, runner: Runner, memory: Memory) -> None:
        """Take the graphs of a bundle, ready to run.

        Args:
            manifest: of the bundle.
            runner: its graphs on the device.
            memory: of the device.
        """
        self._manifest = manifest
        self._runner = runner
        self._memory = memory
        sizes = manifest.dimensions
        self.cache_shape = CacheShape(2 * sizes.decoder_layers, sizes.heads, sizes.head_size)

    def begin(self, width: int, special_ids: SpecialIds) -> DeviceDecoding:
        """See `Network`."""
        manifest = self._manifest
        return DeviceDecoding(
            *(self._runner, self._memory, manifest.dimensions, manifest.limits),
            *(special_ids, width),
        )
