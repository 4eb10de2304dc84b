"""Searches again for translations that lack a literal, a number or a given term.

The first search is free. What its translation lacks is found by comparing it with the sentence:

- A literal has a stand-in. Another search reads the sentence with other stand-ins; if that fails
  too, the parts between the literals are translated separately.
- A number belongs where the attention of the translation lies on it. Another search keeps the
  translation up to there and continues with the number.
- A term replaces the words whose attention lies on its source. The words around them stay as they
  are: searches with a prefix and the term often lost the rest of the sentence.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.kernel.cutting import Span
from dragoman.kernel.errors import DragomanError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import AlignmentHeads
from dragoman.kernel.text import Piece, Tokenizer
from dragoman_serving.engine.futures import result_or, when_all_done
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.request.glossary import Term
from dragoman_serving.request.literals import Literal
from dragoman_serving.request.numbers import Number, difference, localized, numbers_of, regrouped
from dragoman_serving.request.plan import SearchPlan
from dragoman_serving.request.reading import Reading, StandIns
from dragoman_serving.scoring.pair import Pair, Scored
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.translation.segments import SourceSentence

NUMBERS, PLACEHOLDERS, SIGNS = "numbers", "placeholders", "signs"
"""Names of losses in answers."""
_MOST_READINGS = 2
"""Further searches with other stand-ins."""
_MOST_PARTS = 256
"""Different parts between the literals of a sentence that are translated separately."""
_MOST_ROUNDS = 4
"""Further searches for numbers."""
_WORD = re.compile(r"\w+(?:[-’']\w+)*")  # noqa: RUF001
_NUMBER_GOES_ON = re.compile(r"[.,:/]?\d")
_LINKED = 0.5
"""A word belongs to a term if this share of the strongest attention lies on it."""
_ADDITIONAL = 0.3
"""The same share for a number that only the translation has."""
_BEFORE_NUMBERS = frozenset('([„“"$€£/')
"""Characters after which a number begins."""

Submit = Callable[[Sequence[Sentence]], list[Future[Hypothesis]]]
"""Submits sentences to the engine."""


def losses(sentence: SourceSentence, written: str, text: str) -> Iterator[str]:
    """Yields what a translation lacks.

    Args:
        sentence: the sentence.
        written: its translation, with stand-ins.
        text: its translation, with literals.
    """
    if any(_wrong_numbers(sentence, written)):
        yield NUMBERS
    if "\ufffd" in text:
        yield SIGNS
    if _surplus(sentence.reading, written):
        yield PLACEHOLDERS
    line = sentence.original
    wanted = Counter(
        (one.target or line[one.begin : one.end], one.is_sign) for one in sentence.literals
    )
    for (literal, is_sign), count in wanted.items():
        if text.count(literal) < count:
            yield SIGNS if is_sign else PLACEHOLDERS


def _surplus(reading: Reading, written: str) -> bool:
    """Whether a translation has a stand-in too often."""
    return any(reading.count(one, written) > count for one, count in reading.counts.items())


def _lost_codes(sentence: SourceSentence, written: str) -> int:
    """How many literals a translation lacks of those that the model reads as they are."""
    line, written = sentence.original, written.casefold()
    wanted = Counter(
        line[one.begin : one.end].casefold() for one in sentence.literals if one.is_usual
    )
    return sum(max(0, count - written.count(one)) for one, count in wanted.items())


def _wrong_numbers(sentence: SourceSentence, written: str) -> tuple[list[Number], list[Number]]:
    """Numbers of a sentence that its translation lacks, and that it has too often."""
    if not sentence.has_numbers:
        return [], []
    reading = sentence.reading
    source = reading.masked(reading.text)
    missing, additional = difference(source, reading.masked(written), sentence.languages)
    too_often = {value for one in additional for value in one.values}
    return missing, [one for one in numbers_of(source) if one.values & too_often]


def _missing_terms(sentence: SourceSentence, written: str) -> list[Term]:
    """Terms of a sentence that its translation lacks: one for each occurrence, the last ones."""
    written = sentence.reading.masked(written)
    remaining = Counter(term.target for term in sentence.terms)
    for target in remaining:
        remaining[target] -= len(_occurrences(target, written))
    missing = []
    for term in reversed(sentence.terms):
        if remaining[term.target] > 0:
            remaining[term.target] -= 1
            missing.append(term)
    return missing


def _occurrences(term: str, written: str) -> list[Span]:
    """Where a translation has a term as whole words."""
    pattern = re.compile(rf"(?<!\w){re.escape(term)}(?!\w)", re.IGNORECASE)
    return [one.span() for one in pattern.finditer(written)]


@dataclass(frozen=True)
class _Aligned:
    """A translation and its alignment.

    Attributes:
        text: the translation, with stand-ins.
        pieces: its tokens.
        weights: [T, S], attention of each token to each token of the sentence, or to parts of it.
        source: the tokens or parts.
    """

    text: str
    pieces: Sequence[Piece]
    weights: npt.NDArray[np.float32]
    source: Sequence[Piece]

    def on(self, begin: int, end: int) -> npt.NDArray[np.float32]:
        """Returns each token's attention [T] to a span of the sentence."""
        columns = [
            index
            for index, one in enumerate(self.source)
            if one.begin < end and max(one.end, one.begin + 1) > begin
        ]
        found: npt.NDArray[np.float32] = self.weights[:, columns].sum(axis=1)
        return found

    def within(self, begin: int, end: int) -> list[int]:
        """Returns the indices of the tokens in a span of the translation."""
        return [i for i, one in enumerate(self.pieces) if one.begin < end and one.end > begin]


class _Change(NamedTuple):
    """A span of a translation, and the number or the term that is to be there."""

    begin: int
    end: int
    text: str


class Corrections:
    """Corrects the translations of a request's sentences."""

    def __init__(
        self,
        plan: SearchPlan,
        tokenizer: Tokenizer,
        submit: Submit,
        scorer: Scorer,
        alignment: AlignmentHeads | None,
        stand_ins: StandIns,
    ) -> None:
        """Store the parts that later calls need; see `FollowUp`."""
        self._plan, self._tokenizer, self._submit = plan, tokenizer, submit
        self._stand_ins = stand_ins
        self._scorer, self._aligns = scorer, alignment is not None

    def follow(self, sentence: SourceSentence, searching: Future[Hypothesis]) -> Future[Hypothesis]:
        """Returns a future of the corrected translation of a sentence.

        If a further search fails, because the engine is overloaded or the deadline has passed, the
        translation stays as it is.

        Args:
            sentence: the sentence.
            searching: its translation.
        """
        if not sentence.needs_check:
            return searching
        return when_all_done([searching], lambda found: self._check(sentence, found[0]))

    def _check(
        self, sentence: SourceSentence, found: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        written = self._tokenizer.target.decode(found.ids)
        if not sentence.reading.is_in(written) or _lost_codes(sentence, written):
            return self._reread(sentence, found, sentence.literals)
        return self._mend(sentence, found, _MOST_ROUNDS)

    # Numbers

    def _mend(
        self, sentence: SourceSentence, found: Hypothesis, rounds: int
    ) -> Hypothesis | Future[Hypothesis]:
        """Searches again for the first number that a translation lacks."""
        written = self._tokenizer.target.decode(found.ids)
        missing, repeated = _wrong_numbers(sentence, written)
        if not missing and not repeated:
            return self._finished(sentence, found)
        if not missing or not rounds:
            return self._read_numbers(sentence, found, [*missing, *repeated])

        def force(aligned: _Aligned) -> Hypothesis | Future[Hypothesis]:
            reading = sentence.reading
            additional = difference(
                reading.masked(reading.text), reading.masked(written), sentence.languages
            ).additional
            changes = [_of_number(aligned, one, additional, sentence.languages) for one in missing]
            first = min(changes)
            begin = max(first.begin, self._end_of_prefix(sentence))
            again = self._forced(sentence, written, first._replace(begin=begin))
            if (searching := self._searched(again, found)) is None:
                return self._read_numbers(sentence, found, missing)
            return when_all_done([searching], lambda searched: go_on(searched[0]))

        def go_on(better: Hypothesis) -> Hypothesis | Future[Hypothesis]:
            again = self._tokenizer.target.decode(better.ids)
            is_better = len(_wrong_numbers(sentence, again)[0]) < len(missing)
            if better.complete and is_better and sentence.reading.is_in(again):
                return self._mend(sentence, better, rounds - 1)
            return self._read_numbers(sentence, found, missing)

        return self._aligned(sentence, found, missing, force)

    def _aligned(
        self,
        sentence: SourceSentence,
        found: Hypothesis,
        parts: Sequence[Number | Term],
        use: Callable[[_Aligned], Hypothesis | Future[Hypothesis]],
    ) -> Hypothesis | Future[Hypothesis]:
        """Aligns a translation with parts of its sentence; it stays as it is if that fails.

        Without alignment heads, the weight of a token is the squared log-probability that it loses
        if the part is removed (Li et al. 2019, https://aclanthology.org/P19-1124).
        """
        tokenizer, text = self._tokenizer, sentence.text
        source = tokenizer.pieces(text)
        pairs = [_pair(sentence, found, attention=self._aligns)]
        if not self._aligns:
            source = [Piece("", 0, one.begin, one.end) for one in parts]
            for one in parts:
                without = text[: one.begin] + text[one.end :]
                ids = tuple(tokenizer.encode_source(without, sentence.languages[1]))
                pairs.append(_pair(replace(sentence, src_ids=ids), found))
        try:
            scoring = self._scorer.submit(pairs)
        except DragomanError:
            return found

        def join(done: list[Scored | None]) -> Hypothesis | Future[Hypothesis]:
            scored = [one for one in done if one is not None]
            if len(scored) < len(pairs):
                return found
            target, attention = tokenizer.target, scored[0].attention
            if attention is not None:
                weights = attention[:, tokenizer.tags : -1]
            else:
                whole, *parted = (np.array(one.log_probs, np.float32) for one in scored)
                lost: npt.NDArray[np.float32] = (whole - parted).T[: len(found.ids)]
                # Neighbours of the words lose more than they have of the attention.
                weights = np.square(lost.clip(min=0.0))
            pieces = target.decoded_pieces(found.ids)
            return use(_Aligned(target.decode(found.ids), pieces, weights, source))

        return when_all_done([result_or(one, None) for one in scoring], join)

    def _forced(self, sentence: SourceSentence, written: str, change: _Change) -> Sentence | None:
        """The search for a translation that has a number; None if it would be too long."""
        # Together, since a number may continue a word.
        prefix = self._tokenizer.target.encode(written[: change.begin] + change.text)
        if len(prefix) + 1 >= sentence.max_tokens:
            return None
        digits = _forbidding_digits(self._tokenizer.target.vocabulary)
        return replace(
            sentence, options=self._plan.with_beginning(sentence.options, tuple(prefix), digits)
        )

    def _end_of_prefix(self, sentence: SourceSentence) -> int:
        """The length of a translation's prefix, which the request gives."""
        constraints = sentence.options.constraints
        return len(self._tokenizer.target.decode(constraints.prefix)) if constraints else 0

    def _read_numbers(
        self, sentence: SourceSentence, found: Hypothesis, missing: Sequence[Number]
    ) -> Hypothesis | Future[Hypothesis]:
        """Reads numbers as literals."""
        place = sentence.reading.index
        literals = list(sentence.literals)
        for one in dict.fromkeys(missing):
            begin, end = place(one.begin), place(one.end)
            if not any(other.begin < end and begin < other.end for other in sentence.literals):
                target = localized(one.text, *sentence.languages)
                literals.append(Literal(begin, end, target=target))
        literals.sort(key=lambda one: one.span)
        return self._reread(sentence, found, literals, numbers=True)

    # Terms

    def _finished(
        self, sentence: SourceSentence, found: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Writes large numbers as the language does, and the terms that a translation lacks."""
        if found.others:
            every = [replace(found, others=()), *found.others]
            return when_all_done(
                [self._future(partial(self._finished, sentence, one)) for one in every],
                lambda done: replace(done[0], others=tuple(done[1:])),
            )
        if sentence.has_numbers:
            written, reading = self._tokenizer.target.decode(found.ids), sentence.reading
            changes = [
                _Change(*one)
                for one in regrouped(
                    reading.masked(reading.text), reading.masked(written), *sentence.languages
                )
            ]
            if changes:
                found = self._rewritten(found, written, changes)
        return self._with_terms(sentence, found)

    def _with_terms(
        self, sentence: SourceSentence, found: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Puts the terms that a translation lacks in place of its words for them."""
        target = self._tokenizer.target
        missing = _missing_terms(sentence, target.decode(found.ids))
        if not missing:
            return found
        lacking = {one.target for one in missing}
        terms = [one for one in sentence.terms if one.target in lacking]
        begin = self._end_of_prefix(sentence)
        return self._aligned(
            sentence,
            found,
            terms,
            lambda aligned: self._rewritten(
                found,
                aligned.text,
                _of_terms(aligned, sentence.reading, terms, begin, target.can_write),
            ),
        )

    @staticmethod
    def _future(begin: Callable[[], Hypothesis | Future[Hypothesis]]) -> Future[Hypothesis]:
        return when_all_done([], lambda _: begin())

    def _rewritten(self, found: Hypothesis, written: str, changes: Sequence[_Change]) -> Hypothesis:
        parts: list[str] = []
        at = 0
        for begin, end, text in changes:
            parts += (written[at:begin], text)
            at = end
        return self._with_text(found, "".join((*parts, written[at:])))

    def _with_text(self, found: Hypothesis, written: str) -> Hypothesis:
        """A hypothesis with another text, of the same score."""
        return replace(
            found,
            ids=tuple(self._tokenizer.target.encode(written)),
            rescored=None if found.log_prob is None else found.score(self._plan.alpha),
            token_log_probs=None,
            attention=None,
        )

    # Literals

    def _reread(
        self,
        sentence: SourceSentence,
        found: Hypothesis,
        literals: Sequence[Literal],
        attempt: int = 1,
        numbers: bool = False,
    ) -> Hypothesis | Future[Hypothesis]:
        """Searches for a sentence that is read with other stand-ins, also for numbers."""
        own = sentence.reading
        beside = self._plan.beside(sentence.index, sentence.terms)
        other = Reading.of(own.line, literals, self._stand_ins, attempt, beside)

        def give_up() -> Hypothesis | Future[Hypothesis]:
            if attempt < _MOST_READINGS:
                return self._reread(sentence, found, literals, attempt + 1, numbers)
            is_prefixed = bool(self._end_of_prefix(sentence))
            if is_prefixed or own.is_in(self._tokenizer.target.decode(found.ids)):
                return self._finished(sentence, found)
            return self._split(sentence, found)

        def check(searched: list[Hypothesis]) -> Hypothesis | Future[Hypothesis]:
            (one,) = searched
            written = self._tokenizer.target.decode(one.ids)
            if one is not found and other.is_in(written):
                better = self._as_read(own, other, one)
                if self._lacks(sentence, better) < self._lacks(sentence, found):
                    if numbers:
                        return self._finished(sentence, better)
                    return self._mend(sentence, better, _MOST_ROUNDS)
            return give_up()

        again = self._searched(self._read_as(sentence, other), found)
        return give_up() if again is None else when_all_done([again], check)

    def _read_as(self, sentence: SourceSentence, other: Reading) -> Sentence | None:
        """A sentence with another reading; None if it is the same or too long."""
        src_ids = tuple(self._tokenizer.encode_source(other.text, sentence.languages[1]))
        is_long = len(src_ids) > self._plan.lengths.limits.max_source_tokens
        if other.text == sentence.reading.text or is_long:
            return None
        try:
            most, search = self._plan.of_sentence(sentence.index, other, src_ids)
        except DragomanError:  # the prefix is too long now
            return None
        return replace(sentence, reading=other, src_ids=src_ids, max_tokens=most, options=search)

    def _lacks(self, sentence: SourceSentence, found: Hypothesis) -> int:
        """How much of a sentence a translation lacks."""
        written = self._tokenizer.target.decode(found.ids)
        reading = sentence.reading
        lost = sum(
            max(0, count - reading.count(one, written)) for one, count in reading.counts.items()
        )
        lost += _lost_codes(sentence, written)
        return lost + sum(map(len, _wrong_numbers(sentence, written)))

    def _as_read(self, own: Reading, other: Reading, found: Hypothesis) -> Hypothesis:
        """A translation of another reading as one of the sentence's own."""
        written = own.replaced(self._tokenizer.target.decode(found.ids), other)
        others = tuple(self._as_read(own, other, one) for one in found.others)
        return replace(self._with_text(found, written), others=others)

    def _split(
        self, sentence: SourceSentence, found: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Translates the parts between the stand-ins separately."""
        reading = sentence.reading
        ends = [0, *(end for _, end in reading.spans)]
        begins = [*(begin for begin, _ in reading.spans), len(reading.text)]
        between = [reading.text[begin:end] for begin, end in zip(ends, begins, strict=True)]
        tag, end = sentence.src_ids[: self._tokenizer.tags], sentence.src_ids[-1]
        texts = list(dict.fromkeys(text for text in between if any(map(str.isalpha, text))))
        if len(texts) > _MOST_PARTS:
            return self._finished(sentence, found)
        parts: list[Sentence] = []
        for text in texts:
            src_ids = (*tag, *self._tokenizer.encode(text), end)
            most, search = self._plan.of_part(src_ids)
            most = min(most, sentence.max_tokens)
            parts.append(replace(sentence, src_ids=src_ids, max_tokens=most, options=search))
        try:
            searching = self._submit(parts)
        except DragomanError:
            return found

        def join(translated: list[Hypothesis]) -> Hypothesis | Future[Hypothesis]:
            lengths = self._plan.lengths
            most = (lengths.max_tokens or lengths.limits.max_target_tokens) - 1
            of_text = {text: one.ids for text, one in zip(texts, translated, strict=True)}
            ids = self._joined(reading, between, of_text)
            is_whole = all(one.complete for one in translated) and len(ids) <= most
            if len(ids) > most:  # the literals stay, the parts become shorter
                others = len(self._joined(reading, between, dict.fromkeys(texts, ())))
                share = max(0, most - others) // len(between)
                of_text = {text: one[:share] for text, one in of_text.items()}
                ids = self._joined(reading, between, of_text)
            log_prob = sum(one.log_prob or 0.0 for one in translated)
            uncut = Hypothesis(tuple(ids), log_prob, complete=True)
            score = uncut.score(self._plan.alpha)
            one = replace(uncut, ids=uncut.ids[:most], complete=is_whole, rescored=score)
            return self._finished(sentence, replace(one, others=(one,) * len(found.others)))

        return when_all_done(searching, join)

    def _joined(
        self, reading: Reading, between: Sequence[str], translated: Mapping[str, Sequence[int]]
    ) -> list[int]:
        """The ids of a translation, from those of the parts between the stand-ins with words."""
        target = self._tokenizer.target
        written = [
            self._spaced(text, target.decode(translated[text])) if text in translated else text
            for text in between
        ]
        pairs = itertools.zip_longest(written, reading.stand_ins, fillvalue="")
        return target.encode("".join(map("".join, pairs)))

    @staticmethod
    def _spaced(source: str, written: str) -> str:
        """A part's translation with the white space around the part."""
        before, behind = len(source) - len(source.lstrip()), len(source.rstrip())
        return source[:before] + written.strip() + source[behind:]

    def _searched(self, again: Sentence | None, found: Hypothesis) -> Future[Hypothesis] | None:
        """Submits a further search, whose failure gives the former translation."""
        if again is not None:
            with contextlib.suppress(DragomanError):
                return result_or(self._submit([again])[0], found)
        return None


@lru_cache(maxsize=4)
def _forbidding_digits(vocabulary: tuple[str, ...]) -> npt.NDArray[np.float32]:
    """[V], -inf for tokens that continue a number."""
    forbidden = [_NUMBER_GOES_ON.match(piece) is not None for piece in vocabulary]
    return np.where(forbidden, -np.inf, 0.0).astype(np.float32)


def _pair(sentence: SourceSentence, found: Hypothesis, attention: bool = False) -> Pair:
    return Pair(
        *(sentence.src_ids, found.ids, found.complete, attention),
        *(sentence.priority, sentence.deadline_s),
        trace=sentence.trace,
    )


def _of_number(
    aligned: _Aligned, number: Number, additional: Sequence[Number], languages: tuple[str, str]
) -> _Change:
    """Where to write a number: in place of the additional one that attends to it, or of a word."""
    weights = aligned.on(number.begin, number.end)
    strongest = float(weights.max(initial=0.0))
    place = max(0, aligned.pieces[int(weights.argmax())].end - 1) if weights.size else 0
    linked = [
        (float(weights[aligned.within(one.begin, one.end)].max(initial=0.0)), one.begin)
        for one in additional
    ]
    if linked and max(linked)[0] >= _ADDITIONAL * strongest:
        place = max(linked)[1]
    while (
        place > 0
        and not aligned.text[place - 1].isspace()
        and aligned.text[place - 1] not in _BEFORE_NUMBERS
    ):
        place -= 1
    return _Change(place, place, localized(number.text, *languages))


def _of_terms(
    aligned: _Aligned,
    reading: Reading,
    terms: Sequence[Term],
    begin: int,
    can_write: Callable[[str], bool],
) -> list[_Change]:
    """The changes for terms, after a prefix; those that replace the same words are joined."""
    words = list(_WORD.finditer(reading.masked(aligned.text), begin))
    changes: list[_Change] = []
    for term in terms:
        change = _of_term(aligned, term, words, can_write)
        if _occurrences(term.target, aligned.text[change.begin : change.end]):
            continue  # it is there already
        changes.append(change)
    joined: list[_Change] = []
    for change in sorted(changes, key=lambda one: one[:2]):
        if joined and change.begin < joined[-1].end:
            last = joined.pop()
            change = _Change(last.begin, max(last.end, change.end), f"{last.text} {change.text}")
        joined.append(change)
    return joined


def _of_term(
    aligned: _Aligned,
    term: Term,
    words: Sequence[re.Match[str]],
    can_write: Callable[[str], bool],
) -> _Change:
    weights = aligned.on(term.begin, term.end)
    attention = [float(weights[aligned.within(*one.span())].max(initial=0.0)) for one in words]
    nearest = int(np.argmax(attention)) if words else 0
    if not _has_digits(term.source):  # a number is no word for it
        attention = [
            0.0 if _has_digits(word[0]) else one for word, one in zip(words, attention, strict=True)
        ]
    if not any(attention):
        at = words[nearest].end() if words else len(aligned.text)
        gap = " " if aligned.text[:at].strip() else ""
        return _Change(at, at, gap + term.target)
    first = last = int(np.argmax(attention))
    least = _LINKED * attention[first]
    for _ in range(len(_WORD.findall(term.source))):
        if first > 0 and attention[first - 1] >= least:
            first -= 1
        elif last + 1 < len(words) and attention[last + 1] >= least:
            last += 1
    begin, end, text = words[first].start(), words[last].end(), term.target
    if first == 0 and aligned.text[begin].isupper() and can_write(text.capitalize()):
        text = text[:1].upper() + text[1:]
    return _Change(begin, end, text)


def _has_digits(text: str) -> bool:
    return any(map(str.isdigit, text))
