"""Languages in DeepL's form: codes in upper case, and variants of target languages.

A model has one English. `EN-GB` and `EN-US` both stand for it, since DeepL's clients do not accept
the target `EN`. Portuguese is similar.

Source: https://developers.deepl.com/docs/getting-started/supported-languages
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman_options.languages import fold_language

from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.texts.languages import Languages, name_of

_VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
"""Variants of target languages that DeepL's clients do not accept without a variant."""


def source_language(written: str, languages: Languages) -> str:
    """Returns the code of a source language.

    Raises:
        InvalidInput: the language is not supported.
    """
    return _served(written, languages.sources, "source_lang")


def target_language(written: str, languages: Languages) -> str:
    """Returns the code of a target language.

    Raises:
        InvalidInput: the language is not supported.
    """
    return _served(written, languages.targets, "target_lang")


def written(code: str) -> str:
    """Returns a code as in DeepL's answers."""
    return code.upper()


def targets(languages: Languages) -> Iterator[tuple[str, str]]:
    """Yields codes and names of the target languages, with each variant."""
    for code in languages.targets:
        yield from _VARIANTS.get(code, {written(code): name_of(code)}).items()


def sources(languages: Languages) -> Iterator[tuple[str, str]]:
    """Yields codes and names of the source languages."""
    for code in languages.sources:
        yield written(code), name_of(code)


def every(languages: Languages, variants: bool) -> Iterator[tuple[str, str, bool, bool]]:
    """Yields codes and names of all languages, and whether each is a source and a target language.

    Args:
        languages: the server's languages.
        variants: whether target languages are given as variants.
    """
    as_source = dict(sources(languages))
    bases = {written(code): name_of(code) for code in languages.targets}
    as_target = dict(targets(languages)) if variants else bases
    for code, name in sorted((as_source | as_target).items()):
        yield code, name, code in as_source, code in as_target


def _served(given: str, codes: Sequence[str], field: str) -> str:
    if (code := fold_language(given, codes)) is None:
        served = ", ".join(map(written, codes))
        raise InvalidInput(f"Value for '{field}' not supported. Supported are {served}")
    return code
