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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import DragomanError
from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import AlignmentHeads
from dragoman.kernel.text import Piece, Tokenizer
from dragoman_serving.engine.futures import Future, result_or, when_all_done
from dragoman_serving.engine.sentence import Sentence
from dragoman_serving.fidelity.brackets import lost_brackets
from dragoman_serving.fidelity.clock_times import half_days
from dragoman_serving.fidelity.literals import Literal, outside
from dragoman_serving.fidelity.measures import recased
from dragoman_serving.fidelity.numbers import (
    Number,
    localized,
    lost_signs,
    numbers_of,
    respelled,
)
from dragoman_serving.fidelity.ordinals import ordinals
from dragoman_serving.fidelity.phrases import Phrase, points
from dragoman_serving.fidelity.reading import Reading, StandIns
from dragoman_serving.fidelity.restored import Edit, edited
from dragoman_serving.request.glossary import Term
from dragoman_serving.request.plan import SearchPlan, with_beginning
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.scoring.token_pair import Scored, TokenPair
from dragoman_serving.translation.edits import (
    Aligned,
    edits_of_literals,
    edits_of_phrases,
    edits_of_terms,
    gap_after_prefix,
)
from dragoman_serving.translation.losses import (
    lost_identifiers,
    missing_phrases,
    missing_terms,
    wrong_numbers,
)
from dragoman_serving.translation.number_edits import (
    NumberEdits,
    edit_of_number,
    without_overlaps,
)
from dragoman_serving.translation.segments import SourceSentence

_MOST_READINGS = 2
"""Further searches with other stand-ins."""
_MOST_PARTS = 256
"""Different parts between the literals of a sentence that are translated separately."""
_MOST_ROUNDS = 4
"""Further searches for numbers."""
_NAME = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_NUMBER_GOES_ON = re.compile(r"[.,:/]?\d")

Submit = Callable[[Sequence[Sentence]], list[Future[Hypothesis]]]
"""Submits sentences to the engine."""


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
        translation stays as it is, except that it has each literal.

        Args:
            sentence: the sentence.
            searching: its translation.
        """
        if not sentence.needs_check:
            return searching
        if self._plan.corrects:
            searching = when_all_done(
                [searching], lambda searched: self._check(sentence, searched[0])
            )
        if not sentence.literals:
            return searching
        return when_all_done([searching], lambda searched: self._complete(sentence, searched[0]))

    def spell(self, sentence: SourceSentence, hypothesis: Hypothesis) -> Future[Hypothesis]:
        """Returns a future of a translation without bytes that form no character.

        The words to which such bytes attend are usually names. They are read as literals.

        Args:
            sentence: the sentence.
            hypothesis: a translation with such bytes.
        """
        reading, target = sentence.reading, self._tokenizer.target
        spans = (match.span() for match in _NAME.finditer(reading.masked(sentence.text)))
        words = [Literal(reading.index(begin), reading.index(end)) for begin, end in spans]

        def reread(aligned: Aligned) -> Hypothesis | Future[Hypothesis]:
            attention = [aligned.on(*word.span) for word in words]
            broken = [row for row, piece in enumerate(aligned.pieces) if piece.id in target.bytes]
            names = {int(np.argmax([of_word[row] for of_word in attention])) for row in broken}
            literals = sorted([*sentence.literals, *(words[index] for index in names)])
            return self._reread(sentence, hypothesis, literals, numbers=True)

        return self._future(
            lambda: self._aligned(sentence, hypothesis, words, reread) if words else hypothesis
        )

    def _check(
        self, sentence: SourceSentence, hypothesis: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        written = self._tokenizer.target.decode(hypothesis.ids)
        lost = lost_identifiers(sentence, written)
        if lost or not sentence.reading.is_in(written):
            usual = [literal for literal in sentence.literals if literal.is_usual]
            others = [literal for literal in sentence.literals if literal not in usual]
            return self._reread(
                sentence, hypothesis, sorted([*others, *(lost or usual)], key=attrgetter("span"))
            )
        return self._fix_numbers(sentence, hypothesis, _MOST_ROUNDS)

    # Numbers

    def _fix_numbers(
        self, sentence: SourceSentence, hypothesis: Hypothesis, rounds: int
    ) -> Hypothesis | Future[Hypothesis]:
        """Searches again for the first number that a translation lacks."""
        written = self._tokenizer.target.decode(hypothesis.ids)
        missing, repeated, additional = wrong_numbers(sentence, written)
        if not missing and not additional:
            return self._finished(sentence, hypothesis)
        if better := self._simply_edited(sentence, hypothesis, written):
            return self._finished(sentence, better)
        if not missing or not rounds:
            masked = sentence.reading.masked(sentence.text)
            wrong = [*missing, *repeated] or numbers_of(masked, *sentence.languages)
            return self._read_numbers(sentence, hypothesis, wrong)

        def force(aligned: Aligned) -> Hypothesis | Future[Hypothesis]:
            first = min(
                edit_of_number(aligned, number, additional, sentence.languages)
                for number in missing
            )
            end = self._end_of_prefix(sentence)
            begin = max(first.begin, end)
            text = gap_after_prefix(written, end, begin) + first.text
            again = self._forced(sentence, written, first._replace(begin=begin, text=text))
            if (searching := self._searched(again, hypothesis)) is None:
                return self._read_numbers(sentence, hypothesis, missing)
            return when_all_done([searching], lambda searched: go_on(searched[0]))

        def go_on(better: Hypothesis) -> Hypothesis | Future[Hypothesis]:
            again = self._tokenizer.target.decode(better.ids)
            is_better = len(wrong_numbers(sentence, again).missing) < len(missing)
            is_whole = sentence.reading.is_in(again) and not lost_identifiers(sentence, again)
            if better.complete and is_better and is_whole:
                return self._fix_numbers(sentence, better, rounds - 1)
            return self._read_numbers(sentence, hypothesis, missing)

        return self._aligned(sentence, hypothesis, missing, force)

    def _simply_edited(
        self, sentence: SourceSentence, hypothesis: Hypothesis, written: str
    ) -> Hypothesis | None:
        """A translation of which a few digits were wrong or numbers repeated, corrected."""
        edits = self._number_edits(sentence, written).simple()
        if not edits or edits[0].begin < self._end_of_prefix(sentence):
            return None
        return self._with_fewer_wrong(sentence, hypothesis, edited(written, edits), most=0)

    @staticmethod
    def _number_edits(sentence: SourceSentence, written: str) -> NumberEdits:
        wrong = wrong_numbers(sentence, written)
        masked = sentence.reading.masked(written)
        return NumberEdits(written, masked, wrong, sentence.languages)

    def _with_fewer_wrong(
        self, sentence: SourceSentence, hypothesis: Hypothesis, text: str, most: int
    ) -> Hypothesis | None:
        """A hypothesis with another text, if at most this many of its numbers are wrong."""
        missing, _, additional = wrong_numbers(sentence, text)
        return self.with_text(hypothesis, text) if len(missing) + len(additional) <= most else None

    def _aligned(
        self,
        sentence: SourceSentence,
        hypothesis: Hypothesis,
        parts: Sequence[Number | Term | Literal | Phrase],
        use: Callable[[Aligned], Hypothesis | Future[Hypothesis]],
        is_needed: bool = False,
    ) -> Hypothesis | Future[Hypothesis]:
        """Aligns a translation with parts of its sentence.

        If that fails, it stays as it is, or the alignment is by positions if one is needed.

        Without alignment heads, the weight of a token is the squared log-probability that it loses
        if the part is removed (Li et al. 2019, https://aclanthology.org/P19-1124).
        """
        tokenizer, text = self._tokenizer, sentence.text
        source = tokenizer.pieces(text)
        pairs = [_pair(sentence, hypothesis, attention=self._aligns)]
        if not self._aligns:
            source = [Piece("", 0, part.begin, part.end) for part in parts]
            for part in parts:
                without = text[: part.begin] + text[part.end :]
                ids = tuple(tokenizer.encode_source(without, sentence.languages[1]))
                pairs.append(_pair(replace(sentence, src_ids=ids), hypothesis))

        def fail() -> Hypothesis | Future[Hypothesis]:
            if not is_needed:
                return hypothesis
            target = tokenizer.target
            pieces = target.decoded_pieces(hypothesis.ids)
            return use(Aligned.by_position(target.decode(hypothesis.ids), pieces, source))

        try:
            scoring = self._scorer.submit(pairs)
        except DragomanError:
            return fail()

        def join(done: list[Scored | None]) -> Hypothesis | Future[Hypothesis]:
            scored = [scores for scores in done if scores is not None]
            if len(scored) < len(pairs):
                return fail()
            target, attention = tokenizer.target, scored[0].attention
            if attention is not None:
                weights = attention[:, tokenizer.tags : -1]
            else:
                whole, *parted = (np.array(scores.log_probs, np.float32) for scores in scored)
                lost: npt.NDArray[np.float32] = (whole - parted).T[: len(hypothesis.ids)]
                # Neighbours of the words lose more than they have of the attention.
                weights = np.square(lost.clip(min=0.0))
            pieces = target.decoded_pieces(hypothesis.ids)
            return use(Aligned(target.decode(hypothesis.ids), pieces, weights, source))

        return when_all_done([result_or(future, None) for future in scoring], join)

    def _forced(self, sentence: SourceSentence, written: str, change: Edit) -> Sentence | None:
        """The search for a translation that has a number; None if it would be too long."""
        # Together, since a number may continue a word.
        prefix = self._tokenizer.target.encode(written[: change.begin] + change.text)
        if len(prefix) + 1 >= sentence.max_tokens:
            return None
        last_word = change.text.rpartition(" ")[2].casefold()
        not_first = _not_after_number(
            self._tokenizer.target.vocabulary, last_word if last_word.isalpha() else ""
        )
        return replace(sentence, options=with_beginning(sentence.options, tuple(prefix), not_first))

    def _end_of_prefix(self, sentence: SourceSentence) -> int:
        """The length of a translation's prefix, which the request gives."""
        constraints = sentence.options.constraints
        return len(self._tokenizer.target.decode(constraints.prefix)) if constraints else 0

    def _read_numbers(
        self, sentence: SourceSentence, hypothesis: Hypothesis, missing: Sequence[Number]
    ) -> Hypothesis | Future[Hypothesis]:
        """Reads numbers as literals."""
        place = sentence.reading.index
        literals = list(sentence.literals)
        for number in dict.fromkeys(missing):
            begin, end = place(number.begin), place(number.end)
            if not any(other.begin < end and begin < other.end for other in sentence.literals):
                target = localized(number.text, *sentence.languages)
                literals.append(Literal(begin, end, target=target))
        literals.sort(key=lambda literal: literal.span)
        return self._reread(sentence, hypothesis, literals, numbers=True)

    # Terms

    def _finished(
        self, sentence: SourceSentence, hypothesis: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Writes the numbers and terms that a translation lacks, without another search."""
        if hypothesis.others:
            every = [replace(hypothesis, others=()), *hypothesis.others]
            return when_all_done(
                [self._future(partial(self._finished, sentence, candidate)) for candidate in every],
                lambda done: replace(done[0], others=tuple(done[1:])),
            )
        written = self._tokenizer.target.decode(hypothesis.ids)
        wrong = wrong_numbers(sentence, written)
        if not wrong.total:
            return self._with_phrases(sentence, hypothesis)
        most = len(wrong.missing) + len(wrong.additional) - 1

        def edit(aligned: Aligned) -> Hypothesis | Future[Hypothesis]:
            edits = without_overlaps(
                self._number_edits(sentence, written).all(aligned), self._end_of_prefix(sentence)
            )
            better = self._with_fewer_wrong(sentence, hypothesis, edited(written, edits), most)
            return self._with_phrases(sentence, better or hypothesis)

        if not wrong.missing:
            return edit(Aligned(written, (), np.zeros((0, 0), np.float32), ()))
        return self._aligned(sentence, hypothesis, wrong.missing, edit)

    def _with_phrases(
        self, sentence: SourceSentence, hypothesis: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Writes the phrases that a translation lacks.

        Without alignment heads, nothing says whether other words are written for them.
        """
        target = self._tokenizer.target
        missing = missing_phrases(sentence, target.decode(hypothesis.ids))
        if not missing or not self._aligns:
            return self._localized(sentence, hypothesis)
        begin = self._end_of_prefix(sentence)

        def edit(aligned: Aligned) -> Hypothesis | Future[Hypothesis]:
            edits = edits_of_phrases(
                aligned, sentence.reading, sentence.phrases, missing, begin, sentence.languages
            )
            written = edited(aligned.text, without_overlaps(edits, begin))
            better = self.with_text(hypothesis, written)
            return self._localized(sentence, better)

        return self._aligned(sentence, hypothesis, sentence.phrases, edit)

    def _localized(
        self, sentence: SourceSentence, hypothesis: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Writes large numbers, amounts, times, ordinals and brackets as the language does."""
        if sentence.has_numbers or sentence.phrases or sentence.has_brackets:
            written, reading = self._tokenizer.target.decode(hypothesis.ids), sentence.reading
            compared = (
                reading.masked(reading.text),
                reading.masked(written),
                *sentence.languages,
            )
            changes = without_overlaps(
                (
                    Edit(*change)
                    for changes_of in (
                        lost_signs,
                        respelled,
                        half_days,
                        recased,
                        ordinals,
                        points,
                        lost_brackets,
                    )
                    for change in changes_of(*compared)
                ),
                self._end_of_prefix(sentence),
            )
            if changes:
                hypothesis = self.with_text(hypothesis, edited(written, changes))
        return self._with_terms(sentence, hypothesis)

    def _with_terms(
        self, sentence: SourceSentence, hypothesis: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Puts the terms that a translation lacks in place of its words for them."""
        target = self._tokenizer.target
        lacked = missing_terms(sentence, target.decode(hypothesis.ids))
        if not lacked:
            return hypothesis
        targets = {term.target for term in lacked}
        terms = [term for term in sentence.terms if term.target in targets]
        begin = self._end_of_prefix(sentence)
        return self._aligned(
            sentence,
            hypothesis,
            terms,
            lambda aligned: self.with_text(
                hypothesis,
                edited(
                    aligned.text,
                    edits_of_terms(aligned, sentence.reading, terms, begin, target.can_write),
                ),
            ),
        )

    @staticmethod
    def _future(begin: Callable[[], Hypothesis | Future[Hypothesis]]) -> Future[Hypothesis]:
        return when_all_done([], lambda _: begin())

    def with_text(self, hypothesis: Hypothesis, written: str) -> Hypothesis:
        """A hypothesis with another text, of the same score."""
        return replace(
            hypothesis,
            ids=tuple(self._tokenizer.target.encode(written)),
            rescored=None if hypothesis.log_prob is None else hypothesis.score(self._plan.alpha),
            token_log_probs=None,
            attention=None,
        )

    # Literals

    def _complete(
        self, sentence: SourceSentence, hypothesis: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Writes the literals that translations of a sentence still lack."""
        decode, reading = self._tokenizer.target.decode, sentence.reading
        hypotheses = [replace(hypothesis, others=()), *hypothesis.others]
        if all(reading.is_in(decode(candidate.ids)) for candidate in hypotheses):
            return hypothesis
        lengths = self._plan.lengths
        most = (lengths.max_tokens or lengths.limits.max_target_tokens) - 1
        parts = [Literal(*span) for span in reading.spans]

        def complete(candidate: Hypothesis) -> Hypothesis | Future[Hypothesis]:
            if reading.is_in(decode(candidate.ids)):
                return candidate

            def edit(aligned: Aligned) -> Hypothesis:
                edits = edits_of_literals(aligned, reading, self._end_of_prefix(sentence))
                better = self.with_text(candidate, edited(aligned.text, edits))
                return better if len(better.ids) <= most else candidate

            return self._aligned(sentence, candidate, parts, edit, is_needed=True)

        return when_all_done(
            [self._future(partial(complete, candidate)) for candidate in hypotheses],
            lambda done: replace(done[0], others=tuple(done[1:])),
        )

    def _reread(
        self,
        sentence: SourceSentence,
        hypothesis: Hypothesis,
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
                return self._reread(sentence, hypothesis, literals, attempt + 1, numbers)
            is_prefixed = bool(self._end_of_prefix(sentence))
            if is_prefixed or own.is_in(self._tokenizer.target.decode(hypothesis.ids)):
                return self._finished(sentence, hypothesis)
            return self._split(sentence, hypothesis)

        def check(searched: list[Hypothesis]) -> Hypothesis | Future[Hypothesis]:
            (second,) = searched
            written = self._tokenizer.target.decode(second.ids)
            if second is not hypothesis and other.is_in(written):
                better = self._as_read(own, other, second)
                if self._lacks(sentence, better) < self._lacks(sentence, hypothesis):
                    if numbers:
                        return self._finished(sentence, better)
                    return self._fix_numbers(sentence, better, _MOST_ROUNDS)
            return give_up()

        again = self._searched(self._read_as(sentence, other), hypothesis)
        return give_up() if again is None else when_all_done([again], check)

    def _read_as(self, sentence: SourceSentence, other: Reading) -> Sentence | None:
        """A sentence with another reading; None if it is the same or too long."""
        src_ids = tuple(self._tokenizer.encode_source(other.text, sentence.languages[1]))
        is_long = len(src_ids) > self._plan.lengths.limits.max_source_tokens
        if other.text == sentence.reading.text or is_long:
            return None
        try:
            most, search = self._plan.of_sentence(
                sentence.index, other, src_ids, in_capitals=sentence.in_capitals
            )
        except DragomanError:  # the prefix is too long now
            return None
        return replace(sentence, reading=other, src_ids=src_ids, max_tokens=most, options=search)

    def _lacks(self, sentence: SourceSentence, hypothesis: Hypothesis) -> tuple[int, int]:
        """How much of a sentence a translation lacks, and how many numbers it adds."""
        written = self._tokenizer.target.decode(hypothesis.ids)
        reading = sentence.reading
        lost = sum(
            max(0, count - reading.count(stand_in, written))
            for stand_in, count in reading.counts.items()
        )
        lost += len(lost_identifiers(sentence, written))
        lost += self._tokenizer.target.is_broken(hypothesis.ids)
        numbers = wrong_numbers(sentence, written)
        return lost + numbers.total, len(numbers.additional)

    def _as_read(self, own: Reading, other: Reading, hypothesis: Hypothesis) -> Hypothesis:
        """A translation of another reading as one of the sentence's own."""
        written = own.replaced(self._tokenizer.target.decode(hypothesis.ids), other)
        others = tuple(self._as_read(own, other, alternative) for alternative in hypothesis.others)
        return replace(self.with_text(hypothesis, written), others=others)

    def _split(
        self, sentence: SourceSentence, hypothesis: Hypothesis
    ) -> Hypothesis | Future[Hypothesis]:
        """Translates the parts between the stand-ins separately."""
        reading = sentence.reading
        between = [reading.text[begin:end] for begin, end in outside(reading.text, reading.spans)]
        tag, end = sentence.src_ids[: self._tokenizer.tags], sentence.src_ids[-1]
        texts = list(dict.fromkeys(text for text in between if any(map(str.isalpha, text))))
        if len(texts) > _MOST_PARTS:
            return self._finished(sentence, hypothesis)
        parts: list[Sentence] = []
        for text in texts:
            src_ids = (*tag, *self._tokenizer.encode(text), end)
            most, search = self._plan.of_part(src_ids)
            most = min(most, sentence.max_tokens)
            parts.append(replace(sentence, src_ids=src_ids, max_tokens=most, options=search))
        try:
            searching = self._submit(parts)
        except DragomanError:
            return hypothesis

        def join(translated: list[Hypothesis]) -> Hypothesis | Future[Hypothesis]:
            lengths = self._plan.lengths
            most = (lengths.max_tokens or lengths.limits.max_target_tokens) - 1
            of_text = {text: part.ids for text, part in zip(texts, translated, strict=True)}
            ids = self._joined(reading, between, of_text)
            is_whole = all(part.complete for part in translated) and len(ids) <= most
            if len(ids) > most:  # the literals stay, the parts become shorter
                others = len(self._joined(reading, between, dict.fromkeys(texts, ())))
                share = max(0, most - others) // len(between)
                of_text = {text: part_ids[:share] for text, part_ids in of_text.items()}
                ids = self._joined(reading, between, of_text)
            log_prob = sum(part.log_prob or 0.0 for part in translated)
            uncut = Hypothesis(tuple(ids), log_prob, complete=True)
            score = uncut.score(self._plan.alpha)
            joined = replace(uncut, ids=uncut.ids[:most], complete=is_whole, rescored=score)
            return self._finished(
                sentence, replace(joined, others=(joined,) * len(hypothesis.others))
            )

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

    def _searched(
        self, again: Sentence | None, hypothesis: Hypothesis
    ) -> Future[Hypothesis] | None:
        """Submits a further search, whose failure gives the former translation."""
        if again is not None:
            with contextlib.suppress(DragomanError):
                return result_or(self._submit([again])[0], hypothesis)
        return None


@lru_cache(maxsize=64)
def _not_after_number(vocabulary: tuple[str, ...], last_word: str) -> npt.NDArray[np.float32]:
    """[V], -inf for tokens that continue a number or repeat its last word, as in `2 million`."""
    forbidden = [
        _NUMBER_GOES_ON.match(piece) is not None
        or (bool(last_word) and piece[1:].casefold().startswith(last_word))
        for piece in vocabulary
    ]
    return np.where(forbidden, -np.inf, 0.0).astype(np.float32)


def _pair(sentence: SourceSentence, hypothesis: Hypothesis, attention: bool = False) -> TokenPair:
    return TokenPair(
        sentence.src_ids,
        hypothesis.ids,
        hypothesis.complete,
        attention,
        sentence.priority,
        sentence.deadline_s,
        trace=sentence.trace,
    )
