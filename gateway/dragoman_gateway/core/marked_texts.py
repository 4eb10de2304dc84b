"""Texts with markup, of which only the words are translated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from dragoman_client import Translation
from dragoman_client.document_translation import Excerpt, Reader, read_text
from dragoman_options.markup import Markup

from dragoman_gateway.core.errors import InvalidInput

_LONG_CHARACTERS = 2000
"""Of a text whose reading, which takes a millisecond and more, must not delay other requests."""

Ask = Callable[[list[str], list[Markup] | None], Awaitable[list[Translation]]]
"""Asks for translations of texts, with their markup if they have any."""


@dataclass(frozen=True)
class MarkedText:
    """A text with markup, taken apart."""

    excerpt: Excerpt

    @property
    def words(self) -> str:
        """All of its text, by which its language is detected."""
        return " ".join(segment.text for segment in self.excerpt.segments)

    @property
    def written(self) -> str:
        """The text as it was."""
        return self.excerpt.written([None] * len(self.excerpt.segments)).decode()


async def read_marked(texts: Sequence[str], open_reader: Callable[[], Reader]) -> list[MarkedText]:
    """Take texts with markup apart.

    Args:
        texts: with their tags.
        open_reader: makes a reader for each.

    Raises:
        InvalidInput: one is not well-formed.
    """
    found = []
    for index, text in enumerate(texts):
        try:
            if len(text) > _LONG_CHARACTERS:
                excerpt = await asyncio.to_thread(read_text, text, open_reader())
            else:
                excerpt = read_text(text, open_reader())
        except ValueError as error:
            raise InvalidInput(f"text {index} is not valid markup: {error}") from error
        found.append(MarkedText(excerpt))
        if index % 64 == 63:
            await asyncio.sleep(0)
    return found


async def translate_marked(texts: Sequence[MarkedText], ask: Ask) -> list[str]:
    """Translate texts with markup.

    Args:
        texts: taken apart.
        ask: for translations.

    Returns:
        The texts with their tags, each around the words that it belongs to.
    """
    segments = [segment for text in texts for segment in text.excerpt.segments]
    answers: dict[int, Translation] = {}
    # What has no elements in it is asked for as other texts are, and can be kept in the cache.
    plain = [index for index, one in enumerate(segments) if not (one.tags or one.markup.keep)]
    marked = [index for index, one in enumerate(segments) if one.tags or one.markup.keep]
    for indices in filter(None, (plain, marked)):
        markups = [segments[index].markup for index in indices] if indices is marked else None
        found = await ask([segments[index].text for index in indices], markups)
        answers.update(zip(indices, found, strict=True))
    remaining = (answers[index] for index in range(len(segments)))
    return [
        text.excerpt.written([next(remaining) for _ in text.excerpt.segments]).decode()
        for text in texts
    ]
