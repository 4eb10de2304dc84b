"""Which languages a Marian model has, and which tag selects each target language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.kernel.errors import UsageError
from dragoman_training.marian.language_groups import MEMBERS
from dragoman_training.marian.pieces import tags_of
from dragoman_training.marian.settings import content_of

_NAME = re.compile(r"opus-mt-(?:tc-(?:big|base|bible-big)-)?(\w+)-(\w+)$")
_LANGUAGE = re.compile(r"[A-Za-z][\w-]*")
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[_-](?:[A-Za-z]{4}|[A-Za-z]{2}|\d{3}))*|[A-Z][A-Z_]+")
"""A code such as `de`, `pt-BR` or `cmn_Hans`, or a group of languages, such as `ROMANCE`."""


@dataclass(frozen=True)
class Languages:
    """The languages of a model, if its files do not state them or to override them.

    Attributes:
        sources: codes of the source languages; empty: take the files' languages.
        targets: codes of the target languages, each with its tag: None for the tag of the same
            name, empty if the model needs no tag. Without targets: take the files' languages.
    """

    sources: tuple[str, ...] = ()
    targets: tuple[tuple[str, str | None], ...] = ()


def find_languages(
    requested: Languages, pieces: Mapping[str, int], words: Mapping[str, Any], name: str
) -> tuple[tuple[str, ...], dict[str, str], tuple[str, ...]]:
    """Find a model's languages.

    Args:
        requested: the languages that the caller gives.
        pieces: the source list, ids by token.
        words: the tokenizer's configuration.
        name: of the model, which often names the languages too.

    Returns:
        The source languages, of a group its members; the vocabulary entry that selects each target
        language, if any; and the target languages.

    Raises:
        UsageError: they are unknown, or the model does not have them.
    """
    requested = replace(requested, targets=_distinct(requested.targets))
    named = _NAME.search(name)
    source, target = (
        _short_code(_code(content_of(words.get(key))) or (named.group(group) if named else ""))
        for group, key in ((1, "source_lang"), (2, "target_lang"))
    )
    if not (given := requested.sources or ((source,) if source else ())):
        raise UsageError(f"{name}: the source language is not known; name it with --source")
    untagged = any(tag == "" for _, tag in requested.targets)
    tags = {} if untagged else _tags(requested, tags_of(pieces), name)
    targets = tuple(tags)
    if not tags:
        targets = tuple(language for language, _ in requested.targets) or (
            (target,) if target and target not in MEMBERS else ()
        )
        if len(targets) != 1:
            raise UsageError(f"{name}: has one target language; name it with --target")
    members = (language for code in given for language in MEMBERS.get(code, (code,)))
    sources = tuple(language for language in dict.fromkeys(members) if language not in targets)
    sources = sources or given
    for language in (*sources, *targets):
        if not _LANGUAGE.fullmatch(language):
            raise UsageError(f"{name}: {language!r} is no language; write it as de or cmn_Hans")
    if len({*sources, *targets}) < 2:
        raise UsageError(
            f"{name}: source and target are both {sources[0]!r}: name them with --source, --target"
        )
    return sources, tags, targets


def _short_code(code: str) -> str:
    # Training without a Marian model does not need the client.
    from dragoman_options.language_codes import short_code

    return short_code(code)


def _code(stated: str) -> str:
    """The language that a configuration states; empty if it states none.

    The conversion script of `transformers` writes the folder's name without its last part, such as
    `opus-mt-en`, as the source language, and the last part as the target language.
    """
    last = stated if _CODE.fullmatch(stated) else stated.rpartition("-")[2]
    return last if _CODE.fullmatch(last) else ""


def _distinct(targets: Sequence[tuple[str, str | None]]) -> tuple[tuple[str, str | None], ...]:
    """Target languages in the order given, without repeats."""
    tags = dict(targets)
    distinct = tuple(dict.fromkeys(targets))
    for language, tag in distinct:
        if tags[language] != tag:
            raise UsageError(f"--target {language}: is named twice, with different tags")
        if tag == "" and len(distinct) > 1:
            raise UsageError(f"--target {language}=: has no tag, so it must be the only target")
    return distinct


def _tags(requested: Languages, known: Mapping[str, str], name: str) -> dict[str, str]:
    """The vocabulary entry that selects each target language; empty if there are no tags."""
    by_name: dict[str, str] = {}
    for tag in known:
        by_name.setdefault(tag if _short_code(tag) in known else _short_code(tag), known[tag])
    tags = {}
    for language, requested_tag in requested.targets:
        entry = (
            known.get(requested_tag)
            if requested_tag
            else by_name.get(language, known.get(language))
        )
        if entry is None and (known or requested_tag):
            raise UsageError(
                f"{name}: has no tag {requested_tag or language!r}; known: {', '.join(known)}"
            )
        if entry is not None:
            tags[language] = entry
    return tags or by_name
