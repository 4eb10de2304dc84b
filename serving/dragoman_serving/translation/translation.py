"""Composes the translations of texts from the hypotheses of their sentences."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dragoman_options.markup import PlacedCodes

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import AlignmentHeads
from dragoman.kernel.text import Tokenizer
from dragoman.kernel.texts.language import Detected
from dragoman_serving.fidelity.restored import with_spaces
from dragoman_serving.request.plan import SearchPlan
from dragoman_serving.scoring.assessment import Assessment, Candidate, SentencePair
from dragoman_serving.scoring.token_pair import Scored, attention_of_tokens
from dragoman_serving.translation.faults import UNTRANSLATED, fault_of, is_copy, is_lost
from dragoman_serving.translation.losses import NEGATION, SIGNS, is_opposite, losses
from dragoman_serving.translation.segments import SourceSentence, SourceText, join

_FINAL_MARKS = " .!?…"


@dataclass  # not frozen, like `Sentence`
class Translation:
    """A translated text; `complete` is false if the token limit cut one of its sentences.

    `score` is that of `Hypothesis`; None for a text of several sentences, and for greedy search if
    it was not requested. `others` are more translations of the text, as many as were requested.
    """

    text: str
    output_tokens: int
    complete: bool
    score: float | None = None
    others: tuple[Translation, ...] = ()
    confidence: float | None = None
    assessment: Assessment | None = None
    """Set if an output of it was requested."""
    detected: Detected | None = None
    """The language of its text, if it was detected."""
    codes: PlacedCodes | None = None
    """Positions of the codes of its text, if the request has markup."""
    warnings: tuple[str, ...] = ()
    """Faults of its sentences' translations; see `faults`."""
    sentences: int = field(default=1, compare=False)
    """Number of sentences in its text."""
    source_tokens: int = field(default=0, compare=False)
    """Number of ids of these sentences, with tags and end symbols."""
    via: str | None = None
    """The pivot language, if it was translated through one."""
    is_repeated: bool = False
    """Whether a better translation of its text is the same, because there are no others."""


_EMPTY = Translation("", 0, complete=True, score=0.0, confidence=0.0, sentences=0)
"""Translation of an empty text; a text without a sentence to translate stays as it is."""


class Composer:
    """Composes translations."""

    def __init__(self, tokenizer: Tokenizer, alignment: AlignmentHeads | None) -> None:
        """Store the vocabulary, and the alignment heads, if known."""
        self._target = tokenizer.target
        self._alignment = alignment

    def distinct(
        self, texts: Sequence[SourceText], hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> list[Hypothesis]:
        """Returns hypotheses with as many others as requested, of different texts.

        If there are fewer, the last one is repeated. Samples are returned as they are.

        Args:
            texts: the source texts.
            hypotheses: of all their sentences, in order.
            plan: plan of the request.
        """
        if plan.hypotheses == 1 or plan.samples:
            return list(hypotheses)
        sentences = (sentence for text in texts for sentence in text.sentences)
        return [
            self._distinct(sentence, hypothesis, plan.hypotheses)
            for sentence, hypothesis in zip(sentences, hypotheses, strict=True)
        ]

    def _distinct(self, sentence: SourceSentence, first: Hypothesis, count: int) -> Hypothesis:
        by_text: dict[str, Hypothesis] = {}
        for hypothesis in (first, *first.others):
            by_text.setdefault(written(self._target, sentence, hypothesis.ids), hypothesis)
        best, *others = itertools.islice(by_text.values(), count)
        last = others[-1] if others else replace(best, others=())
        return replace(best, others=(*others, *[last] * (count - 1 - len(others))))

    def compose(
        self, texts: Sequence[SourceText], hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> list[Translation]:
        """Returns the translations of texts.

        Args:
            texts: the source texts.
            hypotheses: of all their sentences, in order.
            plan: plan of the request.
        """
        remaining = iter(hypotheses)
        return [
            self._composed(text, list(itertools.islice(remaining, len(text.sentences))), plan)
            for text in texts
        ]

    def _composed(
        self, text: SourceText, hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> Translation:
        if not text.sentences:
            same = replace(
                _EMPTY,
                text=join(text.pieces, ()),
                detected=text.detected,
                warnings=(UNTRANSLATED,) if text.is_unread else (),
            )
            return _with_others(same, [same] * (plan.hypotheses - 1), plan)
        if plan.most_sentence_tokens is None:
            best, *others = (
                self._translation(text, hypothesis, plan.alpha)
                for hypothesis in (hypotheses[0], *hypotheses[0].others)
            )
            return _with_others(best, others, plan)
        translated = list(map(self._text, text.sentences, hypotheses))
        return Translation(
            join(text.pieces, translated),
            sum([len(hypothesis.ids) for hypothesis in hypotheses]),
            all(hypothesis.complete for hypothesis in hypotheses),
            _score(hypotheses, plan.alpha),
            confidence=_confidence(hypotheses),
            detected=text.detected,
            warnings=self._warnings(text.sentences, hypotheses, translated),
            sentences=len(text.sentences),
            source_tokens=sum([len(sentence.src_ids) for sentence in text.sentences]),
        )

    def candidates(
        self, texts: Sequence[SourceText], hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> list[Candidate]:
        """Returns the translations and their `others`, in order, as candidates for assessment."""
        remaining = iter(hypotheses)
        return [
            candidate
            for text in texts
            for candidate in self._candidates(text, remaining, plan.hypotheses)
        ]

    def _candidates(
        self, text: SourceText, remaining: Iterator[Hypothesis], hypotheses: int
    ) -> Iterator[Candidate]:
        """Yields the best translation of a text, then the others, if it is one sentence.

        Wrapped lines stay joined, since the words are the same.
        """
        if not text.sentences:
            same = join(text.pieces, ())
            yield from [Candidate(same, same, ())] * hypotheses
            return
        source, target, sentences = "", "", []
        others: list[Candidate] = []
        for piece in text.pieces:
            if isinstance(piece, str):
                source, target = source + piece, target + piece
            elif isinstance(piece, SourceSentence):
                best = next(remaining)
                place = (len(source), len(target))
                sentences.append(self._pair(piece, best, *place))
                source, target = source + piece.line, target + self._text(piece, best)
                for other in best.others:
                    pair = self._pair(piece, other, *place)
                    others.append(Candidate(source, self._text(piece, other), (pair,)))
        yield Candidate(source, target, tuple(sentences))
        yield from others

    def _pair(
        self, sentence: SourceSentence, hypothesis: Hypothesis, source_begin: int, target_begin: int
    ) -> SentencePair:
        return SentencePair(
            sentence.src_ids,
            hypothesis.ids,
            sentence.text,
            read=sentence if sentence.tags or sentence.reading.is_other else None,
            complete=hypothesis.complete,
            source_begin=source_begin,
            target_begin=target_begin,
            scored=scored_by_search(hypothesis, self._alignment),
        )

    def _text(self, sentence: SourceSentence, hypothesis: Hypothesis) -> str:
        return with_tags(self._target, sentence, hypothesis.ids)

    def _warnings(
        self,
        sentences: Sequence[SourceSentence],
        hypotheses: Sequence[Hypothesis],
        translated: Sequence[str],
    ) -> tuple[str, ...]:
        faults: set[str] = set()
        for sentence, hypothesis, text in zip(sentences, hypotheses, translated, strict=True):
            if (fault := fault_of(sentence.src_ids, hypothesis)) is not None:
                faults.add(fault)
            # `Status: closed` has a label that is the same in German.
            is_label = len(sentences) > 1 and " " not in sentence.line.strip()
            if is_copy(sentence.line, text) and not is_label:
                faults.add(UNTRANSLATED)
            if self._target.is_broken(hypothesis.ids):
                faults.add(SIGNS)
            decoded = self._target.decode(hypothesis.ids)
            if is_opposite(sentence, decoded):
                faults.add(NEGATION)
            if sentence.needs_check:
                faults.update(losses(sentence, decoded, text))
        return tuple(sorted(faults)) if faults else ()

    def _translation(self, source: SourceText, hypothesis: Hypothesis, alpha: float) -> Translation:
        """The translation of a text that is one sentence."""
        (sentence,) = source.sentences
        text = self._text(sentence, hypothesis)
        return Translation(
            join(source.pieces, [text]),
            len(hypothesis.ids),
            hypothesis.complete,
            _score([hypothesis], alpha),
            confidence=_confidence([hypothesis]),
            detected=source.detected,
            warnings=self._warnings([sentence], [hypothesis], [text]),
            source_tokens=len(sentence.src_ids),
        )


def _with_others(best: Translation, others: list[Translation], plan: SearchPlan) -> Translation:
    """A translation with more translations of its text, of which repeated ones are marked."""
    if plan.samples:
        return replace(best, others=tuple(others))
    texts = [best.text, *(other.text for other in others)]
    marked = (
        replace(other, is_repeated=other.text in texts[:rank])
        for rank, other in enumerate(others, start=1)
    )
    return replace(best, others=tuple(marked))


def with_tags(
    target: Tokenizer, sentence: SourceSentence, ids: Sequence[int], is_whole: bool = True
) -> str:
    """Returns the text of token ids as `written` does, with the sentence's tags."""
    text = written(target, sentence, ids, is_whole)
    return sentence.tags.put_into(text).text if sentence.tags and is_whole else text


def written(
    target: Tokenizer, sentence: SourceSentence, ids: Sequence[int], is_whole: bool = True
) -> str:
    """Returns the text of token ids, with the sentence's literals, in capitals if it is.

    If none of the sentence's words are translated, it is the sentence, or empty for token ids that
    are not the whole translation.
    """
    text = target.decode(ids)
    reading = sentence.reading
    if is_lost(reading.masked(reading.text), reading.masked(text)):
        return sentence.original if is_whole else ""
    if sentence.literals or sentence.capitals or reading.doubles:
        text = sentence.restored(text).text
    if sentence.has_numbers:
        text = with_spaces(text, sentence.original)
    if not sentence.has_marks:
        return text
    if "…" in sentence.original and "..." not in sentence.original:
        text = _with_ellipsis(text, sentence.original)
    return _with_final_marks(text, sentence, is_whole)


def _with_final_marks(text: str, sentence: SourceSentence, is_whole: bool) -> str:
    """A translation that ends with the question and exclamation marks of its sentence.

    It stays as it is if it is cut, or has other marks. A part of it is without its last marks.
    """
    marks = sentence.original[len(sentence.original.rstrip("?!")) :]
    words = text.rstrip("?! ")
    end = text[len(words) :]
    if not marks or end.strip() == marks or not set(end) <= {*marks, " "}:
        return text
    if words.endswith(".") and not words.endswith("..") and not end:
        words = words[:-1]
    elif not end:
        return text
    if not is_whole:
        return words
    is_spaced = sentence.languages[1] == "fr" or end[:1] == " "
    return f"{words}{' ' * is_spaced}{marks}"


def _with_ellipsis(text: str, original: str) -> str:
    """A translation whose dots are one character, also at the end if they are there."""
    text = text.replace("...", "…")
    end = original[len(original.rstrip(_FINAL_MARKS)) :]
    words = text.rstrip(_FINAL_MARKS)
    own = text[len(words) :]
    if "…" not in end or own.replace(" ", "") == end.replace(" ", ""):
        return text
    return words + end if own or "…" not in text else text


def _score(hypotheses: Sequence[Hypothesis], alpha: float) -> float | None:
    """The score of a single sentence, if the search has scored it."""
    if len(hypotheses) != 1 or hypotheses[0].log_prob is None:
        return None
    return hypotheses[0].score(alpha)


def _confidence(hypotheses: Sequence[Hypothesis]) -> float | None:
    """The mean log-probability of a token, if the searches have scored all sentences."""
    total, tokens = 0.0, 0
    for hypothesis in hypotheses:
        if hypothesis.log_prob is None:
            return None
        total += hypothesis.log_prob
        tokens += hypothesis.length
    return total / tokens if tokens else 0.0  # 0: there was nothing to translate


def with_assessment(translation: Translation, assessments: Iterator[Assessment]) -> Translation:
    """Returns a translation and its `others`, each with its assessment."""
    assessment = next(assessments)
    others = tuple(with_assessment(other, assessments) for other in translation.others)
    return replace(
        translation,
        others=others,
        confidence=assessment.confidence,
        assessment=assessment,
    )


def scored_by_search(hypothesis: Hypothesis, alignment: AlignmentHeads | None) -> Scored | None:
    """Returns the scores of a search in the form of the scorer; None if it did not compute them."""
    if hypothesis.token_log_probs is None:
        return None
    attention = None
    if hypothesis.attention is not None and alignment is not None:
        attention = attention_of_tokens(hypothesis.attention, alignment, len(hypothesis.ids))
    return Scored(hypothesis.token_log_probs, attention)
