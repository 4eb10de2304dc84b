"""What protocols call: one object with the parts that all of them share."""

from __future__ import annotations

from typing import Self

from dragoman_gateway.core.access import Access
from dragoman_gateway.core.database import SqliteDatabase
from dragoman_gateway.core.glossaries import SCHEMA, Glossaries
from dragoman_gateway.core.jobs import Jobs
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.translations import Translations


class Gateway:
    """The parts that all protocols share; use it as a context.

    Attributes:
        settings: of the gateway.
        access: who may use it, and how much.
        glossaries: of all callers.
        translations: translation, scoring, detection, languages.
        jobs: documents that are translated in the background.
        stopping: whether the gateway takes its last requests, and is no longer ready.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        """Prepare the parts."""
        self.settings = settings
        self.stopping = False
        self.access = Access()
        folder = settings.folder
        self._database = SqliteDatabase(folder / "glossaries.db" if folder else None, SCHEMA)
        self.glossaries = Glossaries(settings, self._database)
        self.translations = Translations(settings, self.access, self.glossaries)
        self.jobs = Jobs(settings, self.access, self.translations)

    async def __aenter__(self) -> Self:
        """Open what is to be opened in the event loop."""
        await self.jobs.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close it."""
        await self.jobs.close()
        await self.translations.close()
        self._database.close()
