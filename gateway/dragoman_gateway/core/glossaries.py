"""Glossaries that the gateway keeps: named, of one owner, with a dictionary for each direction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from dragoman_gateway.core.caller import Caller


@dataclass(frozen=True)
class Dictionary:
    """Terms of a direction.

    Attributes:
        source_language: code of the source terms' language.
        target_language: code of the target terms' language.
        entries: target terms by source term; None: not read from the store.
        entry_count: how many there are.
    """

    source_language: str
    target_language: str
    entries: Mapping[str, str] | None
    entry_count: int


@dataclass(frozen=True)
class Glossary:
    """A glossary.

    Attributes:
        id: a UUID, in lower case with hyphens.
        name: given by its owner; need not be unique.
        created: UTC.
        dictionaries: one for each direction.
    """

    id: str
    name: str
    created: datetime
    dictionaries: tuple[Dictionary, ...]


class Glossaries:
    """The glossaries of all callers; each sees its own.

    All methods raise `NotFound` for a glossary or a dictionary that the caller does not have, and
    `InvalidInput` for terms that cannot be used.
    """

    async def create(
        self, caller: Caller, name: str, dictionaries: Sequence[Dictionary]
    ) -> Glossary:
        """Keep a new glossary."""
        raise NotImplementedError

    async def all(self, caller: Caller) -> list[Glossary]:
        """The caller's, without entries, oldest first."""
        raise NotImplementedError

    async def get(self, caller: Caller, glossary_id: str, entries: bool = False) -> Glossary:
        """One of them."""
        raise NotImplementedError

    async def rename(self, caller: Caller, glossary_id: str, name: str) -> Glossary:
        """Give it another name."""
        raise NotImplementedError

    async def put(
        self, caller: Caller, glossary_id: str, dictionary: Dictionary, merge: bool = False
    ) -> Glossary:
        """Add or replace the dictionary of a direction, or merge its entries into what is there."""
        raise NotImplementedError

    async def delete_dictionary(
        self, caller: Caller, glossary_id: str, source_language: str, target_language: str
    ) -> None:
        """Remove the dictionary of a direction."""
        raise NotImplementedError

    async def delete(self, caller: Caller, glossary_id: str) -> None:
        """Remove a glossary."""
        raise NotImplementedError
