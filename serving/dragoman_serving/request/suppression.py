"""Words that a translation must not contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from dragoman_serving.engine.constraints import Int32s, Int64s, SuppressedWords

_SPACE = "▁"


def suppressed_words(words: Iterable[str], pieces: tuple[str, ...]) -> SuppressedWords:
    """Returns the tokens that would complete words, and the text that must precede them.

    A token that would complete a word is forbidden, whichever tokens spell the rest of the word. A
    longer word that begins with a suppressed one is forbidden too if a subword token ends with the
    suppressed word; other subword tokens can still spell it. Punctuation is forbidden inside words
    too: what begins with another character than a letter or digit.

    Args:
        words: in the translation's spelling, case-sensitive.
        pieces: the vocabulary [V].
    """
    always: list[int] = []
    completing: dict[str, list[int]] = {}
    endings = _by_ending(pieces)
    for word in (word.replace(" ", _SPACE) for word in words):
        if not word[0].isalnum():
            always += [token for token, piece in enumerate(pieces) if word in piece]
        for token in endings.get(word, ()):
            before = pieces[token][: -len(word)]
            if before and not before[-1].isalnum():
                always.append(token)
        for length in range(len(word)):
            of_word = [i for i in endings.get(word[length:], ()) if pieces[i] == word[length:]]
            if of_word:
                completing.setdefault(word[:length], []).extend(of_word)
    text, text_begins = _vocabulary_text(pieces)
    return SuppressedWords(
        text=text,
        text_begins=text_begins,
        always=np.array(always, np.int32),
        beginning_text=_characters("".join(completing)),
        beginning_begins=_begins(list(completing)),
        ids=np.array([token for tokens in completing.values() for token in tokens], np.int32),
        ids_begins=_begins(list(completing.values())),
    )


@lru_cache(maxsize=4)
def _by_ending(pieces: tuple[str, ...]) -> Mapping[str, Sequence[int]]:
    """Token ids by each suffix of their text."""
    by_suffix: dict[str, list[int]] = {}
    for token, piece in enumerate(pieces):
        for begin in range(len(piece)):
            by_suffix.setdefault(piece[begin:], []).append(token)
    return by_suffix


@lru_cache(maxsize=4)
def _vocabulary_text(pieces: tuple[str, ...]) -> tuple[Int32s, Int64s]:
    return _characters("".join(pieces)), _begins(pieces)


def _characters(text: str) -> Int32s:
    return np.array([2 * ord(character) + character.isalnum() for character in text], np.int32)


def _begins(parts: Sequence[Sequence[object]]) -> Int64s:
    """Offsets of concatenated parts, and the end of the last one."""
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)
