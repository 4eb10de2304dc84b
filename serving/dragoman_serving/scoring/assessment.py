"""Assesses whole translations: token scores, confidence, alignment, attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from dragoman_options.arguments import AlignmentForm
from dragoman_options.assessment import TokenScores

from dragoman.kernel.attention_maps import MOST_WEIGHTS, Attention, count_weights, shifted
from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.hypothesis import length_penalty
from dragoman.kernel.manifest import Manifest
from dragoman.kernel.tensors import ATTENTION_GRAPH
from dragoman.kernel.text import Piece, Tokenizer
from dragoman_serving.engine.futures import Future, when_all_done
from dragoman_serving.fidelity.restored import Restored
from dragoman_serving.fidelity.tagged_sentence import TaggedSentence
from dragoman_serving.request.plan import ScoringPlan
from dragoman_serving.scoring.alignment import Alignment, Linked, piece_weights, word_links
from dragoman_serving.scoring.scorer import Scorer
from dragoman_serving.scoring.token_pair import Scored, TokenPair

_MOST_TOKENS = 1_000_000
"""Maximum number of token scores in an answer."""
_MOST_WEIGHTS: dict[AlignmentForm, int] = {"hard": 20_000_000, "soft": 2_000_000}
"""Attention weights per request: soft alignments are sent, hard ones only take memory."""
_DIGITS = 6
"""Decimals of a log-probability, about the precision of fp32."""


class ReadSentence(Protocol):
    """A sentence as the model read it: without tags, with stand-ins for literals."""

    @property
    def tags(self) -> TaggedSentence | None:
        """Its tags."""

    def restored(self, written: str) -> Restored:
        """Returns a translation with the literals."""

    def source_index(self, index: int) -> int:
        """Maps an index of the sentence as it was read to the sentence."""


@dataclass(frozen=True)
class SentencePair:
    """A sentence of a text, and its translation.

    `source_begin` and `target_begin` are their positions in the whole texts. `target` is None if
    the model has generated the ids; `source` is then as the model `read` it, and the candidate's
    texts have its tags and literals.
    """

    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    source: str
    target: str | None = None
    read: ReadSentence | None = None
    complete: bool = True
    source_begin: int = 0
    target_begin: int = 0
    scored: Scored | None = None
    """Scores that the search has computed already."""


@dataclass(frozen=True)
class Candidate:
    """A text and a translation of it, sentence by sentence."""

    source: str
    target: str
    sentences: tuple[SentencePair, ...]


@dataclass(frozen=True)
class Assessment:
    """The model's assessment of a translation.

    `tokens` are vocabulary entries, with the end symbol after each complete sentence; `log_probs`
    are their log-probabilities. `alignment`, in the requested form, and `attention`, of a single
    sentence, are None if they were not requested.
    """

    tokens: tuple[str, ...]
    log_probs: tuple[float, ...]
    alignment: Alignment | None = None
    attention: Attention | None = None

    @property
    def confidence(self) -> float:
        """Mean log-probability of a token."""
        # 0 if there was nothing to translate.
        return sum(self.log_probs) / max(len(self.log_probs), 1)

    @property
    def token_scores(self) -> TokenScores:
        """Tokens and rounded log-probabilities."""
        return TokenScores(
            self.tokens, tuple(round(log_prob, _DIGITS) for log_prob in self.log_probs)
        )

    def score(self, alpha: float) -> float:
        """Returns the score of beam search: sum of log-probabilities over length penalty."""
        return sum(self.log_probs) / length_penalty(len(self.log_probs), alpha)


class Assessor:
    """Assesses translations with a scorer."""

    def __init__(
        self, tokenizer: Tokenizer, manifest: Manifest, scorer: Scorer, searches_attend: bool
    ) -> None:
        """Store the parts that later calls need.

        Args:
            tokenizer: tokenizer of the model.
            manifest: manifest of the bundle.
            scorer: computes scores that the search did not return.
            searches_attend: whether the engine's searches return the attention of alignment heads.
        """
        self._tokenizer, self._manifest, self._scorer = tokenizer, manifest, scorer
        self._searches_attend = searches_attend

    def check(self, translations: int, plan: ScoringPlan, given: bool) -> None:
        """Refuse early if the translations could not be assessed.

        Args:
            translations: number of sentence translations of the request.
            plan: plan of the request.
            given: whether the request gives the translations, so that no search scores them.

        Raises:
            InvalidRequest: there are too many, or the bundle lacks alignment heads or the graph.
            Overloaded: too many others are waiting.
            DeadlineExceeded: the request would exceed its deadline.
        """
        aligned = "alignments" in plan.outputs or plan.coverage_penalty > 0
        if aligned and self._manifest.alignment is None:
            name = "coverage_penalty" if plan.coverage_penalty else "return_alignments"
            raise InvalidRequest(
                f"{name}: the bundle has no alignment heads; "
                "choose them with: dragoman align-heads BUNDLE --text PREFIX",
                "unsupported",
                name,
            )
        if "attention" in plan.outputs and ATTENTION_GRAPH not in self._manifest.graphs:
            raise InvalidRequest(
                "return_attention: the bundle has no graph 'attention'; "
                "add it with: dragoman export attention BUNDLE",
                "unsupported",
                "return_attention",
            )
        if translations > self._scorer.most_of_request:
            raise InvalidRequest(
                f"{translations} translations to score in one request, more than "
                f"{self._scorer.most_of_request}: send fewer",
                "too_large",
            )
        if given or "attention" in plan.outputs or (aligned and not self._searches_attend):
            self._scorer.check(translations, plan.urgency.priority, plan.urgency.deadline_s)

    def check_lengths(self, lengths: Sequence[int], translations: int, plan: ScoringPlan) -> None:
        """Refuse early if there would be too many attention weights, even for short translations.

        Args:
            lengths: number of tokens of each sentence of a request.
            translations: number of translations of each sentence.
            plan: plan of the request.

        Raises:
            InvalidRequest: there would be too many weights.
        """
        least = translations * sum(self._weights(length, 1) for length in lengths)
        if "attention" in plan.outputs and least > MOST_WEIGHTS:
            raise _too_many(f"{least} or more")

    def assess(
        self, candidates: Sequence[Candidate], plan: ScoringPlan
    ) -> Future[list[Assessment]]:
        """Start assessing translations.

        Returns:
            A future of one assessment for each. Cancelling it cancels the work.

        Raises:
            InvalidRequest: the answer would be too large, or a translation is too long.
            Overloaded: too many are waiting.
            Closed: the scorer was closed.
        """
        outputs, urgency = plan.outputs, plan.urgency
        _check_amount(candidates, plan)
        if "attention" in outputs:
            self._check_heads(candidates)
        aligned = "alignments" in outputs
        sentences = [pair for candidate in candidates for pair in candidate.sentences]
        unknown = [pair for pair in sentences if not _is_known(pair, plan)]
        futures = self._scorer.submit(
            [
                TokenPair(
                    pair.src_ids,
                    pair.tgt_ids,
                    pair.complete,
                    aligned,
                    urgency.priority,
                    urgency.deadline_s,
                    "attention" in outputs,
                    trace=urgency.trace,
                )
                for pair in unknown
            ]
        )

        def join(computed: list[Scored]) -> list[Assessment]:
            rest = iter(computed)
            scored = [
                pair.scored if pair.scored and _is_known(pair, plan) else next(rest)
                for pair in sentences
            ]
            return self._join(candidates, scored, plan)

        return when_all_done(futures, join)

    def _join(
        self, candidates: Sequence[Candidate], all_scored: Sequence[Scored], plan: ScoringPlan
    ) -> list[Assessment]:
        target = self._tokenizer.target
        remaining = iter(all_scored)
        assessments = []
        for candidate in candidates:
            scored = [next(remaining) for _ in candidate.sentences]
            tokens: list[str] = []
            for pair in candidate.sentences:
                tokens += map(target.piece, pair.tgt_ids)
                tokens += [target.piece(self._manifest.special_ids.end)] * pair.complete
            log_probs = tuple(log_prob for scores in scored for log_prob in scores.log_probs)
            alignment = None
            if plan.alignment_form is not None:
                alignment = self._alignment(candidate, scored, plan.alignment_form)
            attention = None
            if "attention" in plan.outputs:
                attention = self._attention(candidate.sentences, tokens, scored)
            assessments.append(Assessment(tuple(tokens), log_probs, alignment, attention))
        return assessments

    def _attention(
        self, sentences: Sequence[SentencePair], said: Sequence[str], scored: Sequence[Scored]
    ) -> Attention:
        """The attention of the only sentence; empty for an empty text."""
        if not sentences:
            sizes = self._manifest.dimensions
            of_decoder = 0 if sizes.is_recurrent else sizes.decoder_layers
            layers = sizes.encoder_layers, of_decoder, sizes.decoder_layers
            weights = (np.zeros((number, sizes.heads, 0, 0), np.float32) for number in layers)
            return Attention((), (), (), *weights)
        (pair,), (scores,) = sentences, scored
        assert scores.heads is not None  # they were requested
        piece = self._tokenizer.piece
        read = shifted(said, piece(self._manifest.special_ids.begin))
        source = tuple(map(piece, pair.src_ids))
        alignment = self._manifest.alignment
        return Attention(
            source,
            read,
            tuple(said),
            *scores.heads,
            alignment_heads=alignment.heads if alignment else (),
            aligns_when_read=alignment is not None and alignment.when_read,
        )

    def _check_heads(self, candidates: Sequence[Candidate]) -> None:
        """Refuse attention if the answer would be too large."""
        number = sum(
            self._weights(len(pair.src_ids), len(pair.tgt_ids) + 1)
            for candidate in candidates
            for pair in candidate.sentences
        )
        if number > MOST_WEIGHTS:
            raise _too_many(str(number))

    def _weights(self, src: int, tgt: int) -> int:
        sizes = self._manifest.dimensions
        return count_weights((src, tgt), sizes.encoder_layers, sizes.decoder_layers, sizes.heads)

    def _alignment(
        self, candidate: Candidate, scored: Sequence[Scored], form: AlignmentForm
    ) -> Alignment:
        linked = []
        for pair, scores in zip(candidate.sentences, scored, strict=True):
            assert scores.attention is not None  # it was requested
            linked.append(
                Linked(
                    self._source_pieces(pair),
                    self._target_pieces(pair),
                    scores.attention[:, self._tokenizer.tags : -1],  # without the end symbol
                    pair.source_begin,
                    pair.target_begin,
                )
            )
        if form == "soft":
            return piece_weights(candidate.source, candidate.target, linked)
        return word_links(candidate.source, candidate.target, linked)

    def _source_pieces(self, pair: SentencePair) -> list[Piece]:
        pieces = self._tokenizer.pieces(pair.source)
        if pair.read is None:
            return pieces
        return _moved(_without_space(pieces, pair.source), pair.read.source_index)

    def _target_pieces(self, pair: SentencePair) -> list[Piece]:
        target = self._tokenizer.target
        if pair.target is not None:
            return target.pieces(pair.target)
        pieces = target.decoded_pieces(pair.tgt_ids)
        if pair.read is None:
            return pieces
        written = target.decode(pair.tgt_ids)
        restored = pair.read.restored(written)
        pieces = _moved(_without_space(pieces, written), restored.index)
        if pair.read.tags is None:
            return pieces
        return _moved(pieces, pair.read.tags.put_into(restored.text).places.__getitem__)


def _without_space(pieces: Sequence[Piece], text: str) -> list[Piece]:
    """Pieces of a text without their leading white space, where a tag may be inserted."""
    return [
        replace(piece, begin=piece.end - len(text[piece.begin : piece.end].lstrip()))
        for piece in pieces
    ]


def _moved(pieces: Sequence[Piece], index: Callable[[int], int]) -> list[Piece]:
    """Pieces with their spans mapped to a changed text."""
    return [replace(piece, begin=index(piece.begin), end=index(piece.end)) for piece in pieces]


def _is_known(pair: SentencePair, plan: ScoringPlan) -> bool:
    """Whether the search has already computed all requested outputs."""
    if pair.scored is None or "attention" in plan.outputs:
        return False
    return "alignments" not in plan.outputs or pair.scored.attention is not None


def _too_many(weights: str) -> InvalidRequest:
    return InvalidRequest(
        f"return_attention: {weights} weights, more than {MOST_WEIGHTS}: "
        "send fewer or shorter texts",
        "too_large",
        "return_attention",
    )


def _check_amount(candidates: Sequence[Candidate], plan: ScoringPlan) -> None:
    """Refuse a request if its answer, or the memory for it, would be too large."""
    if "token_scores" in plan.outputs:
        tokens = sum(len(pair.tgt_ids) for candidate in candidates for pair in candidate.sentences)
        if tokens > _MOST_TOKENS:
            raise InvalidRequest(
                f"return_token_scores: the translations have {tokens} tokens, more than "
                f"{_MOST_TOKENS}: send fewer texts",
                "too_large",
                "return_token_scores",
            )
    if (form := plan.alignment_form) is None:
        return
    weights = 0
    for candidate in candidates:
        sizes = [(len(pair.src_ids), len(pair.tgt_ids)) for pair in candidate.sentences]
        if form == "soft":
            weights += sum(src for src, _ in sizes) * sum(tgt for _, tgt in sizes)
        else:
            weights += sum(src * tgt for src, tgt in sizes)
    if weights > _MOST_WEIGHTS[form]:
        raise InvalidRequest(
            f"return_alignments: {form} alignments would take {weights} weights, more than "
            f"{_MOST_WEIGHTS[form]}: send fewer or shorter texts",
            "too_large",
            "return_alignments",
        )
