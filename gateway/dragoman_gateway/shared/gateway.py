"""The core of the gateway: one object with the parts that all protocols share."""

from __future__ import annotations

import asyncio
from typing import Self

from dragoman_gateway.access.access import Access
from dragoman_gateway.access.shares import Bodies, Budget
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.stalls import Stalls
from dragoman_gateway.core.store import Store
from dragoman_gateway.glossaries.glossaries import Glossaries
from dragoman_gateway.jobs.jobs import Jobs
from dragoman_gateway.live.live_sessions import LiveSessions
from dragoman_gateway.memories.memories import Memories
from dragoman_gateway.shared.metrics import EngineMetrics, Metrics, watch_cache
from dragoman_gateway.texts.marked_texts import MarkedTranslations
from dragoman_gateway.texts.readers import Readers
from dragoman_gateway.texts.translations import Translations

_MOST_IMPORTS, _MOST_IMPORTS_OF_CLIENT = 8, 2


class Gateway:
    """The parts that all protocols share; use it as a context manager.

    Attributes:
        settings: settings of the gateway.
        store: the persistent state.
        access: keys and limits of callers.
        glossaries: glossaries of all callers.
        memories: translation memories of all callers.
        translations: translation, scoring, language detection and languages.
        stalls: watches the event loop.
        readers: processes that read documents and texts with markup.
        marked: translation of texts with markup.
        jobs: documents that are translated in the background.
        live: live sessions of all callers.
        bodies: limits on the bodies of all requests.
        imports: limits on the imports of translation memories that wait or run.
        metrics: the gateway's metrics.
        finishing: tasks that must end before the parts are closed.
        importing: tasks that are cancelled before the parts are closed.
        stopping: whether the gateway is shutting down, and no longer ready.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        """Prepare the parts.

        Raises:
            UsageError: the state folder cannot be used.
        """
        self.settings = settings
        self.stopping = False
        self.finishing: set[asyncio.Task[None]] = set()
        self.importing: set[asyncio.Task[None]] = set()
        self.metrics = Metrics()
        self.bodies = Bodies(settings)
        self.imports = Budget(
            "imports of translation memories", _MOST_IMPORTS, _MOST_IMPORTS_OF_CLIENT
        )
        self.store = Store(settings.folder)
        self.access = Access(settings, self.store)
        self.glossaries = Glossaries(settings, self.store)
        self.memories = Memories(settings, self.store)
        self.translations = Translations(settings, self.access, self.glossaries, self.memories)
        watch_cache(self.metrics, self.translations.cache_counts)
        self.metrics.add(EngineMetrics(lambda: self.translations.engine_metrics))
        self.stalls = Stalls()
        self.metrics.watch(
            "stalls",
            "Times that the event loop did not run for a second",
            lambda: self.stalls.number,
            counts=True,
        )
        self.readers = Readers(settings)
        self.metrics.watch(
            "readers_ended",
            "Processes that were ended while they read a document or text: it took too long or too "
            "much memory, or its client left",
            lambda: self.readers.ended,
            counts=True,
        )
        self.marked = MarkedTranslations(self.readers, self.access, self.translations)
        self.jobs = Jobs(settings, self.access, self.translations, self.readers)
        self.live = LiveSessions(settings, self.access, self.translations)
        self.metrics.watch("live_sessions", "Live sessions", lambda: self.live.number)

    async def __aenter__(self) -> Self:
        """Open the parts that need the event loop."""
        await self.access.open()
        await self.jobs.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the parts."""
        for task in self.importing:
            task.cancel()
        if tasks := self.finishing | self.importing:
            await asyncio.wait(tasks)
        await self.jobs.close()
        await self.readers.close()
        await self.translations.close()
        await self.access.close()
        await self.memories.close()
        self.store.close()
