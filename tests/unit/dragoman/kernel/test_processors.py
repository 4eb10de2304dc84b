from __future__ import annotations

import os
from pathlib import Path

import pytest

from dragoman.kernel.processors import usable_cores, usable_processors


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux alone can restrict it")
def test_only_the_processors_of_this_process_count() -> None:
    all_of_them = usable_processors()
    single = {min(all_of_them)}
    os.sched_setaffinity(0, single)
    try:
        assert usable_processors() == single
    finally:
        os.sched_setaffinity(0, all_of_them)


@pytest.mark.parametrize(("count", "expected"), [(3, {0, 1, 2}), (None, {0})])
def test_without_an_affinity_set_all_processors_count(
    count: int | None, expected: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert usable_processors() == expected


@pytest.fixture
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


@pytest.mark.usefixtures("eight_processors")
@pytest.mark.parametrize(
    ("group", "files", "cores"),
    [
        ("0::/", {"cpu.max": "200000 100000"}, 2),
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/", {"cpu.max": "20000 100000"}, 1),
        ("0::/", {"cpu.max": "1600000 100000"}, 8),
        ("0::/", {"cpu.max": "max 100000"}, 8),
        ("0::/", {"cpu.max": "nonsense"}, 8),
        ("0::/a/b", {"a/cpu.max": "300000 100000", "a/b/cpu.max": "max 100000"}, 3),
        ("0::/a/b", {"cpu.max": "400000 100000"}, 4),
        ("4:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "10000"}, 5),
        ("4:cpu:/x", {"cpu/x/cpu.cfs_quota_us": "-1", "cpu/x/cpu.cfs_period_us": "100000"}, 8),
        ("4:cpu:/x", {"cpu/x/cpu.cfs_quota_us": "1000", "cpu/x/cpu.cfs_period_us": "1000"}, 1),
        ("4:memory:/x", {"cpu/x/cpu.cfs_quota_us": "1000", "cpu/x/cpu.cfs_period_us": "1000"}, 8),
        ("0::/", {}, 8),
    ],
)
def test_a_containers_limit_of_processor_time_counts(
    group: str, files: dict[str, str], cores: int, tmp_path: Path
) -> None:
    for name, text in {
        "proc/self/cgroup": f"12:pids:/x\n{group}\n",
        **{f"sys/fs/cgroup/{name}": text for name, text in files.items()},
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert usable_cores(tmp_path) == cores


@pytest.mark.usefixtures("eight_processors")
def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == 8
