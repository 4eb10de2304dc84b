"""How much memory a bundle may take, known before it is loaded, and the settings that bound it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from dragoman_serving.engine.batching.engine import most_bytes
from dragoman_serving.engine.compiled.compiled_network import NativeMemory
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.models.loading import batch_limits, choose_layout, worker_threads

_KINDS = 2
"""Beam widths that a worker of a bounded engine steps at a time."""
_ENCODER_TOKENS, _SCORE_TOKENS = 512, 1024
"""`Tuning` of a bounded engine: what is computed at once takes memory for as long as it lives."""
_CACHES_DIVISOR = 8
"""The caches of one bundle take at most this part of what all bundles may take."""
_TOKENIZER_FACTOR, _ENTRY_BYTES = 12, 250
"""Bytes that a vocabulary takes, for each byte of its file and for each of its entries."""
_THREADS_BYTES = 8 << 20
"""For stacks, and for what the allocator keeps for each thread."""
_SHORTLIST_FACTOR = 2
_CODING_FACTOR = 4
"""Layers and pieces of the embedding are coded one by one, in fp32 with copies."""


@dataclass(frozen=True)
class Footprint:
    """The most memory that a bundle takes: while it is loaded, and beside that while it loads."""

    loaded_bytes: int
    loading_bytes: int = 0


def bounded(settings: EngineSettings, manifest: Manifest, most: int) -> EngineSettings:
    """Settings with which a bundle's caches take a fair part of a bound at most.

    Args:
        settings: that were given. Rows that they name stay as they are.
        manifest: of the bundle.
        most: bytes that all bundles together may take.
    """
    tuning = replace(settings.tuning, encoder_tokens=_ENCODER_TOKENS, score_tokens=_SCORE_TOKENS)
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
    """What a bundle takes with `bounded` settings.

    Raises:
        UsageError: it does not run in the compiled code, whose memory alone is bounded.
    """
    layout = choose_layout(settings, bundle, manifest)
    if layout.runtime != "native":
        raise UsageError(
            f"{bundle}: --memory bounds what our compiled code takes, but this bundle runs in "
            f"{layout.runtime}: serve without --memory, or with runtime auto and precision auto"
        )
    memory, tuning = NativeMemory(manifest), settings.tuning
    limits = batch_limits(settings, manifest.dimensions)
    of_thread = memory.scratch_bytes(tuning.encoder_tokens, limits.rows)
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


def _caches(manifest: Manifest, settings: EngineSettings) -> int:
    """Bytes that the caches take at most."""
    limits = batch_limits(settings, manifest.dimensions)
    of_worker = most_bytes(NativeMemory(manifest), limits, manifest.limits.max_beam_width)
    return (settings.max_kinds or 1) * worker_threads(settings) * of_worker


def _texts(bundle: Path, manifest: Manifest) -> int:
    """Bytes of the vocabularies and the shortlists."""
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
