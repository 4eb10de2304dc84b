"""How many engine processes a server has, and what each of them gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from dragoman_serving.launch import engine_shares as module
from dragoman_serving.launch.engine_shares import (
    CORES_PER_ENGINE,
    MOST_ENGINES,
    default_engines,
    engine_shares,
)
from dragoman_serving.launch.repository import BundleList
from dragoman_serving.models import loading
from dragoman_serving.models.loading import Layout
from dragoman_serving.service.models_to_serve import ModelsToServe

from dragoman.kernel.errors import UsageError
from tests.conftest import REPOSITORY

HEADER = REPOSITORY / "serving" / "dragoman_serving" / "relay" / "relay.h"


@pytest.fixture
def served(random_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Served:
    return Served(random_bundle, monkeypatch)


class Served:
    """A bundle on a machine with any number of cores."""

    def __init__(self, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._bundle, self._patch = bundle, monkeypatch

    def on(self, cores: int, memory_bytes: int | None = None, **parameters: str) -> BundleList:
        for user in (module, loading):
            self._patch.setattr(user, "usable_cores", lambda: cores)
        to_serve = ModelsToServe((str(self._bundle),), memory_bytes=memory_bytes)
        return BundleList(to_serve, parameters)


def workers_of(repository: BundleList, number: int) -> list[Mapping[str, str]]:
    return [share.parameters for share in engine_shares(repository, number)]


def test_machines_of_few_cores_have_one_process(served: Served) -> None:
    for cores in range(1, 2 * CORES_PER_ENGINE):
        assert default_engines(served.on(cores)) == 1
    for cores in (2 * CORES_PER_ENGINE, 3 * CORES_PER_ENGINE - 1):
        assert default_engines(served.on(cores)) == 2
    assert default_engines(served.on(10_000)) == MOST_ENGINES
    assert default_engines(served.on(64, workers=str(2 * CORES_PER_ENGINE - 1))) == 1
    assert default_engines(served.on(2, workers=str(2 * CORES_PER_ENGINE))) == 2


def test_one_process_has_the_settings_as_they_are(served: Served) -> None:
    repository = served.on(64, memory_bytes=10**9, deadline_s="5")
    (share,) = engine_shares(repository, 1)
    assert (share.parameters, share.to_serve) == (repository.parameters, repository.to_serve)


@pytest.mark.parametrize(
    ("cores", "number", "parameters", "workers"),
    [
        (8, 2, {}, ["4", "4"]),
        (7, 2, {}, ["4", "3"]),
        (2, 3, {}, ["1", "1", "1"]),
        (64, 2, {}, ["8", "8"]),  # more are worth nothing in one process
        (64, 2, {"workers": "20"}, ["10", "10"]),
        (1, 4, {"workers": "7"}, ["2", "2", "2", "1"]),
    ],
)
def test_workers_are_divided(
    served: Served, cores: int, number: int, parameters: Mapping[str, str], workers: list[str]
) -> None:
    repository = served.on(cores, None, deadline_s="5", **parameters)
    expected = [{"deadline_s": "5", "workers": share} for share in workers]
    assert workers_of(repository, number) == expected


def test_memory_is_divided_and_too_little_is_refused(served: Served) -> None:
    shares = engine_shares(served.on(8, memory_bytes=2 * 10**9 + 1), 2)
    assert [share.to_serve.memory_bytes for share in shares] == [10**9] * 2
    with pytest.raises(UsageError, match=r"give at least \d+MB") as caught:
        engine_shares(served.on(8, memory_bytes=300_000_000), 4)
    assert str(caught.value).startswith("--engines 4 divides --memory by 4. For each process: ")
    match = re.search(r"give at least (\d+)MB", str(caught.value))
    assert match is not None
    least = 4 * int(match[1]) * 10**6
    assert len(engine_shares(served.on(8, memory_bytes=least), 4)) == 4


def test_the_default_fits_into_the_memory(served: Served) -> None:
    numbers = [
        default_engines(served.on(32, memory_bytes=mb * 10**6)) for mb in range(200, 4000, 200)
    ]
    assert numbers == sorted(numbers)
    assert numbers[0] == 1
    assert numbers[-1] == 32 // CORES_PER_ENGINE


def test_a_gpu_has_one_process_unless_more_are_requested(served: Served) -> None:
    repository = served.on(64)
    repository.layout = Layout("tensorrt", "fp16")
    assert default_engines(repository) == 1
    assert workers_of(repository, 2) == [{}, {}]


@pytest.mark.parametrize(
    ("number", "workers", "message"),
    [
        (-1, "auto", "--engines -1: give 1 to 64"),
        (MOST_ENGINES + 1, "auto", "--engines 65: give 1 to 64"),
        (3, "2", "--engines 3: more than workers, of which there are 2"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    served: Served, number: int, workers: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        engine_shares(served.on(8, workers=workers), number)
    assert str(caught.value) == message


def test_a_model_without_an_engine_cannot_have_several(served: Served) -> None:
    repository = served.on(64)
    repository.layout = None
    assert default_engines(repository) == 1
    assert len(engine_shares(repository, 1)) == 1
    with pytest.raises(UsageError, match="--engines 2: the model translate has a backend"):
        engine_shares(repository, 2)


def test_the_relay_has_the_same_limit() -> None:
    assert f"MOST_ENGINES = {MOST_ENGINES} " in HEADER.read_text(encoding="utf-8")
