"""Source languages of requests that do not give one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from dragoman_gateway.core.errors import InvalidInput, TooLarge
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.texts.sources import TextLanguage, sources_of, translate_by_source
from dragoman_gateway.texts.translations import Translations

ENGLISH, GERMAN = "Good morning, my friend.", "Guten Morgen, mein Freund."
FRENCH, SPANISH = "Bonjour, mon cher ami.", "Buenos días, mi querido amigo."


class Served:
    """English from and into German and French, as `Translations` has it."""

    async def languages(self) -> Languages:
        """See `Translations`."""
        pairs = {("en", "de"), ("de", "en"), ("en", "fr"), ("fr", "en")}
        return Languages(("en", "de", "fr"), frozenset(pairs))


def find(texts: Sequence[str], named: str | None, target: str) -> list[TextLanguage]:
    served = cast(Translations, Served())
    return asyncio.run(sources_of(served, texts, named, target, "source_lang"))


def test_a_given_language_applies_to_all_texts() -> None:
    assert find([ENGLISH, GERMAN], "en", "de") == [TextLanguage("en"), TextLanguage("en")]
    assert find([ENGLISH], "de", "de") == [TextLanguage("de")]


def test_each_text_has_a_language() -> None:
    sources = find([ENGLISH, GERMAN, FRENCH], None, "en")
    assert [source.language for source in sources] == ["en", "de", "fr"]
    assert all(source.probability > 0.5 for source in sources)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Bonne nuit", "fr"),
        ("Non", "fr"),
        ("Ja", "de"),
        ("Pfannkuchen", "de"),
        ("Öffnen", "de"),
        ("Kein Problem", "de"),
    ],
)
def test_a_short_text_is_in_another_language_than_the_target(text: str, language: str) -> None:
    assert [source.language for source in find([text], None, "en")] == [language]


@pytest.mark.parametrize("text", ["", " ", "12:30", "😀", "...\n"])
def test_a_text_without_letters_has_none(text: str) -> None:
    (source,) = find([text], None, "en")
    assert not source.is_known


@pytest.mark.parametrize(
    ("text", "named", "target", "message"),
    [
        (FRENCH, None, "de", "text 0 seems to be in 'fr', which is not translated into de"),
        (SPANISH, None, "de", r"seems to be in 'es', .* into de \(from: en\); if .* source_lang"),
        ("Доброе утро", None, "de", "text 0 seems to be in 'ru'"),
        (FRENCH, "fr", "de", "fr is not translated into de: give en"),
    ],
)
def test_an_unsupported_language_is_refused(
    text: str, named: str | None, target: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        find([text], named, target)


async def test_texts_are_grouped_by_language_and_returned_in_order() -> None:
    calls: list[Any] = []

    async def translate(texts: Sequence[str], src: str) -> list[str]:
        calls.append((src, list(texts)))
        return [f"{src}:{text}" for text in texts]

    sources = [TextLanguage(code) for code in ("de", "en", "de", "fr")]
    sources[3] = TextLanguage("de", 0.0, is_known=False)
    translations = translate_by_source(["a", "b", "c", "1"], sources, "en", translate, str.upper)
    assert await translations == ["de:a", "B", "de:c", "1"]
    assert calls == [("de", ["a", "c"])]


async def test_many_texts_do_not_block_others() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await sources_of(cast(Translations, Served()), [ENGLISH] * 640, None, "de", "source")
    task.cancel()
    assert turns >= 9


def test_too_many_texts_are_refused_at_once() -> None:
    with pytest.raises(TooLarge, match="20,001 texts: send up to 20,000"):
        find(["a"] * 20_001, None, "de")
