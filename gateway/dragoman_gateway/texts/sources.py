"""Detects source languages, and finds texts that are already in the target language.

The server refuses a text that is already in the target language. The protocols of other services
accept any mixture of texts, and return texts that need no translation unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dragoman_options.refusal import Refusal

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.texts.language import Detected, OtherLanguage, detect_source
from dragoman_gateway.access.limits import check_number
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput, renumbering
from dragoman_gateway.glossaries.glossaries import Glossaries
from dragoman_gateway.texts.languages import untranslated
from dragoman_gateway.texts.translations import Translations

_Answer = TypeVar("_Answer")
_Group = TypeVar("_Group")
_Text = TypeVar("_Text")


@dataclass(frozen=True)
class TextLanguage:
    """The language of a text.

    Attributes:
        language: code of the language.
        probability: probability of the detection; 1 if the request names the language.
        is_known: False for a text without letters, which could be in any language and needs no
            translation.
    """

    language: str
    probability: float = 1.0
    is_known: bool = True


async def sources_of(
    translations: Translations, texts: Sequence[str], named: str | None, target: str, field: str
) -> list[TextLanguage]:
    """Determine the languages of texts. Detection takes time, so admit the caller before.

    Args:
        translations: the gateway's translations.
        texts: the texts to translate.
        named: code of their language, one of the server's; None: detect the language of each text.
        target: code of the target language.
        field: the protocol's name of the source language, for messages.

    Raises:
        InvalidInput: a language cannot be translated into the target language.
        TooLarge: there are too many texts.
    """
    check_number(texts)
    languages = await translations.languages()
    into = [source for source in languages.sources if (source, target) in languages.directions]
    if named is not None:
        if named not in into and named != target:
            message = f"{named} is not translated into {target}: give {', '.join(into)}"
            raise InvalidInput(message, "language", "source_language")
        return [TextLanguage(named)] * len(texts)
    sources = []
    for index, text in enumerate(texts):
        if index % 64 == 63:
            await asyncio.sleep(0)  # detection takes 50 us
        if not any(map(str.isalpha, text)):
            sources.append(TextLanguage(into[0], 0.0, is_known=False))
            continue
        detected = _detected(text, into, target)
        if detected.language not in into and detected.language != target:
            raise untranslated(f"text {index}", detected.language, target, into, field, index)
        sources.append(TextLanguage(detected.language, detected.probability))
    return sources


def _detected(text: str, sources: Sequence[str], target: str) -> Detected:
    """Detects a text's language, among these unless another one is much more probable."""
    try:
        return detect_source(text, sources, target)
    except OtherLanguage as error:
        return error.found
    except InvalidRequest as error:
        raise InvalidInput(*Refusal.of(error)) from error


async def options_of_source(
    glossaries: Glossaries,
    caller: Caller,
    options: Mapping[str, Any],
    source: str,
    target: str,
    *,
    is_detected: bool,
) -> dict[str, Any]:
    """Returns the options for a request's texts in one language.

    Args:
        glossaries: glossaries of the gateway.
        caller: the sender of the request.
        options: options of the request, without its languages.
        source: code of the language of these texts.
        target: code of the target language.
        is_detected: whether the languages are detected. Then each language uses the glossaries
            with a dictionary for it; otherwise each glossary must have one.

    Raises:
        NotFound: a glossary does not exist.
    """
    language_options = {**options, "source_language": source, "target_language": target}
    if is_detected and (ids := options.get("glossary_ids")):
        language_options["glossary_ids"] = await glossaries.fitting(caller, ids, (source, target))
    return language_options


async def translate_by_source(
    texts: Sequence[_Text],
    sources: Sequence[TextLanguage],
    target: str,
    translate: Callable[[Sequence[_Text], str], Awaitable[list[_Answer]]],
    keep: Callable[[_Text], _Answer],
) -> list[_Answer]:
    """Translate texts in several languages, grouped by language.

    Args:
        texts: any number of texts.
        sources: their languages.
        target: code of the target language.
        translate: translates texts of one language, whose code is the second argument.
        keep: returns the answer for a text that needs no translation.

    Returns:
        Answers in the order of the texts.
    """

    async def answers_of(these: Sequence[_Text], language: str) -> list[_Answer]:
        return list(map(keep, these)) if language == target else await translate(these, language)

    kinds = [source.language if source.is_known else target for source in sources]
    return await translate_in_groups(texts, kinds, answers_of)


async def translate_in_groups(
    texts: Sequence[_Text],
    groups: Sequence[_Group],
    translate: Callable[[Sequence[_Text], _Group], Awaitable[list[_Answer]]],
) -> list[_Answer]:
    """Translate the texts of each group together.

    Args:
        texts: any number of texts.
        groups: the group of each.
        translate: translates texts of one group, which is the second argument.

    Returns:
        Answers in the order of the texts.

    Raises:
        InvalidInput: a text is refused.
    """
    answers: dict[int, _Answer] = {}
    for group in dict.fromkeys(groups):
        indices = [index for index, of_text in enumerate(groups) if of_text == group]
        with renumbering(indices):
            translated = await translate([texts[index] for index in indices], group)
        answers.update(zip(indices, translated, strict=True))
    return [answers[index] for index in range(len(texts))]
