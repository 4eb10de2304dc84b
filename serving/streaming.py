"""A text under translation, whose beginning can be read before its end is known.

Knows pieces of text and token ids; must not know how they travel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from dragoman.hypothesis import Hypothesis
from serving.engine.job import Progress
from serving.engine.sentence import Sentence

_UNFINISHED_CHARACTER = "\ufffd"
"""What some of a character's bytes are decoded to."""


class TextStream:
    """The certain beginning of a translation: what was read once does not change any more."""

    future: Future[Any]
    """Of a list with the whole translation; cancelling it gives the text up."""

    def __init__(
        self,
        pieces: Sequence[Sentence | str],
        decode: Callable[[Sequence[int]], str],
        changed: Callable[[], None],
    ) -> None:
        """Begin with nothing.

        Args:
            pieces: sentences, and what stands between them.
            decode: from a sentence's token ids to text.
            changed: called when there may be more to read.
        """
        self._pieces = pieces
        self._decode = decode
        self._changed = changed
        self._certain: dict[int, tuple[int, ...]] = {}
        self._sentences: Sequence[Future[Hypothesis]] = ()
        self._read = ""
        self._settled = ""
        """The text of the pieces before `_next`, which do not change any more."""
        self._next = self._sentence = 0

    def reports(self, sentences: int) -> list[Progress]:
        """Takers of the tokens of so many sentences, in their order."""
        return [functools.partial(self._report, index) for index in range(sentences)]

    def follow(self, sentences: Sequence[Future[Hypothesis]]) -> None:
        """Follow the sentences' futures, which say when the next one may be read."""
        self._sentences = sentences

    def read(self) -> str:
        """The translation from its beginning, as far as it is certain."""
        text = self._certain_text().rstrip(_UNFINISHED_CHARACTER)
        if text.startswith(self._read):
            self._read = text
        return self._read

    def _certain_text(self) -> str:
        while self._next < len(self._pieces):
            piece = self._pieces[self._next]
            if isinstance(piece, str):
                self._settled += piece
            elif self._sentence >= len(self._sentences):
                break  # not submitted yet
            else:
                future = self._sentences[self._sentence]
                if not future.done():
                    return self._settled + self._decode(self._certain.get(self._sentence, ()))
                if future.cancelled() or future.exception() is not None:
                    break
                self._settled += self._decode(future.result().ids)
                self._sentence += 1
            self._next += 1
        return self._settled

    def _report(self, sentence: int, ids: tuple[int, ...]) -> None:
        self._certain[sentence] = ids
        self._changed()
