"""Word alignments of sentence pairs, and the tokens that they link.

A line has the links of one pair in the Pharaoh format: `0-0 1-2` links the first words of both
sides, and the second word of the first side to the third word of the second. A word is a run of
letters and digits, or any other single character that is not white space.

Source: Och & Ney 2003, https://aclanthology.org/J03-1002/, for the definition of links.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product
from reprlib import repr as brief

from dragoman.kernel.errors import UsageError
from dragoman.kernel.text import Piece, tokens_of

_WORD = re.compile(r"\w+|[^\w\s]")
_LINK = re.compile(r"(\d+)-(\d+)", re.ASCII)

Link = tuple[int, int]
"""Positions on the first and the second side, from 0."""


class BadLink(UsageError):
    """A line of links does not match its pair."""


def find_words(text: str) -> list[re.Match[str]]:
    """The words of a text, as links count them."""
    return list(_WORD.finditer(text))


def read_links(line: str) -> list[Link]:
    """Read a line of links.

    Raises:
        BadLink: it contains anything else.
    """
    links = []
    for link in line.split():
        numbers = _LINK.fullmatch(link)
        if numbers is None:
            raise BadLink(f"{brief(link)} is not a link: write links as 0-0 1-2")
        links.append((int(numbers[1]), int(numbers[2])))
    return links


def format_links(links: Iterable[Link]) -> str:
    """Write links as a line."""
    return " ".join(f"{src}-{tgt}" for src, tgt in sorted(links))


def link_tokens(line: str, texts: Sequence[str], pieces: Sequence[Sequence[Piece]]) -> list[Link]:
    """Token links of a pair: each token of a word to each token of a word linked to it.

    Args:
        line: the word links.
        texts: the two sides.
        pieces: their tokens.

    Raises:
        BadLink: the line is not a line of links, or names a word that a side does not have.
    """
    links = read_links(line)
    words = [find_words(text) for text in texts]
    for link in links:
        for text, of_text, word in zip(texts, words, link, strict=True):
            if word >= len(of_text):
                raise BadLink(
                    f"{link[0]}-{link[1]} links word {word}, counted from 0, of {brief(text)}, "
                    f"which has {len(of_text)} words: make the links again, with dragoman "
                    "link-words"
                )
    tokens = [
        [list(tokens_of(word, of_text)) for word in side]
        for side, of_text in zip(words, pieces, strict=True)
    ]
    return sorted({link for src, tgt in links for link in product(tokens[0][src], tokens[1][tgt])})
