"""Languages as DeepL writes them: codes in upper case, and variants of a target language.

A model has one English. `EN-GB` and `EN-US` both name it, as DeepL's clients refuse the target `EN`
by themselves; so it is with Portuguese.

Source: https://developers.deepl.com/docs/getting-started/supported-languages
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dragoman_options.languages import fold_language

from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.core.languages import Languages, name_of

_VARIANTS = {
    "en": {"EN-GB": "English (British)", "EN-US": "English (American)"},
    "pt": {"PT-BR": "Portuguese (Brazilian)", "PT-PT": "Portuguese (European)"},
}
"""Target languages that DeepL's clients refuse without a variant."""


def source_language(written: str, languages: Languages) -> str:
    """The code of a source language.

    Raises:
        InvalidInput: it is not served.
    """
    return _served(written, languages.sources, "source_lang")


def target_language(written: str, languages: Languages) -> str:
    """The code of a target language.

    Raises:
        InvalidInput: it is not served.
    """
    return _served(written, languages.targets, "target_lang")


def written(code: str) -> str:
    """A code as DeepL's answers have it."""
    return code.upper()


def targets(languages: Languages) -> Iterator[tuple[str, str]]:
    """Codes and names of the target languages, variants apart."""
    for code in languages.targets:
        yield from _VARIANTS.get(code, {written(code): name_of(code)}).items()


def sources(languages: Languages) -> Iterator[tuple[str, str]]:
    """Codes and names of the source languages."""
    for code in languages.sources:
        yield written(code), name_of(code)


def every(languages: Languages, variants: bool) -> Iterator[tuple[str, str, bool, bool]]:
    """Codes and names of all, and whether each is a source and a target language.

    Args:
        languages: that are served.
        variants: whether target languages are written as variants.
    """
    as_source = dict(sources(languages))
    bases = {written(code): name_of(code) for code in languages.targets}
    as_target = dict(targets(languages)) if variants else bases
    for code, name in sorted((as_source | as_target).items()):
        yield code, name, code in as_source, code in as_target


def _served(given: str, codes: Sequence[str], field: str) -> str:
    if (found := fold_language(given, codes)) is None:
        served = ", ".join(map(written, codes))
        raise InvalidInput(f"Value for '{field}' not supported. Supported are {served}")
    return found
