"""Places the inline codes of texts in their translations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dragoman_options.markup import PlacedCodes

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import AlignmentHeads
from dragoman.kernel.text import Tokenizer
from dragoman_serving.engine.futures import Future, when_all_done
from dragoman_serving.markup.evidence import Evidence, Floats
from dragoman_serving.markup.placement import place
from dragoman_serving.request.plan import SearchPlan
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.scoring.token_pair import Scored, TokenPair
from dragoman_serving.translation.segments import SourceSentence, SourceText, spans_of
from dragoman_serving.translation.translation import Translation, scored_by_search, written

_NO_CODES = PlacedCodes()


class Marker:
    """Places codes by the attention of the search, or else of the scorer."""

    def __init__(
        self, tokenizer: Tokenizer, scorer: Scorer, alignment: AlignmentHeads | None
    ) -> None:
        """Store the parts that later calls need.

        Args:
            tokenizer: tokenizer of the model.
            scorer: computes the attention of translations if the search did not return it.
            alignment: the alignment heads; None: unknown.
        """
        self._tokenizer, self._scorer, self._alignment = tokenizer, scorer, alignment

    def mark(
        self,
        texts: Sequence[SourceText],
        hypotheses: Sequence[Hypothesis],
        translations: Sequence[Translation],
        plan: SearchPlan,
    ) -> Future[list[Translation]]:
        """Place the codes of texts in their translations.

        Args:
            texts: the source texts.
            hypotheses: of all their sentences, in order.
            translations: translations of the texts.
            plan: plan of the request.
        """
        sentences = [sentence for text in texts for sentence in text.sentences]

        def join(of_sentences: list[list[PlacedCodes]]) -> list[Translation]:
            lines = map(self._line, sentences, hypotheses)
            placed = zip(lines, of_sentences[0], strict=True)
            return [
                replace(translation, codes=self._codes(text, translation, placed))
                for text, translation in zip(texts, translations, strict=True)
            ]

        return when_all_done([self._place_all(sentences, hypotheses, plan)], join)

    def place_tags(
        self, texts: Sequence[SourceText], hypotheses: Sequence[Hypothesis], plan: SearchPlan
    ) -> Future[list[SourceText]]:
        """Place the tags of texts in the translations of their sentences.

        Args:
            texts: the source texts.
            hypotheses: of all their sentences, in order.
            plan: plan of the request.
        """
        sentences = [sentence for text in texts for sentence in text.sentences]

        def join(of_sentences: list[list[PlacedCodes]]) -> list[SourceText]:
            placed = (
                replace(sentence, tags=sentence.tags and sentence.tags.with_placed(codes))
                for sentence, codes in zip(sentences, of_sentences[0], strict=True)
            )
            return [text.with_sentences(placed) for text in texts]

        return when_all_done([self._place_all(sentences, hypotheses, plan)], join)

    def _place_all(
        self,
        sentences: Sequence[SourceSentence],
        hypotheses: Sequence[Hypothesis],
        plan: SearchPlan,
    ) -> Future[list[PlacedCodes]]:
        """Places the codes of sentences in their translations, each on one line."""
        known = [
            scored_by_search(hypothesis, self._alignment) if _needs_alignment(sentence) else None
            for sentence, hypothesis in zip(sentences, hypotheses, strict=True)
        ]
        unknown = [
            TokenPair(
                sentence.src_ids,
                hypothesis.ids,
                hypothesis.complete,
                True,
                plan.urgency.priority,
                plan.urgency.deadline_s,
                trace=plan.urgency.trace,
            )
            for sentence, hypothesis, scored in zip(sentences, hypotheses, known, strict=True)
            if _needs_alignment(sentence) and (scored is None or scored.attention is None)
        ]

        def join(computed: list[Scored]) -> list[PlacedCodes]:
            rest = iter(computed)
            return [
                self._place(sentence, hypothesis, scored, rest)
                for sentence, hypothesis, scored in zip(sentences, hypotheses, known, strict=True)
            ]

        return when_all_done(self._scorer.submit(unknown), join)

    def _line(self, sentence: SourceSentence, hypothesis: Hypothesis) -> str:
        return written(self._tokenizer.target, sentence, hypothesis.ids)

    def _place(
        self,
        sentence: SourceSentence,
        hypothesis: Hypothesis,
        scored: Scored | None,
        rest: Iterator[Scored],
    ) -> PlacedCodes:
        """Places a sentence's codes in its translation, as one line."""
        marked = sentence.marked
        if marked is None or not marked.codes:
            return _NO_CODES
        evidence = None
        if marked.needs_alignment:
            known = scored if scored is not None and scored.attention is not None else next(rest)
            assert known.attention is not None  # it was requested
            evidence = self._evidence(sentence, hypothesis, known.attention)
        # Both in the case of the request, so that kept spans and cut words are found.
        return place(marked.line, self._line(sentence, hypothesis), marked.markup, evidence)

    def _evidence(
        self, sentence: SourceSentence, hypothesis: Hypothesis, attention: Floats
    ) -> Evidence:
        target = self._tokenizer.target
        place = sentence.reading.index
        source = [
            (place(piece.begin), place(piece.end))
            for piece in self._tokenizer.pieces(sentence.text)
        ]
        restored = sentence.restored(target.decode(hypothesis.ids)).index
        pieces = [
            (restored(piece.begin), restored(piece.end))
            for piece in target.decoded_pieces(hypothesis.ids)
        ]
        # Without the language's tag and the end symbol.
        return Evidence(attention[:, self._tokenizer.tags : -1], source, pieces)

    def _codes(
        self, text: SourceText, translation: Translation, placed: Iterator[tuple[str, PlacedCodes]]
    ) -> PlacedCodes:
        of_text = [next(placed) for _ in text.sentences]
        if text.marked is None or not text.marked.codes:
            return _NO_CODES  # the codes of sentences are their tags
        lines = [line for line, _ in of_text]
        spans = spans_of(text.pieces, lines)
        return text.marked.joined([codes for _, codes in of_text], lines, translation.text, spans)


def _needs_alignment(sentence: SourceSentence) -> bool:
    return sentence.marked is not None and sentence.marked.needs_alignment
