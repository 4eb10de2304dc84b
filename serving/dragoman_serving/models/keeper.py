"""Loads bundles when requests need them, and unloads them when others need the space.

It has the lock, the clock and the threads. `residency` decides, and `routes` chooses the bundle of
a request. The keeper does not know the type of a loaded bundle.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from dragoman.kernel.errors import DragomanError
from dragoman_serving.engine.batching.memory_trimming import trim
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, ModelUnavailable, Overloaded
from dragoman_serving.engine.futures import Future
from dragoman_serving.models.footprint import Footprint
from dragoman_serving.models.residency import Decision, Holding, State, decide
from dragoman_serving.models.routes import Bundle, Routes

log = logging.getLogger(__name__)

_LOOK_S = 0.02
"""Seconds between checks of deadlines and cancellations while requests wait."""
_RETRY_S = 10.0
"""After a failed load, requests for the bundle are refused for this time; then it is retried."""

_REST, _MOST_REST_S = 4.0, 0.25
"""Loads that displace other bundles rest in between, so that bundles in use keep most of the
processors: this multiple of a load's time, at most so many seconds."""


class Loaded(Protocol):
    """A loaded bundle."""

    def close(self) -> None:
        """Release all its resources."""


_Loaded = TypeVar("_Loaded", bound=Loaded)


@dataclass
class Record:
    """The counters of a model, over all its versions."""

    requests: int = 0
    loads: int = 0
    failures: int = 0
    """Failed loads."""
    evictions: int = 0
    load_s: float = 0.0
    """Total time of the loads."""
    pivoted: int = 0
    """Sentences that it translated as one leg of a request through a pivot language."""


@dataclass(frozen=True)
class Resident:
    """The current state of a model."""

    name: str
    is_loaded: bool
    bytes: int
    """Its maximum memory; 0 while it is not loaded."""
    record: Record


@dataclass(eq=False)
class _Waiter(Generic[_Loaded]):
    future: Future[Lease[_Loaded]]
    deadline_s: float | None
    size: int


@dataclass(eq=False)
class _Version(Generic[_Loaded]):
    """A version of a bundle."""

    key: int
    bundle: Bundle
    footprint: Footprint
    record: Record
    state: State = State.ABSENT
    loaded: _Loaded | None = None
    in_flight: int = 0
    used_s: float = 0.0
    loaded_s: float = 0.0
    wanted_s: float | None = None
    waiters: list[_Waiter[_Loaded]] = field(default_factory=list)
    is_draining: bool = False
    is_leaving: bool = False
    failure: ModelUnavailable | None = None
    """The error of the last load, if it failed."""
    retry_s: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it takes requests. `loaded` does not tell, since it is set until closing ends."""
        return self.state is State.LOADED and not self.is_draining

    @property
    def holding(self) -> Holding:
        return Holding(
            key=self.key,
            state=self.state,
            loaded_bytes=self.footprint.loaded_bytes,
            loading_bytes=self.footprint.loading_bytes,
            in_flight=self.in_flight,
            used_s=self.used_s,
            loaded_s=self.loaded_s,
            wanted_s=self.wanted_s,
            is_draining=self.is_draining,
            is_leaving=self.is_leaving,
        )


class Lease(Generic[_Loaded]):
    """A lease of a loaded bundle, which stays loaded until this is released once.

    Attributes:
        loaded: the bundle.
        is_used: whether the lease has a user, who will release it.
    """

    def __init__(self, keeper: Keeper[_Loaded], version: _Version[_Loaded]) -> None:
        """Lease a loaded version."""
        assert version.loaded is not None
        self.loaded = version.loaded
        self.is_used = False
        self._keeper, self._version = keeper, version

    def release(self) -> None:
        """Allow the bundle to be unloaded."""
        self._keeper.release(self._version)


class Keeper(Generic[_Loaded]):
    """The bundles of a server."""

    def __init__(
        self,
        bundles: Sequence[Bundle],
        load: Callable[[Bundle], _Loaded],
        measure: Callable[[Bundle], Footprint],
        most_bytes: int | None = None,
        most_waiting: int = 40_000,
        pivot: str | None = None,
    ) -> None:
        """Start with nothing loaded.

        Args:
            bundles: bundles in the order of preference.
            load: loads a bundle, in a thread of its own.
            measure: returns the memory of a bundle before it is loaded.
            most_bytes: memory limit of all loaded bundles; None: no limit.
            most_waiting: texts that may wait for bundles to be loaded.
            pivot: see `Routes`.

        Raises:
            DragomanError: a bundle cannot be measured, or two have the same name.
        """
        self.routes, self._pivot = Routes(bundles, pivot), pivot
        """Routes of requests to bundles; replaced as a whole when the bundles change."""
        self.most_bytes = most_bytes
        self._load, self._measure = load, measure
        self._most_waiting = most_waiting
        self._keys = itertools.count()
        # Conditions lock in Python code; locks, which each request needs, do not.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._versions: list[_Version[_Loaded]] = []
        self._current: dict[str, _Version[_Loaded]] = {}
        self._records = {bundle.name: Record() for bundle in bundles}
        """Records of all names, also of removed models, in the order of preference."""
        for bundle in bundles:
            self._current[bundle.name] = self._add(bundle)
        self._failed: list[tuple[list[_Waiter[_Loaded]], DragomanError]] = []
        """Waiters whose bundle cannot be loaded, with the error."""
        self._is_working = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="dragoman-models", daemon=True)
        self._thread.start()

    def is_usable(self, bundle: Bundle) -> bool:
        """Whether a bundle can be loaded, as far as is known."""
        version = self._current.get(bundle.name)
        return version is not None and version.failure is None

    def take(self, name: str) -> Lease[_Loaded] | None:
        """Returns a lease of the named bundle, if it is loaded and takes requests."""
        with self._lock:
            version = self._current.get(name)
            if version is None or not version.is_open:
                return None
            version.record.requests += 1
            return self._lease(version)

    def wait(
        self, name: str, deadline_s: float | None = None, size: int = 1
    ) -> Future[Lease[_Loaded]]:
        """Returns a future lease of the named bundle; cancelling the future stops the wait.

        Args:
            name: name of the bundle.
            deadline_s: deadline of the wait, on the clock of `time.monotonic`.
            size: number of texts that wait.

        Raises:
            Overloaded: too many texts wait for bundles.
            ModelUnavailable: the bundle was removed, or could not be loaded recently.
            Closed: the keeper was closed.
        """
        with self._changed:
            self._refuse(name, size)
            version = self._current[name]
            version.record.requests += 1
            waiter = _Waiter[_Loaded](Future(), deadline_s, size)
            version.waiters.append(waiter)
            if version.wanted_s is None:
                version.wanted_s = time.monotonic()
            self._changed.notify_all()
        return waiter.future

    def release(self, version: _Version[_Loaded]) -> None:
        """Note that a request has stopped using a version."""
        with self._lock:
            version.in_flight -= 1
            if not version.in_flight:
                version.used_s = time.monotonic()
                if version.is_draining or version.is_leaving or self._is_wanted:
                    self._changed.notify_all()

    def replace(self, bundle: Bundle) -> None:
        """Replace a bundle by a new version as soon as that is loaded.

        If it cannot be loaded, the previous version stays in use. A bundle with a new name is
        served immediately.

        Raises:
            DragomanError: the bundle cannot be measured.
        """
        former = self._current.get(bundle.name)
        footprint = self._measure(bundle)
        with self._changed:
            for version in self._versions:  # drop versions that are still loading
                version.is_leaving |= version.bundle.name == bundle.name and version is not former
            version = self._add(bundle, footprint)
            if former is None:
                self._take_over(version)
            else:
                version.wanted_s = time.monotonic()
            self._changed.notify_all()

    def remove(self, name: str) -> None:
        """Stop serving a bundle; running requests are finished first."""
        with self._changed:
            for version in self._versions:
                version.is_leaving |= version.bundle.name == name
            del self._current[name]
            self._route()
            self._changed.notify_all()

    def count_pivoted(self, name: str, sentences: int) -> None:
        """Count sentences of one leg of a request through a pivot language."""
        with self._changed:
            self._records[name].pivoted += sentences

    @property
    def residents(self) -> list[Resident]:
        """The current state of all models, also removed ones, in the order of preference."""
        with self._changed:
            residents = []
            for name, record in self._records.items():
                versions = [version for version in self._versions if version.bundle.name == name]
                is_loaded = any(version.loaded is not None for version in versions)
                residents.append(Resident(name, is_loaded, sum(map(self._bytes, versions)), record))
            return residents

    @property
    def loaded(self) -> list[tuple[str, _Loaded]]:
        """The loaded bundles with their names; both versions of a model that is being replaced."""
        with self._changed:
            return [
                (version.bundle.name, version.loaded)
                for version in self._versions
                if version.loaded is not None
            ]

    def close(self) -> None:
        """Unload everything, and refuse waiting requests."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_working)
            waiters = [waiter for version in self._versions for waiter in version.waiters]
        self._thread.join()
        for waiter in waiters:
            _settle(waiter.future, Closed("the engine has been shut down"))
        for version in self._versions:
            if version.loaded is not None:
                version.loaded.close()

    def _add(self, bundle: Bundle, footprint: Footprint | None = None) -> _Version[_Loaded]:
        footprint = footprint or self._measure(bundle)
        record = self._records.setdefault(bundle.name, Record())
        version = _Version[_Loaded](next(self._keys), bundle, footprint, record)
        self._versions.append(version)
        return version

    @staticmethod
    def _bytes(version: _Version[_Loaded]) -> int:
        return 0 if version.state is State.ABSENT else version.footprint.loaded_bytes

    @property
    def _is_wanted(self) -> bool:
        """Whether requests wait for some bundle."""
        return any(version.wanted_s is not None for version in self._versions)

    def _lease(self, version: _Version[_Loaded]) -> Lease[_Loaded]:
        """Note that a request uses a version; the lock must be held."""
        version.in_flight += 1
        version.used_s = time.monotonic()
        return Lease(self, version)

    def _refuse(self, name: str, size: int) -> None:
        """Raise an error if no request may wait for the bundle."""
        if self._closed:
            raise Closed("the engine has been shut down")
        version = self._current.get(name)
        if version is None:
            raise ModelUnavailable(f"the model {name!r} was removed")
        if version.failure is not None and time.monotonic() < version.retry_s:
            raise version.failure
        waiting = sum(waiter.size for other in self._versions for waiter in other.waiters)
        if waiting + size > self._most_waiting:
            raise Overloaded(
                f"the server is busy: {waiting} texts wait for models to be loaded, and {size} "
                f"more would exceed the limit of {self._most_waiting}"
            )

    def _take_over(self, version: _Version[_Loaded]) -> None:
        """Make a version the current one of its name; the lock must be held."""
        former = self._current.get(version.bundle.name)
        self._current[version.bundle.name] = version
        if former is not None:
            former.is_leaving = True
            version.waiters += former.waiters
            former.waiters, former.wanted_s = [], None
        self._route()

    def _route(self) -> None:
        bundles = [version.bundle for version in self._current.values()]
        self.routes = Routes(bundles, self._pivot)

    def _run(self) -> None:
        """Serve waiting requests, and start the work of decisions."""
        while True:
            with self._changed:
                if self._closed:
                    return
                settled = list(self._settled(time.monotonic()))
                decision = self._decide()
                if not settled and decision is None and not self._failed:
                    self._changed.wait(_LOOK_S if self._is_wanted else None)
            for future, outcome in settled:
                _settle(future, outcome)
            if decision is not None:
                threading.Thread(
                    target=self._carry_out, args=decision, name="dragoman-loader", daemon=True
                ).start()

    def _settled(
        self, now_s: float
    ) -> Iterator[tuple[Future[Lease[_Loaded]], Lease[_Loaded] | DragomanError]]:
        """Yields the waiters that are done, with their results; the lock must be held."""
        for waiters, failure in self._failed:
            yield from ((waiter.future, failure) for waiter in waiters)
        self._failed.clear()
        for version in self._versions:
            waiting = []
            for waiter in version.waiters:
                if waiter.future.cancelled():
                    continue
                if waiter.deadline_s is not None and now_s > waiter.deadline_s:
                    what = f"the deadline passed while the model {version.bundle.name!r} was loaded"
                    yield waiter.future, DeadlineExceeded(what)
                elif version.is_open:
                    yield waiter.future, self._lease(version)
                elif version.is_leaving:
                    what = f"the model {version.bundle.name!r} was removed"
                    yield waiter.future, ModelUnavailable(what)
                else:
                    waiting.append(waiter)
            version.waiters = waiting
            if not waiting and not self._takes_over(version):
                version.wanted_s = None

    def _takes_over(self, version: _Version[_Loaded]) -> bool:
        """Whether a version is new, and not yet the current one."""
        return self._current.get(version.bundle.name) is not version and not version.is_leaving

    def _decide(self) -> tuple[list[_Version[_Loaded]], _Version[_Loaded] | None] | None:
        """Returns the versions to unload and to load next; the lock must be held."""
        if self._is_working:
            return None
        self._versions = [
            version
            for version in self._versions
            if not (version.is_leaving and version.state is State.ABSENT)
        ]
        holdings = [version.holding for version in self._versions]
        decision = decide(holdings, self.most_bytes, time.monotonic())
        by_key = {version.key: version for version in self._versions}
        for version in self._versions:
            version.is_draining = version.key in decision.drain
        for key in decision.refuse:
            self._fail(by_key[key], self._too_large(by_key[key]))
        return self._begun(decision, by_key)

    def _begun(
        self, decision: Decision, by_key: dict[int, _Version[_Loaded]]
    ) -> tuple[list[_Version[_Loaded]], _Version[_Loaded] | None] | None:
        dropped = [by_key[key] for key in decision.drop]
        loading = None if decision.load is None else by_key[decision.load]
        for version in dropped:
            version.state = State.CLOSING
        if loading is not None:
            loading.state = State.LOADING
        if loading is None and not dropped:
            return None
        self._is_working = True
        return dropped, loading

    def _carry_out(
        self, dropped: list[_Version[_Loaded]], loading: _Version[_Loaded] | None
    ) -> None:
        begin_s = time.monotonic()
        for version in dropped:
            self._drop(version)
        if loading is not None:
            self._bring(loading)
        with self._changed:
            self._changed.notify_all()
            if dropped and loading is not None:
                rest_s = min(_REST * (time.monotonic() - begin_s), _MOST_REST_S)
                self._changed.wait_for(lambda: not self._disturbs(loading), rest_s)
            self._is_working = False
            self._changed.notify_all()

    def _disturbs(self, loading: _Version[_Loaded]) -> bool:
        """Whether another load would take time from other bundles than the last one."""
        others = (version.in_flight for version in self._versions if version is not loading)
        return any(others) and not self._closed

    def _drop(self, version: _Version[_Loaded]) -> None:
        loaded, version.loaded = version.loaded, None
        assert loaded is not None
        loaded.close()
        del loaded
        trim()
        with self._changed:
            version.state = State.ABSENT
            version.record.evictions += 1
        log.info("model %s: dropped", version.bundle.name)

    def _bring(self, version: _Version[_Loaded]) -> None:
        begin_s = time.monotonic()
        name = version.bundle.name
        try:
            loaded = self._load(version.bundle)
        except Exception as error:  # one bundle's error must not reach the others
            if not isinstance(error, DragomanError):
                log.exception("model %s", name)
            why = str(error) if isinstance(error, DragomanError) else type(error).__name__
            with self._changed:
                self._fail(version, f"it cannot be loaded: {why}")
            return
        took_s = time.monotonic() - begin_s
        with self._changed:
            version.loaded, version.failure = loaded, None
            version.state, version.loaded_s = State.LOADED, time.monotonic()
            version.used_s = version.loaded_s
            version.record.loads += 1
            version.record.load_s += took_s
            if self._takes_over(version):
                self._take_over(version)
        log.info("model %s: loaded in %.2f s", name, took_s)

    def _too_large(self, version: _Version[_Loaded]) -> str:
        needed = version.footprint.loaded_bytes + version.footprint.loading_bytes
        most = self.most_bytes or 0
        return (
            f"it takes up to {needed / 1e6:.0f} MB, and models together at most {most / 1e6:.0f}: "
            "serve with more --memory"
        )

    def _fail(self, version: _Version[_Loaded], why: str) -> None:
        """Refuse the waiters of a version, and drop it if it is new; the lock must be held."""
        failure = ModelUnavailable(f"model {version.bundle.name!r}: {why}")
        log.error("%s", failure)
        if self._takes_over(version):
            log.error("model %s: the previous version stays in use", version.bundle.name)
            version.is_leaving = True
        version.state, version.wanted_s = State.ABSENT, None
        version.failure, version.retry_s = failure, time.monotonic() + _RETRY_S
        version.record.failures += 1
        self._failed.append((version.waiters, failure))
        version.waiters = []


def _settle(future: Future[Lease[_Loaded]], outcome: Lease[_Loaded] | DragomanError) -> None:
    if not future.set_running_or_notify_cancel():
        if isinstance(outcome, Lease):
            outcome.release()
    elif isinstance(outcome, Lease):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
