"""The measurement of starts: its processes."""

from __future__ import annotations

import shutil
from pathlib import Path

from dragoman.kernel.replacement import KEPT_PREFIX
from lab.engine.start import measure


def test_a_bundle_is_started_with_and_without_cached_codes(
    random_bundle: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(random_bundle, bundle)
    results = measure(bundle, rounds=1)
    assert list(results) == ["made", "kept"]
    for (start,) in results.values():
        assert 0 < start.load_s < start.first_s
        assert start.peak_bytes > 1 << 20
        assert 1 << 20 < start.added_bytes < start.peak_bytes
        assert "native" in start.layout
    assert len(list(bundle.glob(f"{KEPT_PREFIX}*"))) == 1
