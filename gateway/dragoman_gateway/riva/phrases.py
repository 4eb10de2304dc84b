"""Phrases that Riva's clients want kept, or translated in a given way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MARKED = re.compile(r"<dnt>(.*?)</dnt>", re.DOTALL)


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
    """Texts without the marks `<dnt>` and `</dnt>`, and a glossary that keeps what is in them."""
    found = {}
    for text in texts:
        for phrase in _MARKED.findall(text):
            if kept := phrase.strip():
                found[kept] = kept
    return [_MARKED.sub(r"\1", text) for text in texts], found
