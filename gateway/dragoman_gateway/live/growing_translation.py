"""The translation of a growing text: which of its words are shown, and which may still change.

A sentence that has ended is translated once. The last one is translated anew with each update, and
its translation begins with the words that do not change any more. New words are shown when two
successive translations agree on them (local agreement), but the last two words of a translation
only when its sentence has ended.

Source: Liu et al. 2020, https://arxiv.org/abs/2005.11185.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dragoman.kernel.texts.sentences import split_sentences

_MOST_BYTES = 250
"""Longer sentences are cut, preferably at the end of a clause: speech may have no punctuation."""
_HELD_BACK = 2
_OWN_WORDS = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff65"
"""Characters of Chinese and Japanese, each of which counts as a word."""
_WORD = re.compile(rf"[{_OWN_WORDS}]|[^\s{_OWN_WORDS}]+")
_IS_OWN_WORD = re.compile(rf"[{_OWN_WORDS}]")
_GOES_ON = re.compile(rf"(?<![\s{_OWN_WORDS}])[^\s{_OWN_WORDS}]*[^\W{_OWN_WORDS}]")
"""The rest of a word, with a letter or digit."""
_SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
_CLOSING = "\"')]\u00bb\u00ab\u201c\u201d\u2018\u2019\u300d"
"""Quotation marks and brackets that may follow the end of a sentence."""
_CLAUSE_END = re.compile(r"[,;:]\s|[\u3001\uff0c\uff1a\uff1b]")
_SPACE = re.compile(r"\s")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the source that an update translates.

    Attributes:
        text: a sentence, or several that have ended.
        prefix: words that its translation must begin with.
        before: white space before it.
        is_last: whether more text may continue it.
        has_ended: whether it is probably a whole sentence, even if it is the last one.
    """

    text: str
    prefix: str
    before: str
    is_last: bool
    has_ended: bool


@dataclass(frozen=True, slots=True)
class GrowingTranslation:
    """A text and its translation after an update.

    Attributes:
        revise: how many words at the end of the translation may change.
        revise_sentences: whether a sentence may change when it ends.
        source: the text.
        begin: where the sentences that have ended end.
        finished: their translation.
        before: white space between `finished` and `shown`.
        shown: words of the unfinished sentence's translation.
        stable: length of the beginning of `shown` that does not change any more.
        latest: the whole translation of the unfinished sentence.
    """

    revise: int = 0
    revise_sentences: bool = False
    source: str = ""
    begin: int = 0
    finished: str = ""
    before: str = ""
    shown: str = ""
    stable: int = 0
    latest: str = ""

    @property
    def text(self) -> str:
        """The translation so far."""
        return self.finished + (self.before + self.shown if self.shown else "")

    @property
    def revisable(self) -> str:
        """The end of `text` that may change."""
        return (self.shown if self.revise_sentences else self.shown[self.stable :]).lstrip()

    def parts(self, source: str, language: str, *, finish: bool) -> list[Part]:
        """Returns what to translate for a text that begins with the one before `begin`.

        Args:
            source: the whole text.
            language: code of its language.
            finish: whether its last sentence has ended.
        """
        tail = source[self.begin :]
        spans = list(_spans(tail, language))
        parts: list[Part] = []
        at = 0
        if len(spans) > 2:  # sentences that end in this update are sent together
            spans[1:-1] = [(spans[1][0], spans[-2][1])]
        for begin, end in spans:
            is_last = not finish and end == spans[-1][1]
            has_ended = not is_last or _has_ended(tail[begin:], language)
            prefix = "" if parts else self.shown[: self.stable]
            if self.revise_sentences and has_ended:
                prefix = ""
            parts.append(Part(tail[begin:end], prefix, tail[at:begin], is_last, has_ended))
            at = end
        return parts

    def after(
        self, source: str, parts: Sequence[Part], translations: Sequence[str]
    ) -> GrowingTranslation:
        """Returns the state after an update.

        Args:
            source: the whole text.
            parts: see `parts`.
            translations: the translation of each part; it may lack the prefix.
        """
        if not parts:  # the unfinished sentence was deleted
            return replace(self, source=source, before="", shown="", stable=0, latest="")
        state = replace(self, source=source)
        for part, translation in zip(parts, translations, strict=True):
            if not state.shown and state.finished:
                joint = "" if _IS_OWN_WORD.match(state.finished[-1]) else " "
                state = replace(state, before=part.before or joint)
            text = continuation(part.prefix, " ".join(translation.split()))
            if part.is_last:
                return state._growing(part, text)
            if not part.prefix:
                text = translation.strip()  # white space between sentences stays
            state = GrowingTranslation(
                self.revise,
                self.revise_sentences,
                source,
                begin=state.begin + len(part.before) + len(part.text),
                finished=state.finished + (state.before + text if text else ""),
            )
        return state

    def _growing(self, part: Part, translation: str) -> GrowingTranslation:
        """Returns the state with a new translation of the unfinished sentence."""
        ends = [word.end() for word in _WORD.finditer(translation)]
        if part.has_ended:
            stable = len(ends) - self.revise
        else:
            stable = min(_agreed(self.latest, translation), len(ends) - _HELD_BACK)
        least = len(part.prefix)
        stable_end = max(least, ends[stable - 1] if stable > 0 else 0)
        further = [end for end in ends if end > stable_end][: self.revise]
        return replace(
            self,
            shown=translation[: further[-1] if further else stable_end],
            stable=stable_end,
            latest=translation,
        )


def continuation(prefix: str, translation: str) -> str:
    """Returns a translation that begins with a prefix and goes on like another translation.

    That is the other one if it has the prefix. A decoder may continue its last word, or the
    correction of numbers may replace a word of it. Then as many words are replaced.
    """
    if translation.startswith(prefix) and _is_boundary(translation, len(prefix)):
        return translation
    words = len(_WORD.findall(prefix))
    ends = [word.end() for word in _WORD.finditer(translation)]
    return prefix + translation[ends[words - 1] :] if words < len(ends) else prefix


def erased_words(former: str, text: str) -> int:
    """Returns how many words of a translation the next one does not have at its beginning."""
    same = common_length(former, text)
    return sum(
        word.end() > same or not _is_boundary(text, word.end()) for word in _WORD.finditer(former)
    )


def common_length(items: Sequence[str], others: Sequence[str]) -> int:
    """Returns the length of the common beginning of two texts or lists."""
    pairs = zip(items, others, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _agreed(former: str, translation: str) -> int:
    """Returns how many words two translations have in common at their beginning."""
    return common_length(_WORD.findall(former), _WORD.findall(translation))


def _is_boundary(text: str, at: int) -> bool:
    """Whether no word goes on at a position of a text; punctuation may follow."""
    return at == 0 or _GOES_ON.match(text, at) is None


def _has_ended(tail: str, language: str) -> bool:
    """Whether a sentence at the end of a text has probably ended."""
    text = tail.rstrip()
    if not text.rstrip(_CLOSING).endswith(_SENTENCE_ENDS):
        return "\n" in tail[len(text) :]
    *_, (last, _) = split_sentences(f"{text} Xyz", language, at_labels=False)
    return last == "Xyz"  # not after an abbreviation


def _spans(tail: str, language: str) -> Iterator[tuple[int, int]]:
    """Yields begin and end of the sentences of a text, without white space around them."""
    ends, at, begin = [], 0, 0
    for sentence, kept in split_sentences(tail, language, at_labels=False):
        if sentence:
            ends.append(at + len(sentence))
        at += len(sentence) + len(kept)
    # Marks such as bullets belong to the sentence after them, or to the last one.
    for end in (*ends[:-1], len(tail.rstrip())):
        for piece in _pieces(tail[begin:end]):
            begin += len(piece) - len(piece.lstrip())
            if text := piece.strip():
                yield begin, begin + len(text)
            begin += len(piece.lstrip())


def _pieces(sentence: str) -> Iterator[str]:
    """Cuts a sentence where it is too long."""
    while len(encoded := sentence.encode()) > _MOST_BYTES:
        piece = encoded[:_MOST_BYTES].decode(errors="ignore")
        ends = [mark.end() for mark in _CLAUSE_END.finditer(piece, len(piece) // 2)]
        ends = ends or [mark.end() for mark in _SPACE.finditer(piece, 1)]
        cut = ends[-1] if ends else len(piece)
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence
