"""Translation of texts with markup: only the words are translated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from dragoman_client import Translation
from dragoman_client.document_translation import OF_ONE_TEXT, Excerpt, Reader, read_text
from dragoman_client.markup.html_reader import HtmlReader
from dragoman_client.markup.xml_profiles import TEXT
from dragoman_client.markup.xml_reader import XmlReader
from dragoman_options.markup import Markup
from dragoman_options.table import OPTIONS

from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.core.segmentation import joined
from dragoman_gateway.core.translations import Translations, finished

READERS: Final[Mapping[str, Callable[[str | None], Reader]]] = {
    "html": lambda source: HtmlReader(encoding="utf-8", source_language=source),
    "xml": lambda source: XmlReader(
        TEXT, encoding="utf-8", is_fragment=True, source_language=source
    ),
}
"""By format, a function that makes a reader for a source language, or None if it is unknown."""

_LONG_CHARACTERS = 2000
"""Longer texts are read in a thread: it takes milliseconds and would delay other requests."""
_WHOLE_OUTPUTS = frozenset((None, "bundle"))
"""Outputs of options that are possible for a text joined from several translations."""

Answer = TypeVar("Answer")
Ask = Callable[[Sequence[str], Sequence[Markup] | None], Awaitable[list[Answer]]]
"""Translates texts, with their markup if they have any."""


@dataclass(frozen=True)
class MarkedText:
    """A text with markup, split into segments."""

    excerpt: Excerpt

    @property
    def words(self) -> str:
        """All of its text, for language detection."""
        return " ".join(segment.text for segment in self.excerpt.segments)

    @property
    def written(self) -> str:
        """The original text."""
        return self.excerpt.written([None] * len(self.excerpt.segments)).decode()


def check_marked_options(options: Mapping[str, Any], what: str) -> None:
    """Refuse options that cannot be combined with markup, or with a text of several segments.

    Args:
        options: checked options.
        what: what has the markup, for the message.

    Raises:
        InvalidInput: the message names the first such option.
    """
    refused = {"markup", *OPTIONS["markup"].not_with}
    for name, option in OPTIONS.items():
        if name in options and (name in refused or option.output not in _WHOLE_OUTPUTS):
            raise InvalidInput(f"{name}: not with {what}; leave it out")


async def read_marked(texts: Sequence[str], open_reader: Callable[[], Reader]) -> list[MarkedText]:
    """Split texts with markup into segments.

    Args:
        texts: texts with their tags.
        open_reader: makes a reader for each text.

    Raises:
        InvalidInput: a text is not well-formed.
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


async def translate_segments(
    texts: Sequence[str], markups: Sequence[Markup], ask: Ask[Answer]
) -> list[Answer]:
    """Translate segments.

    Args:
        texts: texts of the segments.
        markups: markup of each segment.
        ask: translates texts.

    Raises:
        InvalidInput: a text is refused.
    """
    # Segments without elements are sent like other texts, so that the cache can be used.
    marked = [index for index, one in enumerate(markups) if one != Markup()]
    plain = [index for index, one in enumerate(markups) if one == Markup()]

    async def ask_for(indices: Sequence[int]) -> Sequence[Answer]:
        these = [markups[index] for index in indices] if indices is marked else None
        try:
            return await ask([texts[index] for index in indices], these)
        except InvalidInput as error:
            raise _renumbered(error, indices) from error

    parts = [indices for indices in (plain, marked) if indices]
    try:
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(ask_for(indices)) for indices in parts]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    answers: dict[int, Answer] = {}
    for indices, task in zip(parts, asked, strict=True):
        answers.update(zip(indices, task.result(), strict=True))
    return [answers[index] for index in range(len(texts))]


async def translate_marked(texts: Sequence[MarkedText], ask: Ask[Translation]) -> list[Translation]:
    """Translate texts with markup.

    Args:
        texts: the split texts.
        ask: translates texts.

    Returns:
        The translations with their tags, each around the corresponding words.

    Raises:
        InvalidInput: a text is refused.
    """
    segments = [segment for text in texts for segment in text.excerpt.segments]
    owners = [index for index, text in enumerate(texts) for _ in text.excerpt.segments]
    try:
        found = iter(
            await translate_segments(
                [one.text for one in segments], [one.markup for one in segments], ask
            )
        )
    except InvalidInput as error:
        raise _renumbered(error, owners) from error
    answers = []
    for text in texts:
        own = [next(found) for _ in text.excerpt.segments]
        answers.append(joined(text.excerpt.written(own).decode(), own))
    return answers


def asking(
    translations: Translations, caller: Caller, options: Mapping[str, Any], *, store: bool = True
) -> Ask[Translation]:
    """Returns a function that translates with options; see `Translations.translate_admitted`."""

    async def ask(texts: Sequence[str], markups: Sequence[Markup] | None) -> list[Translation]:
        given = {**options, **({"markup": markups} if markups else {})}
        return await translations.translate_admitted(caller, texts, given, store=store)

    return ask


async def translate_by_direction(
    translations: Translations,
    caller: Caller,
    texts: Sequence[MarkedText],
    options: Mapping[str, Any],
    *,
    store: bool,
) -> list[Translation]:
    """Translate texts with markup, each in its own direction if detection is requested.

    Args:
        translations: the gateway's translations.
        caller: the admitted caller.
        texts: the split texts.
        options: options of the request, checked by `check_marked_options`.
        store: see `Translations.translate`.

    Raises:
        GatewayError: the request failed.
    """
    directions = await translations.detected_directions([one.words for one in texts], options)
    if directions is None:
        return await translate_marked(texts, asking(translations, caller, options, store=store))
    answers = {i: joined(texts[i].written, ()) for i, one in enumerate(directions) if one.stays}
    to_translate = {i: one.languages for i, one in enumerate(directions) if not one.stays}
    for languages in dict.fromkeys(to_translate.values()):
        source, target = languages
        indices = [i for i, one in to_translate.items() if one == languages]
        ask = asking(
            translations,
            caller,
            {**options, "source_language": source, "target_language": target},
            store=store,
        )
        try:
            found = await translate_marked([texts[index] for index in indices], ask)
        except InvalidInput as error:
            raise _renumbered(error, indices) from error
        answers.update(zip(indices, found, strict=True))
    wants_bundle = "return_bundle" in options
    return [
        finished(answers[index], direction, wants_bundle)
        for index, direction in enumerate(directions)
    ]


def _renumbered(error: InvalidInput, numbers: Sequence[int]) -> InvalidInput:
    """Returns the refusal of a text with the text's index replaced."""
    message = str(error)
    if (named := OF_ONE_TEXT.match(message)) is None:
        return error
    return InvalidInput(f"text {numbers[int(named[1])]}{message[named.end() :]}")
