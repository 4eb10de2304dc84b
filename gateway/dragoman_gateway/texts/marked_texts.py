"""Translation of texts with markup: only the words are translated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman_client import Translation
from dragoman_client.files.document_translation import Excerpt
from dragoman_options.markup import Markup
from dragoman_options.refusal import Refusal
from dragoman_options.table import OPTIONS

from dragoman_gateway.access.access import Access
from dragoman_gateway.access.limits import check_number
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, renumbering
from dragoman_gateway.reader import marked
from dragoman_gateway.reader.marked import ReadText, TextForm, excerpt_of
from dragoman_gateway.texts.readers import Readers
from dragoman_gateway.texts.segmentation import JOINED_OUTPUTS, joined
from dragoman_gateway.texts.sources import translate_in_groups
from dragoman_gateway.texts.translations import Translations, finished

_SHORT_CHARACTERS = 4000
"""Texts of a request that are not longer together are read in the event loop, in 10 ms, or 60 ms
for the most expensive ones. Others are read in another process: a thread that reads holds the
interpreter's lock, so that every other request takes several times as long."""
_CHARACTERS_OF_TEXT = 100
"""What opening a reader costs, as a number of characters."""

Answer = TypeVar("Answer")
Ask = Callable[[Sequence[str], Sequence[Markup] | None], Awaitable[list[Answer]]]
"""Translates texts, with their markup if they have any."""


@dataclass(frozen=True)
class MarkedText:
    """A text with markup, split into segments.

    Attributes:
        written: the text.
        segments: its segments.
        excerpt: writes translations of the segments; None: another process does.
    """

    written: str
    segments: ReadText
    excerpt: Excerpt | None = None

    @property
    def words(self) -> str:
        """All of its text, for language detection."""
        return " ".join(self.segments.texts)


class MarkedTexts:
    """Reads, translates and writes the texts with markup of one request."""

    def __init__(
        self, readers: Readers, translations: Translations, caller: Caller, form: TextForm
    ) -> None:
        """Store the parts.

        Args:
            readers: read and write long texts.
            translations: the gateway's translations.
            caller: the sender of the request; it must be admitted before anything is translated.
            form: how the markup is read.
        """
        self._readers, self._translations = readers, translations
        self._caller, self._form = caller, form

    async def read(self, texts: Sequence[str]) -> list[MarkedText]:
        """Split texts into segments.

        Args:
            texts: texts with their tags.

        Raises:
            InvalidInput: a text is not well-formed.
            GatewayError: long texts were not read; see `Readers`.
        """
        texts = [text.encode("utf-8", "replace").decode() for text in texts]
        if sum(map(len, texts)) + _CHARACTERS_OF_TEXT * len(texts) > _SHORT_CHARACTERS:
            read = await self._readers.read_texts(self._caller.name, texts, self._form)
            return [MarkedText(text, segments) for text, segments in zip(texts, read, strict=True)]
        return [self._read_here(index, text) for index, text in enumerate(texts)]

    async def translate(
        self,
        texts: Sequence[MarkedText],
        options: Mapping[str, Any],
        *,
        store: bool = True,
        adapt: Callable[[Ask[Translation]], Ask[Translation]] = lambda ask: ask,
    ) -> list[Translation]:
        """Translate texts.

        Args:
            texts: the split texts.
            options: options of the request, checked by `check_marked_options`.
            store: see `Translations.translate`.
            adapt: changes how texts are translated that the memory of the request does not have.

        Returns:
            The translations with their tags, each around the corresponding words.

        Raises:
            GatewayError: the request failed.
        """
        segments = [segment for text in texts for segment in text.segments.texts]
        markups = [markup for text in texts for markup in text.segments.markups]
        owners = [index for index, text in enumerate(texts) for _ in text.segments.texts]
        # All of them are the context of a stored translation, those without elements too.
        stored, _ = await self._translations.stored(self._caller, segments, markups, options)

        async def ask(texts: Sequence[str], markups: Sequence[Markup] | None) -> list[Translation]:
            given = {**options, **({"markup": markups} if markups else {})}
            return await self._translations.translate_admitted(
                self._caller, texts, given, store=store
            )

        with renumbering(owners):
            translated = iter(await translate_segments(segments, markups, adapt(ask), stored))
        answers = [[next(translated) for _ in text.segments.texts] for text in texts]
        written = await self._write(texts, answers)
        return [joined(text, own) for text, own in zip(written, answers, strict=True)]

    async def translate_by_direction(
        self, texts: Sequence[str], options: Mapping[str, Any], *, store: bool
    ) -> list[Translation]:
        """Translate texts with their tags, each in its own direction if detection is requested.

        See `translate`.
        """
        marked_texts = await self.read(texts)
        words = [text.words for text in marked_texts]
        directions = await self._translations.detected_directions(words, options)
        if directions is None:
            return await self.translate(marked_texts, options, store=store)

        async def translate(
            these: Sequence[MarkedText], languages: tuple[str, str] | None
        ) -> list[Translation]:
            if languages is None:
                return [joined(text.written, ()) for text in these]
            source, target = languages
            directed = {**options, "source_language": source, "target_language": target}
            return await self.translate(these, directed, store=store)

        groups = [None if direction.stays else direction.languages for direction in directions]
        answers = await translate_in_groups(marked_texts, groups, translate)
        wants_bundle = "return_bundle" in options
        return [
            finished(answer, direction, wants_bundle)
            for answer, direction in zip(answers, directions, strict=True)
        ]

    async def _write(
        self, texts: Sequence[MarkedText], answers: Sequence[Sequence[Translation]]
    ) -> list[str]:
        """Write translations of texts, each with those of its segments."""
        written = {
            index: text.excerpt.written(own).decode()
            for index, (text, own) in enumerate(zip(texts, answers, strict=True))
            if text.excerpt is not None
        }
        others = [index for index in range(len(texts)) if index not in written]
        if others:
            translated = await self._readers.write_texts(
                self._caller.name,
                [texts[index].written for index in others],
                self._form,
                [
                    [marked.Answer(answer.text, answer.codes) for answer in answers[i]]
                    for i in others
                ],
            )
            written.update(zip(others, translated, strict=True))
        return [written[index] for index in range(len(texts))]

    def _read_here(self, index: int, text: str) -> MarkedText:
        try:
            excerpt = excerpt_of(text, self._form, index)
        except ValueError as error:
            raise InvalidInput(*Refusal.of(error)) from error
        return MarkedText(text, ReadText.of(excerpt.segments), excerpt)


class MarkedTranslations:
    """Translates texts with markup for callers."""

    def __init__(self, readers: Readers, access: Access, translations: Translations) -> None:
        """Store the parts; they belong to the gateway."""
        self._readers, self._access, self._translations = readers, access, translations

    async def translate(
        self,
        caller: Caller,
        texts: Sequence[str],
        form: TextForm,
        options: Mapping[str, Any],
        *,
        store: bool = True,
    ) -> list[Translation]:
        """`Translations.translate` for texts with markup.

        Args:
            caller: the sender of the request.
            texts: any number of texts with tags.
            form: how the markup is read.
            options: options of the request, checked by `check_marked_options`.
            store: see `Translations.translate`.

        Raises:
            GatewayError: the request failed.
        """
        check_number(texts)
        async with self._access.admitted(caller, sum(map(len, texts))):
            marked_texts = MarkedTexts(self._readers, self._translations, caller, form)
            return await marked_texts.translate_by_direction(texts, options, store=store)


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
        if name in options and (name in refused or option.output not in {None, *JOINED_OUTPUTS}):
            raise InvalidInput(f"{name}: not with {what}; leave it out", option=name)


async def translate_segments(
    texts: Sequence[str],
    markups: Sequence[Markup],
    ask: Ask[Answer],
    stored: Sequence[Answer | None] = (),
) -> list[Answer]:
    """Translate segments.

    Args:
        texts: texts of the segments.
        markups: markup of each segment.
        ask: translates texts.
        stored: for each segment its translation, or None if it is not known; empty: none is.

    Raises:
        InvalidInput: a text is refused.
    """
    answers = {index: answer for index, answer in enumerate(stored) if answer is not None}
    others = [index for index in range(len(texts)) if index not in answers]
    # Segments without elements are sent like other texts, so that the cache can be used.
    marked = [index for index in others if markups[index] != Markup()]
    plain = [index for index in others if markups[index] == Markup()]

    async def ask_for(indices: Sequence[int]) -> Sequence[Answer]:
        these = [markups[index] for index in indices] if indices is marked else None
        with renumbering(indices):
            return await ask([texts[index] for index in indices], these)

    parts = [indices for indices in (plain, marked) if indices]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask_for(indices)) for indices in parts]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    for indices, task in zip(parts, tasks, strict=True):
        answers.update(zip(indices, task.result(), strict=True))
    return [answers[index] for index in range(len(texts))]
