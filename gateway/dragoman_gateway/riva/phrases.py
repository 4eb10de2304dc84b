"""Phrases that Riva's clients want kept, or translated in a given way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_BEGIN, _END = "<dnt>", "</dnt>"


def read_phrases(written: Iterable[str]) -> dict[str, str]:
    """The field `dnt_phrases` as a glossary.

    NVIDIA's client joins all phrases into one string, `phrase##translation,phrase##`, though the
    field is repeated; both ways are read. A phrase without a translation stays as it is.
    """
    found = {}
    for part in ",".join(written).split(","):
        phrase, _, translation = (piece.strip() for piece in part.partition("##"))
        if phrase:
            found[phrase] = translation or phrase
    return found


def take_marks(texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Texts without the marks `<dnt>` and `</dnt>`, and a glossary that keeps what is in them.

    A mark that has no other one stays. It takes one pass over a text, whatever is in it.
    """
    found: dict[str, str] = {}
    return [_without_marks(text, found) for text in texts], found


def _without_marks(text: str, found: dict[str, str]) -> str:
    parts: list[str] = []
    at = 0
    while (begin := text.find(_BEGIN, at)) >= 0:
        inside = begin + len(_BEGIN)
        if (end := text.find(_END, inside)) < 0:
            break
        phrase = text[inside:end]
        if kept := phrase.strip():
            found[kept] = kept
        parts += text[at:begin], phrase
        at = end + len(_END)
    return "".join([*parts, text[at:]])
