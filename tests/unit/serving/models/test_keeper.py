"""Bundles that are loaded on demand: with fakes that report their events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, ModelUnavailable, Overloaded
from dragoman_serving.models import keeper as keeper_module
from dragoman_serving.models.footprint import Footprint
from dragoman_serving.models.keeper import Keeper
from dragoman_serving.models.routes import Bundle

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Manifest
from tests.conftest import REPOSITORY
from tests.waiting import wait_for

WAIT_S = 120
MANIFEST = Manifest.read(REPOSITORY / "model_repository" / "translate" / "1" / "bundle")


def bundle(name: str, version: int = 1) -> Bundle:
    return Bundle(name, Path(f"{name}{version}"), MANIFEST)


class World:
    """Loads fakes, and checks that they never exceed the memory limit."""

    def __init__(self, most: int | None, *names: str) -> None:
        self.broken: set[str] = set()
        self.opened: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.most = most
        self.taken = self.most_taken = 0
        self.keeper = Keeper(
            [bundle(name) for name in names], self.load, lambda _: Footprint(1), most, 10
        )

    def load(self, bundle: Bundle) -> Fake:
        self.gate.wait(WAIT_S)
        if bundle.folder.name in self.broken:
            raise UsageError("it is broken")
        if bundle.name == "odd":
            raise ZeroDivisionError
        self.opened.append(bundle.folder.name)
        self.taken += 1
        self.most_taken = max(self.taken, self.most_taken)
        return Fake(self, bundle)


class Fake:
    def __init__(self, world: World, bundle: Bundle) -> None:
        self.world, self.name = world, bundle.folder.name
        self.is_closed = False

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True
        self.world.taken -= 1


Make = Callable[..., World]


@pytest.fixture
def make() -> Iterator[Make]:
    worlds: list[World] = []

    def made(most: int | None, *names: str) -> World:
        worlds.append(World(most, *names))
        return worlds[-1]

    yield made
    for world in worlds:
        world.gate.set()
        world.keeper.close()
        assert not world.taken
        assert world.most is None or world.most_taken <= world.most


def use(world: World, name: str) -> str:
    """Use a bundle briefly, as soon as it is loaded; returns its version."""
    lease = world.keeper.take(name) or world.keeper.wait(name).result(WAIT_S)
    assert not lease.loaded.is_closed
    lease.release()
    return lease.loaded.name


def test_a_bundle_is_loaded_on_its_first_request_and_stays(make: Make) -> None:
    world = make(None, "a", "b")
    assert world.keeper.take("a") is None
    assert use(world, "a") == use(world, "a") == "a1"
    assert world.opened == ["a1"]
    a, b = world.keeper.residents
    assert (a.name, a.is_loaded, a.record.requests, a.record.loads) == ("a", True, 2, 1)
    assert (b.name, b.is_loaded, b.record.requests, b.record.loads) == ("b", False, 0, 0)
    assert a.bytes == 1
    assert a.record.load_s > 0


def test_all_waiting_requests_get_the_bundle_when_it_is_loaded(make: Make) -> None:
    world = make(None, "a")
    world.gate.clear()
    waiting = [world.keeper.wait("a") for _ in range(5)]
    world.gate.set()
    for future in waiting:
        future.result(WAIT_S).release()
    assert world.opened == ["a1"]


def test_the_least_recently_used_idle_bundle_is_dropped(make: Make) -> None:
    world = make(2, "a", "b", "c")
    held = world.keeper.wait("a").result(WAIT_S)
    use(world, "b")
    use(world, "c")
    assert not held.loaded.is_closed
    assert [resident.is_loaded for resident in world.keeper.residents] == [True, False, True]
    assert [resident.record.evictions for resident in world.keeper.residents] == [0, 1, 0]
    held.release()
    assert use(world, "b") == "b1"


def test_a_bundle_that_is_being_dropped_is_not_used(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(1, "a", "b")
    assert use(world, "a") == "a1"
    dropping, gate, drop = threading.Event(), threading.Event(), world.keeper._drop

    def dropped_late(version: Any) -> None:
        dropping.set()
        gate.wait(WAIT_S)
        drop(version)

    monkeypatch.setattr(world.keeper, "_drop", dropped_late)
    waiting = world.keeper.wait("b")
    assert dropping.wait(WAIT_S)
    assert world.keeper.take("a") is None
    again = world.keeper.wait("a")
    gate.set()
    waiting.result(WAIT_S).release()
    again.result(WAIT_S).release()
    assert world.opened == ["a1", "b1", "a1"]


def test_a_waiting_bundle_gets_space_although_others_are_always_busy(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_serving.models.residency.PATIENCE_S", 0.01)
    world = make(1, "a", "b")
    ends = threading.Event()

    def always(name: str) -> int:
        """Leases that overlap, so that the bundle is never idle unless it is drained."""
        count, former = 0, world.keeper.wait(name).result(WAIT_S)
        while not ends.is_set():
            lease = world.keeper.take(name)
            if lease is None:
                former.release()
                lease = world.keeper.wait(name).result(WAIT_S)
            else:
                former.release()
            former, count = lease, count + 1
        former.release()
        return count

    with ThreadPoolExecutor(2) as pool:
        counts = [pool.submit(always, name) for name in ("a", "b")]
        wait_for(lambda: min(resident.record.loads for resident in world.keeper.residents) > 3)
        ends.set()
        assert all(count.result(WAIT_S) for count in counts)


def test_loads_that_displace_bundles_rest_while_others_are_in_use(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "_REST", 1e9)
    monkeypatch.setattr(keeper_module, "_MOST_REST_S", WAIT_S)
    world = make(2, "a", "b", "c")
    used = world.keeper.wait("a").result(WAIT_S)
    assert [use(world, name) for name in "bc"] == ["b1", "c1"]
    waiting = world.keeper.wait("b")
    with pytest.raises(TimeoutError):
        waiting.result(0.2)
    used.release()
    waiting.result(WAIT_S).release()


def test_a_deadline_expires_while_another_request_continues(make: Make) -> None:
    world = make(None, "a", "b")
    use(world, "b")
    world.gate.clear()
    late = world.keeper.wait("a", time.monotonic() + 0.01)
    patient = world.keeper.wait("a", time.monotonic() + WAIT_S)
    with pytest.raises(DeadlineExceeded, match="deadline passed while the model 'a' was loaded"):
        late.result(WAIT_S)
    assert use(world, "b") == "b1"
    assert not patient.done()
    world.gate.set()
    patient.result(WAIT_S).release()


def test_a_cancelled_request_leaves_nothing_behind(make: Make) -> None:
    world = make(1, "a", "b")
    world.gate.clear()
    given_up = world.keeper.wait("a")
    assert given_up.cancel()
    world.gate.set()
    use(world, "b")  # drops `a`, in case it was loaded without a request
    with pytest.raises(CancelledError):
        given_up.result()


def test_a_bundle_that_cannot_be_loaded_fails_its_own_requests_and_is_tried_again(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(None, "a", "b", "odd")
    world.broken = {"a1"}
    message = "model 'a': it cannot be loaded: it is broken"
    with pytest.raises(ModelUnavailable, match=message):
        use(world, "a")
    assert not world.keeper.is_usable(bundle("a"))
    world.broken.clear()
    with pytest.raises(ModelUnavailable, match=message):
        use(world, "a")  # not retried so soon
    assert use(world, "b") == "b1"
    with pytest.raises(ModelUnavailable, match="model 'odd': it cannot be loaded: ZeroDivision"):
        use(world, "odd")
    assert world.keeper.residents[0].record.failures == 1
    monkeypatch.setattr(keeper_module, "_RETRY_S", 0.0)
    world.broken = {"b1"}
    world.keeper.replace(bundle("c"))
    assert use(world, "c") == "c1"


def test_a_bundle_that_can_never_be_loaded_is_refused(make: Make) -> None:
    world = make(0, "a")
    with pytest.raises(ModelUnavailable, match=r"takes up to 0 MB.* with more --memory"):
        use(world, "a")


def test_the_number_of_waiting_texts_is_limited(make: Make) -> None:
    world = make(None, "a", "b")
    world.gate.clear()
    waiting = world.keeper.wait("a", size=9)
    with pytest.raises(Overloaded, match="9 texts wait for models to be loaded, and 2 more"):
        world.keeper.wait("b", size=2)
    waiting.cancel()

    def has_space() -> bool:
        try:
            return world.keeper.wait("b", size=10).cancel()
        except Overloaded:
            return False

    wait_for(has_space)


def test_a_new_version_takes_over_when_it_is_loaded_and_the_old_one_ends(make: Make) -> None:
    world = make(2, "a")
    old = world.keeper.wait("a").result(WAIT_S)
    world.gate.clear()
    world.keeper.replace(bundle("a", 2))
    assert use(world, "a") == "a1"
    world.gate.set()
    wait_for(lambda: use(world, "a") == "a2")
    assert not old.loaded.is_closed
    old.release()
    wait_for(lambda: old.loaded.is_closed)
    assert world.keeper.routes.bundles[0].folder == Path("a2")
    assert world.keeper.residents[0].record.loads == 2


def test_a_broken_version_is_refused_and_the_old_one_stays(make: Make) -> None:
    world = make(2, "a")
    use(world, "a")
    world.broken = {"a2"}
    world.keeper.replace(bundle("a", 2))
    wait_for(lambda: world.keeper.residents[0].record.failures == 1)
    assert use(world, "a") == "a1"
    assert world.keeper.is_usable(bundle("a"))
    assert world.keeper.routes.bundles[0].folder == Path("a1")
    world.keeper.replace(bundle("a", 3))
    wait_for(lambda: use(world, "a") == "a3")


def test_of_two_new_versions_the_last_one_stays(make: Make) -> None:
    world = make(3, "a")
    use(world, "a")
    world.gate.clear()
    for version in (2, 3):
        world.keeper.replace(bundle("a", version))
    world.gate.set()
    wait_for(lambda: use(world, "a") == "a3" and world.taken == 1)


def test_a_removed_bundle_ends_with_its_last_request(make: Make) -> None:
    world = make(None, "a", "b")
    lease = world.keeper.wait("a").result(WAIT_S)
    world.keeper.remove("a")
    assert world.keeper.take("a") is None
    with pytest.raises(ModelUnavailable, match="the model 'a' was removed"):
        world.keeper.wait("a")
    assert [routed.name for routed in world.keeper.routes.bundles] == ["b"]
    assert not lease.loaded.is_closed
    lease.release()
    wait_for(lambda: lease.loaded.is_closed)
    assert not world.keeper.residents[0].is_loaded


def test_requests_waiting_for_a_removed_bundle_fail(make: Make) -> None:
    world = make(None, "a", "b")
    world.gate.clear()
    busy, waiting = world.keeper.wait("b"), world.keeper.wait("a")
    world.keeper.remove("a")
    with pytest.raises(ModelUnavailable, match="the model 'a' was removed"):
        waiting.result(WAIT_S)
    world.gate.set()
    busy.result(WAIT_S).release()


def test_closing_refuses_waiting_requests() -> None:
    world = World(1, "a", "b")
    lease = world.keeper.wait("a").result(WAIT_S)
    waiting = world.keeper.wait("b")
    world.keeper.close()
    with pytest.raises(Closed):
        waiting.result(WAIT_S)
    with pytest.raises(Closed):
        world.keeper.wait("b")
    assert lease.loaded.is_closed
