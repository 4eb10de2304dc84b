"""A `Network` whose caches stay on a device."""

from __future__ import annotations

from dragoman.kernel.manifest import Manifest, SpecialIds
from dragoman_serving.engine.runtimes.device.device_decoding import DeviceDecoding, Runner
from dragoman_serving.engine.runtimes.device.device_memory import ITEM_BYTES, Memory
from dragoman_serving.engine.runtimes.device.row_counts import padded_count


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

    @property
    def most_rows(self) -> int | None:
        """See `Network`."""
        return self._runner.most_rows

    def most_bytes(self, rows: int, src_tokens: int, tgt_tokens: int) -> int:
        """See `Network`."""
        sizes = self._manifest.dimensions
        of_token = 2 * sizes.decoder_layers * sizes.model_size
        of_token *= ITEM_BYTES[self._runner.cache_dtype]
        if self._runner.pads_steps:
            rows = padded_count(rows, self._runner.most_rows)
        # Memory doubles as it grows, and there are two of each, to reorder from one into the other.
        return 4 * rows * of_token * (src_tokens + tgt_tokens)

    def begin(self, width: int, special_ids: SpecialIds) -> DeviceDecoding:
        """See `Network`."""
        manifest = self._manifest
        return DeviceDecoding(
            *(self._runner, self._memory, manifest.dimensions, manifest.limits),
            *(special_ids, width),
        )
