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
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.reader import marked
from dragoman_gateway.reader.marked import ReadText, TextForm, excerpt_of, segments_of
from dragoman_gateway.texts.readers import Readers
from dragoman_gateway.texts.segmentation import JOINED_OUTPUTS, joined
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
Recall = Callable[[Sequence[str], Sequence[Markup]], Awaitable[Sequence[Translation | None]]]
"""Returns the translations of texts that are stored; see `recalling`."""


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
    """Reads and writes the texts with markup of one request."""

    def __init__(self, readers: Readers, caller: Caller, form: TextForm) -> None:
        """Store the parts.

        Args:
            readers: read and write long texts.
            caller: the sender of the request.
            form: how the markup is read.
        """
        self._readers, self._client, self._form = readers, caller.name, form

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
            read = await self._readers.read_texts(self._client, texts, self._form)
            return [MarkedText(text, segments) for text, segments in zip(texts, read, strict=True)]
        return [self._read_here(index, text) for index, text in enumerate(texts)]

    async def write(
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
                self._client,
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
        return MarkedText(text, segments_of(excerpt), excerpt)


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
        try:
            return await ask([texts[index] for index in indices], these)
        except InvalidInput as error:
            raise _renumbered(error, indices) from error

    parts = [indices for indices in (plain, marked) if indices]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask_for(indices)) for indices in parts]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    for indices, task in zip(parts, tasks, strict=True):
        answers.update(zip(indices, task.result(), strict=True))
    return [answers[index] for index in range(len(texts))]


async def translate_marked(
    marked_texts: MarkedTexts,
    texts: Sequence[MarkedText],
    ask: Ask[Translation],
    recall: Recall | None = None,
) -> list[Translation]:
    """Translate texts with markup.

    Args:
        marked_texts: writes the texts.
        texts: the split texts.
        ask: translates texts.
        recall: returns stored translations; None: none are.

    Returns:
        The translations with their tags, each around the corresponding words.

    Raises:
        InvalidInput: a text is refused.
    """
    segments = [segment for text in texts for segment in text.segments.texts]
    markups = [markup for text in texts for markup in text.segments.markups]
    owners = [index for index, text in enumerate(texts) for _ in text.segments.texts]
    stored = await recall(segments, markups) if recall else ()
    try:
        segment_answers = iter(await translate_segments(segments, markups, ask, stored))
    except InvalidInput as error:
        raise _renumbered(error, owners) from error
    answers = [[next(segment_answers) for _ in text.segments.texts] for text in texts]
    written = await marked_texts.write(texts, answers)
    return [joined(text, own) for text, own in zip(written, answers, strict=True)]


def asking(
    translations: Translations, caller: Caller, options: Mapping[str, Any], *, store: bool = True
) -> Ask[Translation]:
    """Returns a function that translates with options; see `Translations.translate_admitted`."""

    async def ask(texts: Sequence[str], markups: Sequence[Markup] | None) -> list[Translation]:
        given = {**options, **({"markup": markups} if markups else {})}
        return await translations.translate_admitted(caller, texts, given, store=store)

    return ask


def recalling(translations: Translations, caller: Caller, options: Mapping[str, Any]) -> Recall:
    """Returns a function for stored translations; all texts of a request are their context.

    The function that `asking` returns sends texts without elements apart from the others.
    """

    async def recall(
        texts: Sequence[str], markups: Sequence[Markup]
    ) -> Sequence[Translation | None]:
        stored, _ = await translations.stored(caller, texts, markups, options)
        return stored

    return recall


async def translate_by_direction(
    translations: Translations,
    caller: Caller,
    marked_texts: MarkedTexts,
    texts: Sequence[MarkedText],
    options: Mapping[str, Any],
    *,
    store: bool,
) -> list[Translation]:
    """Translate texts with markup, each in its own direction if detection is requested.

    Args:
        translations: the gateway's translations.
        caller: the admitted caller.
        marked_texts: writes the texts.
        texts: the split texts.
        options: options of the request, checked by `check_marked_options`.
        store: see `Translations.translate`.

    Raises:
        GatewayError: the request failed.
    """
    directions = await translations.detected_directions([text.words for text in texts], options)
    if directions is None:
        ask = asking(translations, caller, options, store=store)
        recall = recalling(translations, caller, options)
        return await translate_marked(marked_texts, texts, ask, recall)
    answers = {
        i: joined(texts[i].written, ()) for i, direction in enumerate(directions) if direction.stays
    }
    to_translate = {
        i: direction.languages for i, direction in enumerate(directions) if not direction.stays
    }
    for languages in dict.fromkeys(to_translate.values()):
        source, target = languages
        indices = [i for i, pair in to_translate.items() if pair == languages]
        directed = {**options, "source_language": source, "target_language": target}
        ask = asking(translations, caller, directed, store=store)
        recall = recalling(translations, caller, directed)
        these = [texts[i] for i in indices]
        try:
            translated = await translate_marked(marked_texts, these, ask, recall)
        except InvalidInput as error:
            raise _renumbered(error, indices) from error
        answers.update(zip(indices, translated, strict=True))
    wants_bundle = "return_bundle" in options
    return [
        finished(answers[index], direction, wants_bundle)
        for index, direction in enumerate(directions)
    ]


async def translate_texts_with_markup(
    readers: Readers,
    access: Access,
    translations: Translations,
    caller: Caller,
    texts: Sequence[str],
    form: TextForm,
    options: Mapping[str, Any],
    *,
    store: bool = True,
) -> list[Translation]:
    """`Translations.translate` for texts with markup.

    Args:
        readers: read and write long texts.
        access: admits the caller.
        translations: the gateway's translations.
        caller: the sender of the request.
        texts: any number of texts with tags.
        form: how the markup is read.
        options: options of the request, checked by `check_marked_options`.
        store: see `Translations.translate`.

    Raises:
        GatewayError: the request failed.
    """
    check_number(texts)
    async with access.admitted(caller, sum(map(len, texts))):
        marked_texts = MarkedTexts(readers, caller, form)
        marked = await marked_texts.read(texts)
        return await translate_by_direction(
            translations, caller, marked_texts, marked, options, store=store
        )


def _renumbered(error: InvalidInput, numbers: Sequence[int]) -> InvalidInput:
    """Returns the refusal of a text with the text's index replaced."""
    if error.text_index is None:
        return error
    return InvalidInput(*Refusal.of(error).moved(numbers[error.text_index]))
