"""Phrases in Riva's protocol that must be kept, or translated in a given way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_BEGIN, _END = "<dnt>", "</dnt>"


def read_phrases(written: Iterable[str]) -> dict[str, str]:
    """Parse the field `dnt_phrases` as a glossary.

    NVIDIA's client joins all phrases into one string, `phrase##translation,phrase##`, although the
    field is repeated; both forms are accepted. A phrase without a translation is kept.
    """
    phrases = {}
    for part in ",".join(written).split(","):
        phrase, _, translation = (piece.strip() for piece in part.partition("##"))
        if phrase:
            phrases[phrase] = translation or phrase
    return phrases


def take_marks(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Remove the tags `<dnt>` and `</dnt>` from texts, and make a glossary of their content.

    An unmatched tag is not removed. The time is linear in the length of a text.
    """
    phrases: dict[str, str] = {}
    return [_without_marks(text, phrases) for text in texts], phrases


def _without_marks(text: str, phrases: dict[str, str]) -> str:
    parts: list[str] = []
    at = 0
    while (begin := text.find(_BEGIN, at)) >= 0:
        inside = begin + len(_BEGIN)
        if (end := text.find(_END, inside)) < 0:
            break
        phrase = text[inside:end]
        if kept := phrase.strip():
            phrases[kept] = kept
        parts += text[at:begin], phrase
        at = end + len(_END)
    return "".join([*parts, text[at:]])
