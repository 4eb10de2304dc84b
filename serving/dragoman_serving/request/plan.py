"""What a request's options come to: what to search for, what to return, how to split.

A plan is made once from the options and the model's limits. Everything behind it reads the plan,
not the options.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Limits
from dragoman.kernel.text import END_ID, UNKNOWN_ID, Tokenizer
from dragoman_serving.engine.constraints import (
    FewestTokens,
    Guidance,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Rule,
    TermConstraints,
)
from dragoman_serving.engine.sampling import Sampling
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_serving.request.checks import check_options, check_scoring
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.request.lengths import Lengths
from dragoman_serving.request.options import RequestOptions
from dragoman_serving.request.outputs import Outputs
from dragoman_serving.request.required_terms import RequiredTerms, cannot_write
from dragoman_serving.request.suppression import SuppressedWords
from dragoman_serving.request.urgency import DEFAULT_URGENCY, Urgency

_DEFAULTS = SearchOptions()
_WIDTH_WITH_TERMS = 8
"""Where a term must be generated, hypotheses with it and without it share the beam."""
_MOST_SAMPLES = 64


@dataclass(kw_only=True)  # frozen takes three times as long to make, and each request makes one
class ScoringPlan:
    """How to score given translations; `alpha` is the exponent of the length penalty."""

    languages: tuple[str | None, str | None]
    """Source and target, as the request names them."""
    outputs: Outputs
    alpha: float
    urgency: Urgency
    coverage_penalty: float = 0.0
    """Weight of the coverage penalty; 0: none."""


@dataclass(kw_only=True)
class SearchPlan(ScoringPlan):
    """How to translate the texts of a request."""

    assessed: bool
    """Whether translations are scored by the graphs once they are there."""
    most_sentence_tokens: int | None
    """Of a sentence, without specials; None: texts are not split."""
    width: int
    """Of the beam."""
    width_with_terms: int
    hypotheses: int
    """Translations of a text."""
    samples: int
    """Translations of a sentence that are sampled, each by itself; 0 where none is."""
    alternatives: int
    """In how many ways a translation is to go on behind its prefix; 0 where that is open."""
    lengths: Lengths
    prefixes: tuple[str, ...]
    """Of each text; empty: none has one."""
    terms: RequiredTerms
    guidance: Guidance
    """Of sentences that have nothing of their own."""
    target: Tokenizer

    def of_sentence(
        self, index: int, text: str, src_ids: Sequence[int]
    ) -> tuple[int, SearchOptions]:
        """How to search for a sentence's translation.

        Args:
            index: of the text that it stands in.
            text: the sentence.
            src_ids: its ids, tag and end symbol included.

        Returns:
            The most tokens to generate, and the rest.

        Raises:
            InvalidRequest: the prefix is too long.
        """
        if not self.prefixes and not self.terms:
            most = self.lengths.most(src_ids)
            rules = self._rules_of(src_ids, most)
            return most, self._search((), None, rules) if rules else self._usual
        prefix = tuple(self.target.encode(self.prefixes[index])) if self.prefixes else ()
        if UNKNOWN_ID in prefix:
            raise cannot_write("prefix", self.prefixes[index])
        terms = self.terms.of_sentence(text)
        given = (prefix, *terms.sequences) if terms else (prefix,)
        most = self.lengths.most(src_ids, sum(map(len, given)))
        if prefix and len(prefix) >= most:
            raise InvalidRequest(
                f"the prefix of text {index} has {len(prefix)} tokens, and its translation at most "
                f"{most}: shorten it"
                + (", or raise max_tokens" if self.lengths.options.max_tokens else "")
            )
        return most, self._search(prefix, terms, self._rules_of(src_ids, most))

    def of_part(self, text: str, src_ids: Sequence[int]) -> tuple[int, SearchOptions]:
        """As `of_sentence`, of what stands between two placeholders."""
        terms = self.terms.of_sentence(text, placeholders=False)
        most = self.lengths.most(src_ids, sum(map(len, terms.sequences)) if terms else 0)
        return most, self._search((), terms, self._rules_of(src_ids, most))

    @cached_property
    def _usual(self) -> SearchOptions:
        """The search for sentences that have nothing of their own."""
        return self._search((), None, ())

    def _search(
        self, prefix: tuple[int, ...], terms: TermConstraints | None, rules: tuple[Rule, ...]
    ) -> SearchOptions:
        """The search for a sentence with a prefix, terms and rules of its own."""
        guidance: Guidance | None = replace(
            self.guidance, prefix=prefix, terms=terms, rules=(*self.guidance.rules, *rules)
        )
        width = self.width_with_terms if terms else self.width
        # Greedy search by itself does not score what it finds.
        scored = self.outputs.scores or self.outputs.confidence
        if guidance == Guidance() and not (width == 1 and scored):
            guidance = None
        hypotheses = width if self.coverage_penalty else self.hypotheses
        return SearchOptions(width, self.alpha, 1 if self.samples else hypotheses, guidance)

    def _rules_of(self, src_ids: Sequence[int], most: int) -> tuple[Rule, ...]:
        least = self.lengths.fewest(src_ids)
        return (FewestTokens(min(least, most), END_ID),) if least else ()


def plan_request(
    options: RequestOptions,
    limits: Limits,
    tokenizer: Tokenizer,
    texts: int = 1,
    urgency: Urgency = DEFAULT_URGENCY,
) -> SearchPlan:
    """Check what a request to translate asks, and resolve it.

    Args:
        options: of the request.
        limits: of the model.
        tokenizer: of the model.
        texts: how many the request has.
        urgency: of the request.

    Raises:
        InvalidRequest: a value out of range, or one that does not go with another, by name.
    """
    target = tokenizer.target
    check_options(options, limits, target.vocab_size)
    prefixes = _prefixes(options, texts)
    glossary = Glossary.from_json(options.glossary) if options.glossary else None
    width = _width(options, limits)
    hypotheses = _hypotheses(options, width)
    outputs = Outputs.of(options)
    of_scorer = outputs.token_scores or outputs.alignments is not None or outputs.attention
    # A search whose scores are the model's own knows the sum of the log-probabilities.
    is_altered = (
        options.keep_placeholders
        or options.repetition_penalty is not None
        or options.coverage_penalty is not None
    )
    widest = min(_WIDTH_WITH_TERMS, limits.max_beam_width)
    return SearchPlan(
        languages=(options.source_language, options.target_language),
        outputs=outputs,
        alpha=_alpha(options, limits),
        urgency=urgency,
        assessed=of_scorer or (outputs.confidence and is_altered),
        most_sentence_tokens=(options.max_sentence_tokens or limits.most_text_tokens)
        if options.split_sentences
        else None,
        width=width,
        width_with_terms=width if options.beam_width is not None else widest,
        hypotheses=hypotheses,
        samples=hypotheses if options.sampled else 0,
        alternatives=hypotheses if options.return_alternatives else 0,
        coverage_penalty=options.coverage_penalty or 0.0,
        lengths=Lengths(options, limits, tokenizer.tags + 1),
        prefixes=prefixes,
        terms=RequiredTerms(glossary, options.keep_placeholders, target),
        guidance=_guidance(options, target),
        target=target,
    )


def plan_stream(
    options: RequestOptions, limits: Limits, tokenizer: Tokenizer, urgency: Urgency
) -> SearchPlan:
    """As `plan_request`, of one text whose translation is read as it grows."""
    Outputs.of(options).check_stream()
    plan = plan_request(options, limits, tokenizer, urgency=urgency)
    if plan.hypotheses > 1 or options.keep_placeholders or plan.coverage_penalty:
        raise InvalidRequest(
            "a stream has one translation, as it comes: no num_return_sequences, "
            "keep_placeholders or coverage_penalty"
        )
    return plan


def plan_scoring(
    options: RequestOptions, limits: Limits, urgency: Urgency = DEFAULT_URGENCY
) -> ScoringPlan:
    """Check what a request to score given translations asks, and resolve it.

    Raises:
        InvalidRequest: a value out of range, or an option that is for translating, by name.
    """
    check_scoring(options)
    return ScoringPlan(
        languages=(options.source_language, options.target_language),
        outputs=Outputs.of(options),
        alpha=_alpha(options, limits),
        urgency=urgency,
    )


def with_sample(search: SearchOptions, number: int) -> SearchOptions:
    """The search for another sample, which has random numbers of its own."""
    guidance = search.guidance
    assert guidance is not None
    assert guidance.sampling is not None
    sampling = replace(guidance.sampling, seed=(guidance.sampling.seed[0], number))
    return replace(search, guidance=replace(guidance, sampling=sampling))


def _alpha(options: RequestOptions, limits: Limits) -> float:
    return limits.length_penalty if options.length_penalty is None else options.length_penalty


def _prefixes(options: RequestOptions, texts: int) -> tuple[str, ...]:
    values = options.prefix
    if values is None:
        return ()
    if len(values) not in (1, texts):
        raise InvalidRequest(
            f"prefix has {len(values)} values for {texts} texts: give one, or one a text"
        )
    return values if len(values) == texts else values * texts


def _width(options: RequestOptions, limits: Limits) -> int:
    width, most = options.beam_width, limits.max_beam_width
    if width is not None and not 1 <= width <= most:
        raise InvalidRequest(f"beam_width is {width}: give 1 to {most}")
    if options.sampled:
        if width not in (None, 1):
            raise InvalidRequest(
                f"beam_width is {width}, but tokens are sampled with temperature, "
                "top_k, top_p or seed: give 1, or leave those out"
            )
        return 1
    for name in ("glossary", "keep_placeholders", "coverage_penalty"):
        if width == 1 and getattr(options, name):
            raise InvalidRequest(f"{name}: not with beam_width 1, give 2 or more")
    return min(_DEFAULTS.beam_width, most) if width is None else width


def _hypotheses(options: RequestOptions, width: int) -> int:
    """How many translations of a text are requested."""
    wanted, name = options.num_return_sequences, "num_return_sequences"
    most = _MOST_SAMPLES if options.sampled else width
    if wanted is not None and not 1 <= wanted <= most:
        why = "" if options.sampled else ", which is beam_width"
        raise InvalidRequest(f"{name} is {wanted}: give 1 to {most}{why}")
    if (wanted or 1) > 1 and options.keep_placeholders:
        raise InvalidRequest(f"{name}: not with keep_placeholders")
    return wanted or 1


def _guidance(options: RequestOptions, target: Tokenizer) -> Guidance:
    """The constraints on every sentence."""
    rules: list[Rule] = []
    if options.repetition_penalty is not None:
        rules.append(RepetitionPenalty(options.repetition_penalty))
    if options.no_repeat_ngram_size is not None:
        rules.append(NoRepeatedNgrams(options.no_repeat_ngram_size))
    if options.suppress is not None:
        words = dict.fromkeys(_written(word, target) for word in options.suppress)
        rules.append(SuppressedWords(list(words), target.vocabulary))
    sampling = None
    if options.sampled:
        seed = secrets.randbits(63) if options.seed is None else options.seed
        temperature = 1.0 if options.temperature is None else options.temperature
        sampling = Sampling((seed, 0), temperature, options.top_k, options.top_p)
    return Guidance(
        rules=tuple(rules),
        sampling=sampling,
        patience=1.0 if options.patience is None else options.patience,
        early_stopping=options.early_stopping is not False,
    )


def _written(word: str, target: Tokenizer) -> str:
    """A word as the vocabulary writes it.

    Raises:
        InvalidRequest: it does not.
    """
    ids = target.encode(word)
    if not ids or not all(target.vocabulary[token] for token in ids):
        raise cannot_write("suppress", word)
    return target.decode(ids)
