"""Translation of the texts of a request."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.kernel.sentences import LineBreaks
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.core.gateway import Gateway
from dragoman_gateway.core.marked_texts import (
    MarkedText,
    asking,
    read_marked,
    translate_marked,
)
from dragoman_gateway.core.sources import (
    Source,
    options_of_source,
    sources_of,
    translate_by_source,
)
from dragoman_gateway.deepl.deepl_options import TextOptions


@dataclass(frozen=True)
class TranslatedText:
    """A translation, and the language of its source text."""

    text: str
    source: Source


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
    asked = gateway.translations.translate_admitted

    async def options_of(src: str) -> dict[str, Any]:
        return await options_of_source(
            gateway.glossaries, caller, how.options, src, target, is_detected=source is None
        )

    async def translate(these: Sequence[str], src: str) -> list[str]:
        options = await options_of(src)
        if how.split == "nonewlines":
            lines = [LineBreaks.of(text) for text in these]
            found = await asked(caller, [one.line for one in lines], options)
            return [
                line.put_into(one.text) if line.breaks else one.text
                for line, one in zip(lines, found, strict=True)
            ]
        if how.split == "0":
            # A text that is too long for one sentence is split below; other errors recur there.
            with contextlib.suppress(InvalidInput):
                found = await asked(caller, these, options | {"split_sentences": False})
                return [one.text for one in found]
        return [one.text for one in await asked(caller, these, options)]

    async def translate_marked_texts(these: Sequence[MarkedText], src: str) -> list[str]:
        options = await options_of(src)
        if how.split == "0":
            whole = asking(gateway.translations, caller, options | {"split_sentences": False})
            with contextlib.suppress(InvalidInput):
                return [one.text for one in await translate_marked(these, whole)]
        ask = asking(gateway.translations, caller, options)
        return [one.text for one in await translate_marked(these, ask)]

    async with gateway.access.admitted(caller, sum(map(len, texts))):
        if how.open_reader is not None:
            marked = await read_marked(texts, how.open_reader)
            words = [one.words for one in marked]
            sources = await sources_of(gateway.translations, words, source, target, "source_lang")
            found = await translate_by_source(
                marked, sources, target, translate_marked_texts, lambda one: one.written
            )
            return [TranslatedText(text, src) for text, src in zip(found, sources, strict=True)]
        sources = await sources_of(gateway.translations, texts, source, target, "source_lang")
        found = await translate_by_source(texts, sources, target, translate, str)
    return [TranslatedText(text, source) for text, source in zip(found, sources, strict=True)]
