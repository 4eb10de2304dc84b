"""Streams a translation: its stable prefix can be read before the translation is complete."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.texts.sentences import LineBreaks
from dragoman_serving.engine.batching.job import Progress
from dragoman_serving.engine.futures import Future
from dragoman_serving.translation.segments import Piece, SourceSentence

_LEAST_GROWTH = 1024
"""A new text is returned only if it has grown by a 1024th, which bounds the time of all reads."""


class TextStream:
    """The stable prefix of a translation: text that was read once does not change any more."""

    tokens: int
    """Tokens of the text that was read last."""
    pieces: list[Piece]
    """Its sentences, with placed tags as soon as they are done."""
    future: Future[Any]
    """Future of a list with the complete translation; cancelling it cancels the text."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        decode: Callable[[SourceSentence, Sequence[int], bool], str],
        changed: Callable[[], None],
        outputs: frozenset[str] = frozenset(),
    ) -> None:
        """Start with an empty prefix.

        Args:
            pieces: sentences, their line breaks, and the kept characters between them.
            decode: converts the token ids of a sentence's translation to text; its last argument
                is whether they are the whole translation.
            changed: called when there may be more to read.
            outputs: names of the requested outputs.
        """
        self.outputs = outputs
        self.pieces = list(pieces)
        self._decode = decode
        self._changed = changed
        self._certain: dict[int, tuple[int, ...]] = {}
        self._sentences: Sequence[Future[Hypothesis]] = ()
        self._read = ""
        self._settled: list[str] = []
        """The final text of the pieces before `_next`."""
        self._settled_characters = 0
        self.tokens = self._settled_tokens = 0
        self._next = self._sentence = 0

    def reports(self, sentences: int) -> list[Progress]:
        """Returns callbacks for the tokens of the sentences, in order."""
        return [functools.partial(self._report, index) for index in range(sentences)]

    def put(self, sentence: int, placed: SourceSentence) -> None:
        """Replace a sentence by a copy of which the tags are placed, before its future is done."""
        at = [i for i, piece in enumerate(self.pieces) if isinstance(piece, SourceSentence)]
        self.pieces[at[sentence]] = placed

    def follow(self, sentences: Sequence[Future[Hypothesis]]) -> None:
        """Follow the sentences' futures, to read the next sentence when one is done."""
        self._sentences = sentences

    def read(self) -> str:
        """Returns the stable prefix.

        It stays the same until it has grown by a small share. Otherwise reading a long text after
        each token would take quadratic time.
        """
        growing = self._growing()
        characters = self._settled_characters + len(growing)
        if characters < len(self._read) + len(self._read) // _LEAST_GROWTH:
            return self._read
        self._settled = ["".join(self._settled)]
        text = self._settled[0] + growing
        if text.startswith(self._read):
            self._read = text
            running = self._certain.get(self._sentence, ()) if growing else ()
            self.tokens = self._settled_tokens + len(running)
        return self._read

    def _growing(self) -> str:
        """The stable prefix of the first unfinished sentence, after settling the ones before it."""
        while self._next < len(self.pieces):
            piece, *behind = self.pieces[self._next : self._next + 2]
            if isinstance(piece, str):
                self._settle(piece)
                continue
            if self._sentence >= len(self._sentences):
                break  # not submitted yet
            assert isinstance(piece, SourceSentence)
            breaks = behind[0] if behind and isinstance(behind[0], LineBreaks) else None
            future = self._sentences[self._sentence]
            if not future.done():
                if piece.needs_check or piece.tags:
                    return ""  # another search may follow, or tags must be placed
                certain = self._decode(piece, self._certain.get(self._sentence, ()), False)
                if breaks is None:
                    return certain
                # The positions of line breaks are known only at the end.
                return "" if breaks.breaks else breaks.put_into(certain)
            if future.cancelled() or future.exception() is not None:
                break
            translation = self._decode(piece, future.result().ids, True)
            self._settled_tokens += len(future.result().ids)
            self._settle(translation if breaks is None else breaks.put_into(translation))
            self._next += breaks is not None
            self._certain.pop(self._sentence, None)
            self._sentence += 1
        return ""

    def _settle(self, text: str) -> None:
        self._settled.append(text)
        self._settled_characters += len(text)
        self._next += 1

    def _report(self, sentence: int, ids: tuple[int, ...]) -> None:
        self._certain[sentence] = ids
        self._changed()
