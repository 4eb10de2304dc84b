"""Glossaries in DeepL's form: with one direction in /v2, with several in /v3.

Source: https://developers.deepl.com/api-reference/glossaries
"""

from __future__ import annotations

from typing import Any

from dragoman_client.files.glossary_files import format_glossary, parse_glossary

from dragoman_gateway.core.errors import InvalidInput, NotFound
from dragoman_gateway.glossaries.glossaries import Dictionary, Glossary
from dragoman_gateway.protocols.deepl.deepl_languages import source_language, target_language
from dragoman_gateway.protocols.deepl.deepl_options import needed
from dragoman_gateway.texts.languages import Languages
from dragoman_gateway.web.fields import Fields

TSV = "text/tab-separated-values"
_FORMATS = ("tsv", "csv")


def read_dictionary(fields: Fields, languages: Languages) -> Dictionary:
    """Read the dictionary of a request.

    Raises:
        InvalidInput: a field is missing or malformed, or a language is not supported.
    """
    source, target = direction(fields, languages)
    form = fields.text("entries_format") or ""
    if form not in _FORMATS:
        raise InvalidInput("Value for 'entries_format' not supported. Supported are tsv, csv")
    try:
        entries = parse_glossary(needed(fields, "entries"), "tsv" if form == "tsv" else "csv")
    except ValueError as error:
        raise InvalidInput(f"Invalid glossary entries provided: {error}") from error
    if not entries:
        raise InvalidInput("Invalid glossary entries provided: there are none")
    return Dictionary(source, target, entries, len(entries))


def read_dictionaries(fields: Fields, languages: Languages) -> list[Dictionary]:
    """Read the dictionaries of a request; empty if it has none."""
    return [
        read_dictionary(section, languages) for section in fields.sections("dictionaries") or ()
    ]


def direction(fields: Fields, languages: Languages) -> tuple[str, str]:
    """Read the languages of a dictionary.

    Raises:
        InvalidInput: a language is missing or not supported.
    """
    source = source_language(needed(fields, "source_lang"), languages)
    return source, target_language(needed(fields, "target_lang"), languages)


def find_dictionary(glossary: Glossary, source: str, target: str) -> Dictionary:
    """Returns the dictionary of a direction.

    Raises:
        NotFound: there is no such dictionary.
    """
    for dictionary in glossary.dictionaries:
        if (dictionary.source_language, dictionary.target_language) == (source, target):
            return dictionary
    raise NotFound(f"The glossary has no dictionary from {source} to {target}")


def written_glossary(glossary: Glossary) -> dict[str, Any]:
    """Returns a glossary in the form of /v3."""
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "dictionaries": [written_dictionary(dictionary) for dictionary in glossary.dictionaries],
        "creation_time": _time(glossary),
    }


def written_dictionary(dictionary: Dictionary) -> dict[str, Any]:
    """Returns a dictionary without its entries."""
    return _languages(dictionary) | {"entry_count": dictionary.entry_count}


def written_entries(dictionary: Dictionary) -> dict[str, Any]:
    """Returns a dictionary with its entries."""
    return _languages(dictionary) | {"entries": tsv_of(dictionary), "entries_format": "tsv"}


def tsv_of(dictionary: Dictionary) -> str:
    """Returns the entries of a dictionary, one per line."""
    return format_glossary(dictionary.entries or {}, "tsv").rstrip("\n")


def written_single(glossary: Glossary) -> dict[str, Any]:
    """Returns a glossary with one dictionary in the form of /v2."""
    (dictionary,) = glossary.dictionaries
    return {
        "glossary_id": glossary.id,
        "name": glossary.name,
        "ready": True,
        **written_dictionary(dictionary),
        "creation_time": _time(glossary),
    }


def _languages(dictionary: Dictionary) -> dict[str, str]:
    return {
        "source_lang": dictionary.source_language.lower(),
        "target_lang": dictionary.target_language.lower(),
    }


def _time(glossary: Glossary) -> str:
    # DeepL's Python client cannot parse a time without a fraction.
    return glossary.created.isoformat(timespec="milliseconds").replace("+00:00", "Z")
