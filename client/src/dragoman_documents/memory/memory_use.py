"""Translations that a memory has, for texts as they are sent to a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dragoman_options.markup import Markup, PlacedCodes
from dragoman_options.table import OPTIONS, Translation

from dragoman_documents.core.languages import is_compatible, names_language
from dragoman_documents.core.suggestions import Suggestion
from dragoman_documents.memory.memory_store import Memory
from dragoman_documents.memory.pairs import Pair

_MOST_SUGGESTIONS: Final = 3
_HARMLESS_OUTPUTS: Final = frozenset(("codes", "warnings"))


def check_use(options: Mapping[str, Any], languages: tuple[str, str], name: str) -> None:
    """Check that a request can use a memory.

    Args:
        options: checked options of the request.
        languages: source and target language of the memory.
        name: name of the parameter with the memory, for messages.

    Raises:
        ValueError: its languages differ, or it has an option that a stored translation cannot
            follow.
    """
    for option in ("prefix", "num_return_sequences"):
        if option in options:
            raise ValueError(f"{name}: not with {option}")
    for option in options:
        output = OPTIONS[option].output
        if output is not None and output not in _HARMLESS_OUTPUTS:
            raise ValueError(f"{name}: not with {option}, which a stored translation does not have")
    for option, language in zip(("source_language", "target_language"), languages, strict=True):
        given = options.get(option)
        if names_language(given) and not is_compatible(str(given), language):
            direction = " to ".join(languages)
            raise ValueError(f"{name}: the memory is from {direction}, but {option} is {given!r}")


def stored_translations(
    memory: Memory, texts: Sequence[str], markups: Sequence[Markup] = ()
) -> list[Translation | None]:
    """Returns the translation of each text that the memory has; None: it has none.

    Args:
        memory: the memory.
        texts: texts in the order of their document: the ones beside a text are its context.
        markups: markup of each text; empty: none.
    """
    translations: list[Translation | None] = []
    for index, text in enumerate(texts):
        codes = markups[index].codes if markups else ()
        before = texts[index - 1] if index else None
        after = texts[index + 1] if index + 1 < len(texts) else None
        match = memory.exact(text, codes, before, after)
        translations.append(None if match is None else _translation(text, match.pair))
    return translations


def suggestions(
    memory: Memory, texts: Sequence[str], markups: Sequence[Markup], origin: str
) -> list[list[Suggestion]]:
    """Returns the translations of similar texts, best first; none if the memory has the text.

    Args:
        memory: the memory.
        texts: the texts.
        markups: markup of each text.
        origin: name of the memory.
    """
    known: dict[tuple[str, Markup], list[Suggestion]] = {}
    for text, markup in set(zip(texts, markups, strict=True)):
        has_text = memory.exact(text, markup.codes) is not None
        similar = [] if has_text else memory.similar(text, markup.codes, most=_MOST_SUGGESTIONS)
        known[text, markup] = [
            Suggestion(**vars(match.pair), similarity=match.similarity, origin=origin)
            for match in similar
        ]
    return [known[key] for key in zip(texts, markups, strict=True)]


def _translation(text: str, pair: Pair) -> Translation:
    """Returns the translation of a pair, with the white space at the ends of the text."""
    core = text.strip()
    begin = text.index(core)
    target = pair.target.strip()
    written = text[:begin] + target + text[begin + len(core) :]
    shift = begin - pair.target.index(target)
    spans = tuple(
        (max(first + shift, 0), min(max(last + shift, 0), len(written)))
        for first, last in pair.placed
    )
    return Translation(written, 0, "stop", codes=PlacedCodes(spans) if spans else None)
