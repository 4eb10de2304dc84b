"""The server's languages and directions, and the lookup of language codes."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Self

from dragoman_client import ServerInfo
from dragoman_options.languages import fold_language

from dragoman_gateway.core.errors import InvalidInput

_MOST_NAMED = 60
"""Characters in which a language's name is looked for."""


@dataclass(frozen=True)
class Languages:
    """The server's languages.

    Attributes:
        codes: language codes.
        directions: pairs of source and target language.
        direct: the directions without a pivot language; only these support glossaries.
    """

    codes: tuple[str, ...]
    directions: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    direct: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    @classmethod
    def of(cls, info: ServerInfo) -> Self:
        """Take the languages from the server's information."""
        direct = frozenset((pair.source, pair.target) for pair in info.pairs if pair.via is None)
        return cls(info.languages, frozenset(info.directions), direct)

    @functools.cached_property
    def sources(self) -> list[str]:
        """Codes of the source languages."""
        return [code for code in self.codes if any(src == code for src, _ in self.directions)]

    @functools.cached_property
    def targets(self) -> list[str]:
        """Codes of the target languages."""
        return [code for code in self.codes if any(tgt == code for _, tgt in self.directions)]

    def targets_of(self, src: str) -> list[str]:
        """Returns the codes of the target languages of a source language."""
        return [code for code in self.codes if (src, code) in self.directions]

    def find(self, written: str, among: Sequence[str], what: str) -> str:
        """Returns the code of a language in any spelling; see `fold_language`.

        Args:
            written: the code in a request.
            among: valid codes.
            what: what to call it in the message.

        Raises:
            InvalidInput: the language is not supported.
        """
        if (code := fold_language(written, among)) is None:
            raise InvalidInput(f"{what} {written[:40]!r} is not supported: give {', '.join(among)}")
        return code

    def begins_with_language(self, words: str) -> bool:
        """Whether a text begins with the English name of a language, or with one of the codes."""
        return code_in(words) is not None or fold_language(_first(words), self.codes) is not None

    def find_named(self, words: str, among: Sequence[str], what: str) -> str:
        """`find` for a text that begins with a code or with the English name of a language."""
        return self.find(code_in(words) or _first(words), among, what)


def untranslated(
    what: str,
    language: str,
    target: str | None,
    sources: Sequence[str],
    field: str,
    index: int | None = None,
) -> InvalidInput:
    """Returns the error for a detected language that is not translated.

    Args:
        what: what to call the text in the message.
        language: the detected language.
        target: the requested target language, if any.
        sources: languages that are translated into it.
        field: the protocol's name of the source language.
        index: index of the text; None: it is a document.
    """
    into = f" into {target}" if target else ""
    return InvalidInput(
        f"{what} seems to be in {language!r}, which is not translated{into} "
        f"(from: {', '.join(sources)}); if this is wrong, give {field}",
        "language",
        "source_language",
        index,
    )


@functools.cache
def name_of(code: str) -> str:
    """Returns the English name of a language; its code if the name is unknown."""
    language, *subtags = re.split("[-_]", code)
    names = _names()
    name = names["languages"].get(language.lower())
    if name is None or not subtags:
        return name or code
    scripts, regions = names["scripts"], names["regions"]
    details = (scripts.get(tag.title()) or regions.get(tag.upper()) or tag for tag in subtags)
    return f"{name} ({', '.join(details)})"


def code_in(words: str) -> str | None:
    """Returns the code of the language whose English name a text begins with, or None.

    A script or a region is in parentheses, as in `name_of`, or a script comes first: `Chinese
    (Traditional)`, `Traditional Chinese`.
    """
    parts = words[:_MOST_NAMED].lower().split()
    for count in range(len(parts), 0, -1):
        if (code := _code_of(" ".join(parts[:count]))) is not None:
            return code
    return None


def _code_of(name: str) -> str | None:
    """Returns the code of a language by its English name in lower case, or None."""
    languages, details = _codes()
    base, _, detail = name.removesuffix(")").partition(" (")
    if base not in languages and not detail:
        detail, _, base = base.partition(" ")
    if base not in languages or (detail and detail not in details):
        return None
    return f"{languages[base]}-{details[detail]}" if detail else languages[base]


def _first(words: str) -> str:
    """Returns the first word."""
    return words[:_MOST_NAMED].partition(" ")[0]


@functools.cache
def _codes() -> tuple[dict[str, str], dict[str, str]]:
    """Codes by English names in lower case: of languages, and of scripts and regions."""
    names = _names()
    # Of several codes with a name, the first of the shortest.
    languages = {
        name.lower(): code
        for code, name in sorted(
            names["languages"].items(), key=lambda pair: (len(pair[0]), pair[0]), reverse=True
        )
    }
    details = {name.lower(): code for code, name in names["regions"].items()}
    return languages, details | {name.lower(): code for code, name in names["scripts"].items()}


@functools.cache
def _names() -> dict[str, dict[str, str]]:
    """English names of languages, scripts and regions by code, from Unicode's CLDR.

    Beside the file is its licence.
    """
    file = resources.files("dragoman_gateway.texts") / "language_names.json"
    names: dict[str, dict[str, str]] = json.loads(file.read_text("utf-8"))
    return names
