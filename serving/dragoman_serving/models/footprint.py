"""The maximum memory of a bundle, known before it is loaded, and settings that limit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman_serving.engine.batching.engine import most_bytes
from dragoman_serving.engine.compiled.compiled_network import NativeMemory
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.loading import batch_limits, choose_layout, worker_threads
from dragoman_serving.models.routes import Bundle

_KINDS = 2
"""Beam widths that a worker handles at the same time, if memory is limited."""
_SCORE_TOKENS = 1024
"""`Tuning` if memory is limited: buffers for larger batches stay allocated."""
_CACHES_DIVISOR = 8
"""The caches of one bundle take at most the limit of all bundles, divided by this."""
_TOKENIZER_FACTOR, _ENTRY_BYTES = 12, 250
"""Memory of a vocabulary: bytes for each byte of its file, and for each entry."""
_THREADS_BYTES = 8 << 20
"""For thread stacks, and the allocator's arenas of each thread."""
_SHORTLIST_FACTOR = 2
_CODING_FACTOR = 4
"""Layers, and parts of the embedding, are converted one by one, in fp32 with copies."""
_PROCESS_BYTES = 60 << 20
"""Memory of the engine process without bundles: 52 MB were measured, and 62 MB with tracing."""
_RESERVED_BYTES = 48 << 20
"""Memory for waiting requests and their answers, which belong to no bundle."""


@dataclass(frozen=True)
class Footprint:
    """The maximum memory of a loaded bundle, and the additional memory while it loads."""

    loaded_bytes: int
    loading_bytes: int = 0


def bounded(settings: EngineSettings, manifest: Manifest, most: int) -> EngineSettings:
    """Returns settings that limit a bundle's caches to a fair part of the memory limit.

    Args:
        settings: the given settings; `max_rows` is kept if it is set.
        manifest: manifest of the bundle.
        most: limit of all bundles together, in bytes.
    """
    tuning = replace(settings.tuning, score_tokens=_SCORE_TOKENS)
    settings = replace(settings, max_kinds=_KINDS, tuning=tuning)
    if settings.max_rows is not None:
        return settings
    rows = batch_limits(settings, manifest.dimensions).rows
    fewest = manifest.limits.max_beam_width
    while rows > fewest and _caches(manifest, replace(settings, max_rows=rows)) > (
        most // _CACHES_DIVISOR
    ):
        rows = max(rows // 2, fewest)
    return replace(settings, max_rows=rows)


def measure(bundle: Path, manifest: Manifest, settings: EngineSettings) -> Footprint:
    """Returns the memory of a bundle with `bounded` settings.

    Raises:
        UsageError: the bundle does not run in compiled code, which alone has a memory limit.
    """
    layout = choose_layout(settings, bundle, manifest)
    if layout.runtime != "native":
        raise UsageError(
            f"{bundle}: --memory limits only the native runtime, but this bundle runs in "
            f"{layout.runtime}: serve without --memory, or with runtime auto and precision auto"
        )
    memory, tuning = NativeMemory(manifest), settings.tuning
    limits = batch_limits(settings, manifest.dimensions)
    of_thread = memory.scratch_bytes(memory.encoded_tokens, limits.rows)
    scorer = memory.scratch_bytes(tuning.score_tokens + memory.longest, limits.rows)
    scored = memory.cache_shape.bytes(2 * tuning.score_tokens)
    loaded = (
        memory.weights_bytes()
        + _caches(manifest, settings)
        + worker_threads(settings) * of_thread
        + scorer
        + scored
        + _texts(bundle, manifest)
        + _THREADS_BYTES
    )
    sizes = manifest.dimensions
    return Footprint(
        loaded, _CODING_FACTOR * 4 * sizes.model_size * max(sizes.feed_forward_size, 1024)
    )


def most_of_bundles(memory_bytes: int, process_bytes: int = 0) -> int:
    """Returns the limit of all bundles together; negative if not even the process fits.

    Args:
        memory_bytes: memory limit of the engine process.
        process_bytes: memory of that process without bundles, if it is known.
    """
    return memory_bytes - _RESERVED_BYTES - max(process_bytes, _PROCESS_BYTES)


def check_memory(memory_bytes: int, bundles: Sequence[Bundle], settings: EngineSettings) -> None:
    """Check that the memory limit of the engine process has space for each bundle alone.

    Raises:
        UsageError: it has not, or a bundle does not run in compiled code.
    """
    most_bytes = most_of_bundles(memory_bytes)
    least = {bundle.name: _least(bundle, settings, most_bytes) for bundle in bundles}
    largest = max(least, key=lambda name: least[name])
    if least[largest] > most_bytes:
        own_bytes = memory_bytes - most_bytes
        raise UsageError(
            f"--memory {memory_bytes / 1e6:g}MB: the engine takes {own_bytes / 1e6:.0f} MB, and "
            f"the model {largest!r} up to {least[largest] / 1e6:.0f} MB: give at least "
            f"{-(-(own_bytes + least[largest]) // 10**6)}MB"
        )


def _least(bundle: Bundle, settings: EngineSettings, from_bytes: int) -> int:
    """The smallest limit of all bundles, at least `from_bytes`, with which a bundle fits."""
    least_bytes = max(from_bytes, 0)
    while True:  # a higher limit allows larger caches, up to those for the most rows
        bounds = bounded(settings, bundle.manifest, least_bytes)
        footprint = measure(bundle.folder, bundle.manifest, bounds)
        needed_bytes = footprint.loaded_bytes + footprint.loading_bytes
        if needed_bytes <= least_bytes:
            return least_bytes
        least_bytes = needed_bytes


def _caches(manifest: Manifest, settings: EngineSettings) -> int:
    """Maximum bytes of the caches."""
    limits = batch_limits(settings, manifest.dimensions)
    of_worker = most_bytes(NativeMemory(manifest), limits, manifest.limits.max_beam_width)
    return (settings.max_kinds or 1) * worker_threads(settings) * of_worker


def _texts(bundle: Path, manifest: Manifest) -> int:
    """Bytes of the vocabularies and the shortlists in memory."""
    names = [name for name in (manifest.tokenizer, manifest.tgt_tokenizer) if name is not None]
    entries = manifest.dimensions.vocab_size + manifest.dimensions.src_ids
    lists = _size(bundle / manifest.shortlist) if manifest.shortlist else 0
    files = sum(_size(bundle / name) for name in names)
    return _TOKENIZER_FACTOR * files + _ENTRY_BYTES * entries + _SHORTLIST_FACTOR * lists


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
