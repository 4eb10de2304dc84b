"""The benchmark of starts: its processes and its table."""

from __future__ import annotations

import shutil
from pathlib import Path

from dragoman.kernel.replacement import KEPT_PREFIX
from lab.engine.start import HEADER, Start, StartCase, measure


def test_a_bundle_is_started_with_and_without_cached_codes(
    random_bundle: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(random_bundle, bundle)
    made, kept = measure("random", bundle, rounds=1)
    assert (made.kept, kept.kept) == (False, True)
    for case in (made, kept):
        (start,) = case.starts
        assert 0 < start.load_s < start.first_s
        assert start.peak_bytes > 1 << 20
        assert "native" in start.layout
    assert len(list(bundle.glob(f"{KEPT_PREFIX}*"))) == 1


def test_the_table_has_medians() -> None:
    starts = tuple(Start(n, n / 10, n << 20, "int8 (native, c)") for n in (1, 5, 2))
    cells = StartCase("base", True, starts).cells()
    assert cells == ("base", "kept", "2.00", "0.20", "2")
    assert len(cells) == len(HEADER)
