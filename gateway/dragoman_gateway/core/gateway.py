"""What protocols call: one object with the parts that all of them share."""

from __future__ import annotations

from typing import Self

from dragoman_gateway.core.access import Access
from dragoman_gateway.core.glossaries import Glossaries
from dragoman_gateway.core.jobs import Jobs
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.core.store import Store
from dragoman_gateway.core.translations import Translations


class Gateway:
    """The parts that all protocols share; use it as a context.

    Attributes:
        settings: of the gateway.
        store: its state.
        access: who may use it, and how much.
        glossaries: of all callers.
        translations: translation, scoring, detection, languages.
        jobs: documents that are translated in the background.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        """Prepare the parts.

        Raises:
            UsageError: the state in the folder cannot be used.
        """
        self.settings = settings
        self.store = Store(settings.folder)
        self.access = Access()
        self.glossaries = Glossaries()
        self.translations = Translations(settings, self.access)
        self.jobs = Jobs()

    async def __aenter__(self) -> Self:
        """Open what is to be opened in the event loop."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close it."""
        await self.translations.close()
        self.store.close()
