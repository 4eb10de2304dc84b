"""The plan of a request: how to split and search, and which outputs to return.

A plan is made once from the options and the model's limits. All later code reads the plan, not the
options.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from reprlib import repr as brief
from typing import Any

import numpy as np
import numpy.typing as npt
from dragoman_options.arguments import AlignmentForm, OptionArguments
from dragoman_options.markup import Markup
from dragoman_options.table import SCORE, STREAM, TRANSLATE, requested_outputs, sampled, splits

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Limits
from dragoman.kernel.text import UNKNOWN_ID, Tokenizer
from dragoman_serving.engine.constraints import Constraints, Sampling, SuppressedWords
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_serving.fidelity.emphasis import in_usual_case
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.fidelity.unfinished_words import unfinished_word
from dragoman_serving.markup.marked_texts import MarkedSentence
from dragoman_serving.request.checks import check_options
from dragoman_serving.request.glossary import Glossary, Term
from dragoman_serving.request.lengths import Lengths
from dragoman_serving.request.markups import markups_of
from dragoman_serving.request.suppression import suppressed_words
from dragoman_serving.request.urgency import DEFAULT_URGENCY, Urgency

_DEFAULTS = SearchOptions()
_OF_SEARCH = frozenset(("scores", "confidences"))
_OF_SCORER = frozenset(("token_scores", "alignments", "attention"))
"""Outputs that follow from the scores of a search, and outputs that need each token's score."""
_ALTERING = ("glossary", "repetition_penalty", "coverage_penalty")
"""Options that change the scores of a search, or its translation afterwards."""
_UNREPAIRED = frozenset(("repair", "coverage_penalty"))
"""Options that switch repair off. `repair` is among a request's options only if it is false,
because true is the default."""


@dataclass(kw_only=True)  # not frozen: that is three times slower, and each request makes a plan
class ScoringPlan:
    """How to score given translations; `alpha` is the exponent of the length penalty."""

    languages: tuple[str | None, str | None]
    """Source and target language, as in the request."""
    outputs: frozenset[str]
    """Names of the requested outputs."""
    alignment_form: AlignmentForm | None
    alpha: float
    urgency: Urgency
    coverage_penalty: float = 0.0
    """Weight of the coverage penalty; 0: none."""


@dataclass(kw_only=True)
class SearchPlan(ScoringPlan):
    """How to translate the texts of a request."""

    assessed: bool
    """Whether outputs are requested that the search's scores alone do not give."""
    most_sentence_tokens: int | None
    """Limit of a sentence, without special tokens; None: texts are not split."""
    width: int
    """Beam width."""
    hypotheses: int
    """Number of translations of a text."""
    samples: int
    """Number of independent samples of a sentence; 0: no sampling."""
    alternatives: int
    """Number of different tokens after the prefix; 0: no alternatives."""
    lengths: Lengths
    prefixes: tuple[str, ...]
    """Prefix of each text; empty: no text has one."""
    markups: tuple[Markup | None, ...]
    """Markup of each text; empty: no text has markup."""
    glossary: Glossary | None
    keeps_placeholders: bool
    """Whether literals of a known form are kept, and numbers are compared."""
    keeps_tags: bool
    """Whether tags in texts without markup are codes."""
    corrects: bool
    """Whether to search again for a translation that lacks a literal, a number or a term."""
    repairs: bool
    """Whether to search again for a faulty translation."""
    constraints: Constraints
    """Constraints of sentences without constraints of their own."""
    of_capitals: Constraints
    """Those of sentences in capitals, which are translated in their usual case: words in capitals
    are suppressed in it too."""
    draws_seed: bool
    """Whether it samples with a random seed for this request."""
    shortlist: bool
    """Whether only tokens of a sentence's shortlist are scored."""
    target: Tokenizer
    _searches: dict[tuple[int, bool], tuple[int, SearchOptions]] = field(
        default_factory=dict, init=False, repr=False
    )
    """Maximum numbers of tokens and searches of sentences without a prefix, by their numbers of ids
    and whether they are in capitals."""

    def at(self, urgency: Urgency) -> SearchPlan:
        """Returns a copy for a request of another urgency, which shares the cached searches."""
        plan = object.__new__(type(self))  # three times as fast as `copy.copy`
        vars(plan).update(vars(self), urgency=urgency)
        return plan

    def of_sentence(
        self,
        index: int,
        reading: Reading,
        src_ids: Sequence[int],
        marked: MarkedSentence | None = None,
        in_capitals: bool = False,
    ) -> tuple[int, SearchOptions]:
        """Returns how to search for a sentence's translation.

        Args:
            index: index of its text.
            reading: the sentence.
            src_ids: its ids, tag and end symbol included.
            marked: its codes.
            in_capitals: whether its translation is set in capitals.

        Returns:
            The maximum number of tokens, and the search options.

        Raises:
            InvalidRequest: the prefix is too long.
        """
        if not self.prefixes:
            key = len(src_ids), in_capitals
            if (limits := self._searches.get(key)) is None:
                most = self.lengths.most(src_ids)
                search = self._search((), self._least(src_ids, most), in_capitals)
                limits = self._searches[key] = most, search
            if marked is not None and marked.needs_alignment:
                most, search = limits
                return most, replace(search, token_scores=True, alignment=True)
            return limits
        given = self.prefixes[index]
        beginning = reading.put_into(given)
        any_case = in_capitals and given.isupper() and beginning == given
        if any_case:
            beginning = in_usual_case(given, self.languages[1] or "", self.target)
        prefix = tuple(self.target.encode(beginning))
        if UNKNOWN_ID in prefix:
            raise cannot_write("prefix", given)
        most = self.lengths.most(src_ids, len(prefix))
        if prefix and len(prefix) >= most:
            advice = ", or raise max_tokens" if self.lengths.max_tokens else ""
            raise InvalidRequest(
                f"the prefix of text {index} has {len(prefix)} tokens, and its translation at most "
                f"{most}: shorten it{advice}",
                "too_large",
                "prefix",
                index,
            )
        least = self._least(src_ids, most)
        if given[-1:].isalpha() and self._completes:
            completion = unfinished_word(prefix, self.target.vocabulary, any_case)
            if completion is not None:
                kept, not_first = completion
                return most, with_beginning(self._search(prefix, least), kept, not_first)
        return most, self._search(prefix, least, in_capitals)

    @property
    def _completes(self) -> bool:
        """Whether words at the end of prefixes are completed.

        Not where the tokens that complete one may be excluded, and not for alternatives, which
        begin with the token after the prefix.
        """
        return not (self.alternatives or self.shortlist or self.constraints.suppressed)

    def beside(self, index: int, terms: Iterable[Term]) -> str:
        """Returns what a translation may have besides its text's: prefix and terms."""
        return " ".join((*self.prefixes[index : index + 1], *(term.target for term in terms)))

    def of_part(self, src_ids: Sequence[int]) -> tuple[int, SearchOptions]:
        """As `of_sentence`, for the part between two literals."""
        most = self.lengths.most(src_ids)
        return most, self._search((), self._least(src_ids, most))

    def _search(
        self, prefix: tuple[int, ...], least: int, in_capitals: bool = False
    ) -> SearchOptions:
        """Search options for a sentence with its own prefix and minimum length."""
        width = self.width
        # Plain greedy search does not compute scores.
        scored = width == 1 and (self.assessed or not self.outputs.isdisjoint(_OF_SEARCH))
        constraints: Constraints | None = replace(
            self.of_capitals if in_capitals else self.constraints,
            prefix=prefix,
            min_tokens=least,
            scored=scored,
        )
        if constraints == Constraints():
            constraints = None
        # All of the beam, since several may be the same text.
        hypotheses = width if self.coverage_penalty or self.hypotheses > 1 else 1
        return SearchOptions(
            beam_width=width,
            length_penalty=self.alpha,
            hypotheses=1 if self.samples else hypotheses,
            constraints=constraints,
            token_scores=self.assessed or self.coverage_penalty > 0,
            alignment="alignments" in self.outputs or self.coverage_penalty > 0,
            shortlist=self.shortlist,
        )

    def _least(self, src_ids: Sequence[int], most: int) -> int:
        return min(self.lengths.fewest(src_ids), most)


def plan_request(
    given: Mapping[str, Any],
    limits: Limits,
    tokenizer: Tokenizer,
    texts: int = 1,
    urgency: Urgency = DEFAULT_URGENCY,
    model: str = TRANSLATE,
) -> SearchPlan:
    """Check the options of a translation request, and make its plan.

    Args:
        given: options of the request, by name.
        limits: limits of the model.
        tokenizer: tokenizer of the model.
        texts: number of texts in the request.
        urgency: urgency of the request.
        model: name of the Triton model.

    Raises:
        InvalidRequest: see `check_options`.
    """
    target = tokenizer.target
    options = check_options(given, model, limits, target.vocab_size)
    prefixes = _prefixes(options, texts)
    width = _width(options, limits)
    hypotheses = _hypotheses(options, width)
    outputs = _outputs(options)
    is_simple = hypotheses == 1 and not prefixes and not sampled(options)
    is_single = is_simple and model == TRANSLATE
    constraints = _constraints(options, target)
    # If no option changes the scores of a search, they include the sum of the log-probabilities.
    is_altered = any(name in options for name in _ALTERING)
    return SearchPlan(
        languages=(options.get("source_language"), options.get("target_language")),
        outputs=outputs,
        alignment_form=options.get("return_alignments"),
        alpha=_alpha(options, limits),
        urgency=urgency,
        assessed=not outputs.isdisjoint(_OF_SCORER) or ("confidences" in outputs and is_altered),
        most_sentence_tokens=_most_sentence_tokens(options, limits),
        width=width,
        hypotheses=hypotheses,
        samples=hypotheses if sampled(options) else 0,
        alternatives=hypotheses if "return_alternatives" in options else 0,
        coverage_penalty=options.get("coverage_penalty") or 0.0,
        lengths=Lengths.of(options, limits, tokenizer.tags + 1),
        prefixes=prefixes,
        markups=markups_of(options, texts),
        glossary=_glossary(options),
        keeps_placeholders=options.get("keep_placeholders") is not False,
        keeps_tags=is_simple and "coverage_penalty" not in options,
        corrects=not (sampled(options) or "return_alternatives" in options),
        repairs=is_single and _UNREPAIRED.isdisjoint(options),
        constraints=constraints,
        of_capitals=_of_capitals(constraints, options, target),
        draws_seed=sampled(options) and options.get("seed") is None,
        shortlist=options.get("shortlist") or False,
        target=target,
    )


def plan_stream(
    given: Mapping[str, Any], limits: Limits, tokenizer: Tokenizer, urgency: Urgency
) -> SearchPlan:
    """As `plan_request`, for one text that is streamed."""
    return plan_request(given, limits, tokenizer, urgency=urgency, model=STREAM)


def plan_scoring(
    given: Mapping[str, Any], limits: Limits, urgency: Urgency = DEFAULT_URGENCY
) -> ScoringPlan:
    """Check the options of a scoring request, and make its plan.

    Raises:
        InvalidRequest: see `check_options`.
    """
    options = check_options(given, SCORE, limits)
    return ScoringPlan(
        languages=(options.get("source_language"), options.get("target_language")),
        outputs=_outputs(options),
        alignment_form=options.get("return_alignments"),
        alpha=_alpha(options, limits),
        urgency=urgency,
    )


def with_beginning(
    search: SearchOptions, prefix: tuple[int, ...], not_first: npt.NDArray[np.float32]
) -> SearchOptions:
    """Returns a search with a prefix.

    Args:
        search: the search of the sentence.
        prefix: ids of the beginning of the translation.
        not_first: see `Constraints`.
    """
    constraints = replace(search.constraints or Constraints(), prefix=prefix, not_first=not_first)
    return replace(search, constraints=constraints)


def with_sample(search: SearchOptions, number: int) -> SearchOptions:
    """Returns the search for another sample, with its own random numbers."""
    constraints = search.constraints
    assert constraints is not None
    assert constraints.sampling is not None
    sampling = replace(constraints.sampling, seed=(constraints.sampling.seed[0], number))
    return replace(search, constraints=replace(constraints, sampling=sampling))


def with_alternatives(search: SearchOptions, ranks: range) -> SearchOptions:
    """Returns the search for some of the alternatives at a position."""
    return replace(search, hypotheses=len(ranks), alternatives=ranks)


def _outputs(options: OptionArguments) -> frozenset[str]:
    return frozenset(requested_outputs(options))


def _alpha(options: OptionArguments, limits: Limits) -> float:
    alpha = options.get("length_penalty")
    return limits.length_penalty if alpha is None else alpha


def _most_sentence_tokens(options: OptionArguments, limits: Limits) -> int | None:
    if not splits(options):
        return None
    return options.get("max_sentence_tokens") or limits.sentence_tokens


def _prefixes(options: OptionArguments, texts: int) -> tuple[str, ...]:
    if "prefix" not in options:
        return ()
    values = tuple(options["prefix"] or ())
    if len(values) not in (1, texts):
        raise InvalidRequest(
            f"prefix has {len(values)} values for {texts} texts: give one, or one for each text",
            option="prefix",
        )
    return values if len(values) == texts else values * texts


def _glossary(options: OptionArguments) -> Glossary | None:
    terms = options.get("glossary")
    return Glossary(terms) if terms else None


def _width(options: OptionArguments, limits: Limits) -> int:
    if sampled(options):
        return 1
    width = options.get("beam_width")
    return min(_DEFAULTS.beam_width, limits.max_beam_width) if width is None else width


def _hypotheses(options: OptionArguments, width: int) -> int:
    """The requested number of translations of a text."""
    count = options.get("num_return_sequences") or 1
    if count > width and not sampled(options):
        raise InvalidRequest(
            f"num_return_sequences is {count}: give 1 to {width}, which is beam_width",
            option="num_return_sequences",
        )
    return count


def _constraints(options: OptionArguments, target: Tokenizer) -> Constraints:
    """The constraints of all sentences."""
    suppressed = None
    if "suppress" in options:
        suppressed = _suppressed(options["suppress"] or (), target)
    sampling = None
    if sampled(options):
        seed = options.get("seed")
        seed = secrets.randbits(63) if seed is None else seed
        temperature = options.get("temperature") or 1.0
        sampling = Sampling((seed, 0), temperature, options.get("top_k"), options.get("top_p"))
    return Constraints(
        repetition_penalty=options.get("repetition_penalty") or 1.0,
        no_repeat_ngram_size=options.get("no_repeat_ngram_size"),
        suppressed=suppressed,
        sampling=sampling,
        patience=options.get("patience") or 1.0,
        early_stopping=options.get("early_stopping") is not False,
    )


def _of_capitals(
    constraints: Constraints, options: OptionArguments, target: Tokenizer
) -> Constraints:
    words = options.get("suppress") or ()
    capitals = [word for word in words if word.isupper()]
    if not capitals:
        return constraints
    usual = (form(word) for word in capitals for form in (str.lower, str.title))
    return replace(
        constraints, suppressed=_suppressed((*words, *filter(target.can_write, usual)), target)
    )


def _suppressed(words: Iterable[str], target: Tokenizer) -> SuppressedWords:
    written = dict.fromkeys(_written(word, target) for word in words)
    return suppressed_words(list(written), target.vocabulary)


def _written(word: str, target: Tokenizer) -> str:
    """The vocabulary's spelling of a word."""
    ids = target.encode(word)
    if not ids or not all(target.vocabulary[token] for token in ids):
        raise cannot_write("suppress", word)
    return target.decode(ids)


def cannot_write(option: str, text: str) -> InvalidRequest:
    """Returns the error for text that the vocabulary has no tokens for."""
    message = f"{option}: the model's vocabulary cannot write {brief(text)}"
    return InvalidRequest(message, "unsupported", option)
