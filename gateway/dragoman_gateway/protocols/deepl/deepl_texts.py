"""Translation of the texts of a request."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dragoman_client import Translation
from dragoman_options.markup import Markup

from dragoman.kernel.texts.sentences import LineBreaks
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.protocols.deepl.deepl_options import TextOptions
from dragoman_gateway.shared.gateway import Gateway
from dragoman_gateway.texts.marked_texts import (
    Ask,
    MarkedText,
    MarkedTexts,
)
from dragoman_gateway.texts.sources import (
    TextLanguage,
    options_of_source,
    sources_of,
    translate_by_source,
)


@dataclass(frozen=True)
class TranslatedText:
    """A translation, and the language of its source text."""

    text: str
    source: TextLanguage


def _without_line_breaks(ask: Ask[Translation]) -> Ask[Translation]:
    """Returns a function that translates texts, with their markup, as if they had no line breaks.

    The line breaks are put into the translations. One that does not fit there without moving the
    markup is a space.
    """

    async def ask_for(texts: Sequence[str], markups: Sequence[Markup] | None) -> list[Translation]:
        lines = [LineBreaks.of(text) for text in texts]
        if markups is None:
            translations = await ask([line.line for line in lines], None)
        else:  # of the same length, so that the offsets of the markup stay
            translations = await ask([text.replace("\n", " ") for text in texts], markups)
            lines = [
                replace(line, breaks=tuple((at, "\n") for at, _ in line.breaks)) for line in lines
            ]
        texts_with_breaks = (
            line.put_into(translation.text) if line.breaks else translation.text
            for line, translation in zip(lines, translations, strict=True)
        )
        return [
            replace(translation, text=text)
            if markups is None or len(text) == len(translation.text)
            else translation
            for translation, text in zip(translations, texts_with_breaks, strict=True)
        ]

    return ask_for


async def translate_texts(
    gateway: Gateway,
    caller: Caller,
    texts: Sequence[str],
    source: str | None,
    target: str,
    how: TextOptions,
) -> list[TranslatedText]:
    """Translate texts.

    Args:
        gateway: the gateway's core.
        caller: the sender of the request.
        texts: any number of texts.
        source: code of their language; None: detect the language of each text.
        target: code of the target language.
        how: options of the translation.

    Raises:
        GatewayError: the request failed.
    """
    translate_admitted = gateway.translations.translate_admitted

    async def options_of(src: str) -> dict[str, Any]:
        return await options_of_source(
            gateway.glossaries, caller, how.options, src, target, is_detected=source is None
        )

    async def translate(these: Sequence[str], src: str) -> list[str]:
        options = await options_of(src)
        if how.split == "nonewlines":
            lines = [LineBreaks.of(text.strip()) for text in these]
            translations = await translate_admitted(caller, [line.line for line in lines], options)
            return [
                _placed(text, line.put_into(translation.text) if line.breaks else translation.text)
                for text, line, translation in zip(these, lines, translations, strict=True)
            ]
        if how.split == "0":
            # A text that is too long for one sentence is split below; other errors recur there.
            with contextlib.suppress(InvalidInput):
                translations = await translate_admitted(
                    caller, these, options | {"split_sentences": False}
                )
                return [translation.text for translation in translations]
        return [
            translation.text for translation in await translate_admitted(caller, these, options)
        ]

    async def translate_marked_texts(
        marked_texts: MarkedTexts, these: Sequence[MarkedText], src: str
    ) -> list[str]:
        options = await options_of(src)
        if how.split == "0":
            whole = options | {"split_sentences": False}
            with contextlib.suppress(InvalidInput):
                return [
                    translation.text for translation in await marked_texts.translate(these, whole)
                ]
        if how.split == "nonewlines":
            translated = marked_texts.translate(these, options, adapt=_without_line_breaks)
        else:
            translated = marked_texts.translate(these, options)
        return [translation.text for translation in await translated]

    async with gateway.access.admitted(caller, sum(map(len, texts))):
        if how.form is not None:
            marked_texts = MarkedTexts(gateway.readers, gateway.translations, caller, how.form)
            marked = await marked_texts.read(texts)
            words = [text.words for text in marked]
            sources = await sources_of(gateway.translations, words, source, target, "source_lang")
            translated = await translate_by_source(
                marked,
                sources,
                target,
                partial(translate_marked_texts, marked_texts),
                lambda text: text.written,
            )
            return [
                TranslatedText(text, src) for text, src in zip(translated, sources, strict=True)
            ]
        sources = await sources_of(gateway.translations, texts, source, target, "source_lang")
        translated = await translate_by_source(texts, sources, target, translate, str)
    return [TranslatedText(text, source) for text, source in zip(translated, sources, strict=True)]


def _placed(text: str, translation: str) -> str:
    """A translation with the white space around its text."""
    if text.isspace():
        return translation
    begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return text[:begin] + translation + text[end:]
