from __future__ import annotations

import os

import pytest

from dragoman.kernel.processors import usable_processors


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone can restrict it")
def test_only_the_processors_of_this_process_count() -> None:
    all_of_them = usable_processors()
    one = {min(all_of_them)}
    os.sched_setaffinity(0, one)
    try:
        assert usable_processors() == one
    finally:
        os.sched_setaffinity(0, all_of_them)


@pytest.mark.parametrize(("count", "expected"), [(3, {0, 1, 2}), (None, {0})])
def test_without_such_a_set_all_processors_count(
    count: int | None, expected: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_processors() == expected
