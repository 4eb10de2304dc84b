"""The bundles behind Triton's models: opens them, and chooses one for each request."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from dragoman.kernel.errors import DragomanError, UsageError
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.replacement import file_state
from dragoman_serving.engine.batching.statistics import Statistics
from dragoman_serving.engine.errors import EngineFailure
from dragoman_serving.engine.futures import Future, outcome_error, when_all_done
from dragoman_serving.engine.settings import BatchLimits, EngineSettings
from dragoman_serving.models.changes import BundleWatch
from dragoman_serving.models.footprint import Footprint, bounded, measure, most_of_bundles
from dragoman_serving.models.keeper import Keeper, Lease
from dragoman_serving.models.loading import Layout, choose_layout
from dragoman_serving.models.routes import Bundle, Route, Routes, check_names, read_bundles
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.service.requests import ParsedRequest
from dragoman_serving.translation.translator import Load, Translator

log = logging.getLogger(__name__)

_FIRST = {"max_tokens": 1, "repair": False}
"""Options of a bundle's first translation, which must be short because other bundles are in use."""
_RESIDENT_PAGES = 1
"""Index of `resident` in /proc/self/statm.

Source: https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html
"""
_Result = TypeVar("_Result")


class Bundles:
    """The bundles of a process, each loaded when it is first used."""

    def __init__(
        self,
        folders: Sequence[Path],
        settings: EngineSettings,
        to_serve: ModelsToServe,
        on_failure: Callable[[EngineFailure], None],
    ) -> None:
        """Load the first bundle and the bundles to preload.

        Args:
            folders: folders of the bundles, in the order of preference.
            settings: settings of the engines.
            to_serve: bundles to preload, and the memory limit.
            on_failure: called if an engine fails.

        Raises:
            DragomanError: a folder holds no bundle, or the only one cannot be loaded.
        """
        self._settings, self._on_failure = settings, on_failure
        self._statistics = Statistics()
        self._proven: set[str] = set()
        """Identities of bundles that have translated once."""
        self._checked: dict[str, list[tuple[int, ...]]] = {}
        """States of the files of checked bundles, by identity."""
        self._most_bytes = None
        if to_serve.memory_bytes is not None:
            self._most_bytes = _most_of_bundles(to_serve.memory_bytes)
        self._keeper = Keeper(
            bundles=read_bundles(folders),
            load=self._load,
            measure=self._measure,
            most_bytes=self._most_bytes,
            most_waiting=settings.max_waiting,
            pivot=to_serve.pivot,
        )
        try:
            check_names(self._keeper.routes, to_serve.pivot, to_serve.preload)
            self._tell_of_pivot()
            self._preload(to_serve.preload)
        except BaseException:
            self._keeper.close()
            raise
        self._watch = BundleWatch(folders, self._keeper)

    @property
    def routes(self) -> Routes:
        """The routes of requests to bundles."""
        return self._keeper.routes

    @property
    def statistics(self) -> Statistics:
        """Statistics of all engines together."""
        return self._statistics

    @property
    def keeper(self) -> Keeper[Translator]:
        """The keeper that loads and unloads the bundles."""
        return self._keeper

    @property
    def most_sentences(self) -> int:
        """Maximum number of sentences of one request."""
        return BatchLimits(waiting=self._settings.max_waiting).most_of_request

    @property
    def load(self) -> Load:
        """The current load of all engines together."""
        loads = [translator.load for _, translator in self._keeper.loaded]
        return Load(
            sum(load.waiting for load in loads),
            sum(load.rows for load in loads),
            sum(load.most_rows for load in loads),
            sum(load.cache_bytes for load in loads),
        )

    def layout(self, bundle: Bundle) -> Layout | None:
        """Returns the layout of a bundle, loaded or not; None: it cannot be loaded."""
        for name, translator in self._keeper.loaded:
            if name == bundle.name:
                return translator.layout
        try:
            return choose_layout(self._settings, bundle.folder, bundle.manifest)
        except UsageError:
            return None

    def route(self, request: ParsedRequest) -> Route:
        """Returns the route of a request.

        Raises:
            InvalidRequest: there is no route.
        """
        source, target, model = request.requested.routed_by
        keeper = self._keeper
        return keeper.routes.choose_for(request.texts, source, target, model, keeper.is_usable)

    def start(
        self, bundle: Bundle, request: ParsedRequest, begin: Callable[[Translator], Future[_Result]]
    ) -> Future[_Result]:
        """Start answering a request with a bundle, as soon as it is loaded.

        Args:
            bundle: bundle of its route.
            request: the request.
            begin: starts the work; the bundle stays loaded until its future is done.

        Returns:
            A future with the result of that future. Cancelling it cancels the request.

        Raises:
            DragomanError: the bundle cannot be used; or, if it is loaded, errors of `begin`.
        """
        name = bundle.name
        if lease := self._keeper.take(name):
            return _use(lease, begin)
        waiting = self._keeper.wait(name, request.urgency.deadline_s, len(request.texts))

        def use(leases: list[Lease[Translator]]) -> Future[_Result]:
            return _use(leases[0], begin)

        whole: Future[_Result] = when_all_done([waiting], use)
        waiting.add_done_callback(_release_unused)
        return whole

    def close(self) -> None:
        """Unload all bundles."""
        self._watch.close()
        self._keeper.close()

    def _tell_of_pivot(self) -> None:
        """Log the directions that are translated through the pivot language."""
        routes = self._keeper.routes
        if routes.pivot is not None:
            pairs = [f"{pair.source}-{pair.target}" for pair in routes.pairs if pair.via]
            log.info("through %s: %s", routes.pivot, ", ".join(pairs) or "none, all are direct")

    def _settings_of(self, bundle: Bundle) -> EngineSettings:
        if self._most_bytes is None:
            return self._settings
        return bounded(self._settings, bundle.manifest, self._most_bytes)

    def _measure(self, bundle: Bundle) -> Footprint:
        if self._most_bytes is None:
            return Footprint(0)
        return measure(bundle.folder, bundle.manifest, self._settings_of(bundle))

    def _load(self, bundle: Bundle) -> Translator:
        """Load a bundle, and translate once if it never has, which proves that it works.

        When it is loaded again, that would only take time from other bundles' requests.
        """
        self._check(bundle)
        translator = Translator(
            bundle.folder,
            self._settings_of(bundle),
            self._on_failure,
            self._statistics,
            manifest=bundle.manifest,
        )
        if bundle.manifest.identity in self._proven:
            return translator
        try:
            translator.translate(["1"], _FIRST)
        except BaseException:
            translator.close()
            raise
        self._proven.add(bundle.manifest.identity)
        log.info("model %s: %s", bundle.name, translator.description)
        return translator

    def _check(self, bundle: Bundle) -> None:
        """Check a bundle's files, unless they are unchanged since the last check."""
        identity, names = bundle.manifest.identity, bundle.manifest.own_files
        try:
            states = [file_state(bundle.folder / name) for name in names]
        except OSError as error:
            raise UsageError(f"{error.filename}: cannot be read: {error.strerror}") from error
        if self._checked.get(identity) == states:
            return
        if Manifest.read(bundle.folder).identity != identity:
            raise UsageError(f"{bundle.folder}: was replaced by another bundle")
        bundle.manifest.check_files(bundle.folder)
        self._checked[identity] = states

    def _preload(self, names: Sequence[str]) -> None:
        bundles = self._keeper.routes.bundles
        to_load = [bundles[0].name, *(self._keeper.routes.find(name).name for name in names)]
        for name in dict.fromkeys(to_load):
            try:
                self._keeper.wait(name).result().release()
            except DragomanError:  # it was logged
                if len(bundles) == 1:
                    raise


def _use(
    lease: Lease[Translator], begin: Callable[[Translator], Future[_Result]]
) -> Future[_Result]:
    lease.is_used = True
    try:
        future = begin(lease.loaded)
    except BaseException:
        lease.release()
        raise
    future.add_done_callback(lambda _: lease.release())
    return future


def _release_unused(waited: Future[Lease[Translator]]) -> None:
    """Release a bundle whose request was cancelled while it loaded."""
    if outcome_error(waited) is None and not waited.result().is_used:
        waited.result().release()


def resident_bytes() -> int:
    """Returns the resident memory of this process."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[_RESIDENT_PAGES]) * os.sysconf("SC_PAGE_SIZE")


def _most_of_bundles(memory_bytes: int) -> int:
    """The memory limit of all bundles of this process."""
    most_bytes = most_of_bundles(memory_bytes, resident_bytes())
    if most_bytes <= 0:
        own_mb = (memory_bytes - most_bytes) / 1e6
        raise UsageError(
            f"--memory {memory_bytes / 1e6:g}MB: the engine itself takes {own_mb:.0f} MB: give more"
        )
    log.info(
        "models take at most %.0f MB, the engine with them at most %.0f MB",
        most_bytes / 1e6,
        memory_bytes / 1e6,
    )
    return most_bytes
