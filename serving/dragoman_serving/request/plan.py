"""How to search for the translations that a request wants: its options, checked, by sentence.

Knows options, tokens and the model's limits; must not know the engine or Triton.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from reprlib import repr as brief

import numpy as np
import numpy.typing as npt

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Limits
from dragoman.kernel.text import END_ID, UNKNOWN_ID, Tokenizer
from dragoman_serving.engine.search.constraints import (
    FewestTokens,
    Guidance,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Rule,
    Sampling,
    TermConstraints,
)
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_serving.request.checks import alpha_of, check_options
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.request.options import RequestOptions
from dragoman_serving.request.placeholders import find_placeholders, is_tag
from dragoman_serving.request.suppression import SuppressedWords

_DEFAULTS = SearchOptions()
_WIDTH_WITH_TERMS = 8
"""Where a term must be said, hypotheses that have said it and others share the beam."""
_MOST_SAMPLES = 64


class SearchPlan:
    """The searches of one request."""

    def __init__(
        self, options: RequestOptions, limits: Limits, tokenizer: Tokenizer, texts: int = 1
    ) -> None:
        """Check what a request asks.

        Args:
            options: of the request.
            limits: of the model.
            tokenizer: of the model.
            texts: how many the request has.

        Raises:
            InvalidRequest: a value out of range, or one that does not go with another, by name.
        """
        self._options = options
        self._limits = limits
        self._target = tokenizer.target
        self._specials = tokenizer.tags + 1
        """Source ids that are no text: the tag, if there are any, and the end symbol."""
        check_options(options, limits, tokenizer.target.vocab_size)
        self._prefixes = self._of_texts(options.prefix, texts)
        self._glossary = Glossary.from_json(options.glossary) if options.glossary else None
        self.alpha = alpha_of(options, limits)
        self.width = self._width()
        self.hypotheses = self._hypotheses()
        self._rules = self._all_rules()
        self._has_least = bool(options.min_tokens or options.min_length_ratio)
        self._seed = secrets.randbits(63) if options.seed is None else options.seed

    @property
    def samples(self) -> int:
        """How many translations of a sentence are drawn, each by itself; 0 where none is."""
        return self.hypotheses if self._options.sampled else 0

    @property
    def alternatives(self) -> int:
        """In how many ways a translation is to go on behind its prefix; 0 where that is open."""
        return self.hypotheses if self._options.return_alternatives else 0

    @property
    def coverage_penalty(self) -> float:
        """By how much a hypothesis loses that leaves words of its text out."""
        return self._options.coverage_penalty or 0.0

    @property
    def _is_scored(self) -> bool:
        """Whether a search must score what it finds, which greedy search by itself does not."""
        return self._options.return_scores or self._options.return_confidence

    @property
    def keeps_placeholders(self) -> bool:
        """Whether placeholders must be in a translation as they are in the text."""
        return self._options.keep_placeholders

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
        if self._glossary is None and not self._prefixes and not self.keeps_placeholders:
            most = self._most_tokens(src_ids, 0)
            rules = self._rules_of(src_ids, most)
            return most, self._usual if rules is self._rules else self._search((), None, rules)
        prefix = tuple(self._target.encode(self._prefixes[index])) if self._prefixes else ()
        if UNKNOWN_ID in prefix:
            raise InvalidRequest(_cannot_write("prefix", self._prefixes[index]))
        terms = self._terms(text)
        given = (prefix, *terms.sequences) if terms else (prefix,)
        most = self._most_tokens(src_ids, sum(map(len, given)))
        if prefix and len(prefix) >= most:
            raise InvalidRequest(
                f"the prefix of text {index} has {len(prefix)} tokens, and its translation at most "
                f"{most}: shorten it"
                + (", or raise max_tokens" if self._options.max_tokens else "")
            )
        return most, self._search(prefix, terms, self._rules_of(src_ids, most))

    def altered_placeholders(self, index: int, text: str) -> tuple[tuple[str, str], ...]:
        """Placeholders that the vocabulary writes otherwise, each beside how the text has it.

        Args:
            index: of the text that the sentence stands in.
            text: the sentence.

        Raises:
            InvalidRequest: the vocabulary lacks a character of one, or what is a placeholder in the
                one is none in the other.
        """
        if not self.keeps_placeholders:
            return ()
        raw, written = find_placeholders(text), self.placeholders(text)
        for placeholder in raw:
            # As decoded it has other characters in its place, which can be written.
            if UNKNOWN_ID in self._target.encode(placeholder):
                raise InvalidRequest(_cannot_write("keep_placeholders", placeholder))
        if len(raw) != len(written):
            raise InvalidRequest(
                f"text {index} has placeholders that the model's vocabulary cannot write"
            )
        return tuple(pair for pair in zip(written, raw, strict=True) if pair[0] != pair[1])

    def placeholders(self, text: str) -> list[str]:
        """The placeholders of a sentence as the vocabulary writes them."""
        return find_placeholders(self._normalised(text))

    def of_part(self, text: str, src_ids: Sequence[int]) -> tuple[int, SearchOptions]:
        """As `of_sentence`, of what stands between two placeholders."""
        terms = self._terms(text, placeholders=False)
        most = self._most_tokens(src_ids, sum(map(len, terms.sequences)) if terms else 0)
        return most, self._search((), terms, self._rules_of(src_ids, most))

    @cached_property
    def _usual(self) -> SearchOptions:
        """The search for sentences that have nothing of their own."""
        return self._search((), None, self._rules)

    def _search(
        self, prefix: tuple[int, ...], terms: TermConstraints | None, rules: tuple[Rule, ...]
    ) -> SearchOptions:
        guidance: Guidance | None = Guidance(
            prefix,
            rules,
            terms,
            Sampling((self._seed, 0), *self._distribution) if self.samples else None,
            1.0 if self._options.patience is None else self._options.patience,
            self._options.early_stopping is not False,
        )
        width = self.width
        if terms and self._options.beam_width is None:
            width = min(_WIDTH_WITH_TERMS, self._limits.max_beam_width)
        if guidance == Guidance() and not (width == 1 and self._is_scored):
            guidance = None
        hypotheses = width if self.coverage_penalty else self.hypotheses
        return SearchOptions(width, self.alpha, 1 if self.samples else hypotheses, guidance)

    @property
    def _distribution(self) -> tuple[float, int | None, float | None]:
        options = self._options
        temperature = 1.0 if options.temperature is None else options.temperature
        return temperature, options.top_k, options.top_p

    def _of_texts(self, values: tuple[str, ...] | None, texts: int) -> tuple[str, ...]:
        if values is None:
            return ()
        if len(values) not in (1, texts):
            raise InvalidRequest(
                f"prefix has {len(values)} values for {texts} texts: give one, or one a text"
            )
        return values if len(values) == texts else values * texts

    def _width(self) -> int:
        width, most = self._options.beam_width, self._limits.max_beam_width
        if width is not None and not 1 <= width <= most:
            raise InvalidRequest(f"beam_width is {width}: give 1 to {most}")
        if self._options.sampled:
            if width not in (None, 1):
                raise InvalidRequest(
                    f"beam_width is {width}, but tokens are drawn by chance with temperature, "
                    "top_k, top_p or seed: give 1, or leave those out"
                )
            return 1
        for name in ("glossary", "keep_placeholders", "coverage_penalty"):
            if width == 1 and getattr(self._options, name):
                raise InvalidRequest(f"{name}: not with beam_width 1, give 2 or more")
        return min(_DEFAULTS.beam_width, most) if width is None else width

    def _hypotheses(self) -> int:
        """How many translations of a text are wanted."""
        options = self._options
        wanted, name = options.num_return_sequences, "num_return_sequences"
        most = _MOST_SAMPLES if options.sampled else self.width
        if wanted is not None and not 1 <= wanted <= most:
            why = "" if options.sampled else ", which is beam_width"
            raise InvalidRequest(f"{name} is {wanted}: give 1 to {most}{why}")
        if (wanted or 1) > 1 and self.keeps_placeholders:
            raise InvalidRequest(f"{name}: not with keep_placeholders")
        return wanted or 1

    def _all_rules(self) -> tuple[Rule, ...]:
        options = self._options
        rules: list[Rule] = []
        if options.repetition_penalty is not None:
            rules.append(RepetitionPenalty(options.repetition_penalty))
        if options.no_repeat_ngram_size is not None:
            rules.append(NoRepeatedNgrams(options.no_repeat_ngram_size))
        if options.suppress is not None:
            words = dict.fromkeys(map(self._checked_word, options.suppress))
            rules.append(SuppressedWords(list(words), self._target.vocabulary))
        return tuple(rules)

    def _checked_word(self, word: str) -> str:
        """A word as the vocabulary writes it.

        Raises:
            InvalidRequest: it does not.
        """
        ids = self._target.encode(word)
        if not ids or not all(self._target.vocabulary[token] for token in ids):
            raise InvalidRequest(_cannot_write("suppress", word))
        return self._target.decode(ids)

    def _rules_of(self, src_ids: Sequence[int], most: int) -> tuple[Rule, ...]:
        least = self._fewest_tokens(src_ids)
        if not least:
            return self._rules
        return (*self._rules, FewestTokens(min(least, most), END_ID))

    def _fewest_tokens(self, src_ids: Sequence[int]) -> int:
        if not self._has_least:
            return 0
        wanted = self._times(self._options.min_length_ratio or 0.0, src_ids)
        return max(self._options.min_tokens or 0, math.ceil(wanted))

    def _most_tokens(self, src_ids: Sequence[int], wished: int) -> int:
        """The most tokens of a translation, of which so many are given."""
        options, limits = self._options, self._limits
        if options.max_tokens is not None:
            return options.max_tokens
        if options.max_length_ratio is not None:
            most = max(int(self._times(options.max_length_ratio, src_ids)), 1) + 1  # the end symbol
        else:
            most = limits.target_tokens(len(src_ids)) + wished
            most = max(most, self._fewest_tokens(src_ids) + 1)
        return min(most, limits.max_target_tokens)

    def _terms(self, text: str, placeholders: bool = True) -> TermConstraints | None:
        terms: list[str] = []
        after: list[int | None] = []
        if self._glossary is not None:
            terms += self._glossary.targets_of(text)
            after += [None] * len(terms)
        of_glossary = len(terms)
        last_tag: int | None = None
        if self.keeps_placeholders and placeholders:
            for placeholder in self.placeholders(text):
                after.append(last_tag if is_tag(placeholder) else None)
                if is_tag(placeholder):
                    last_tag = len(terms)
                terms.append(placeholder)
        if not terms:
            return None
        sequences = tuple(tuple(self._target.encode(term)) for term in terms)
        for place, sequence in enumerate(sequences):
            if not sequence or UNKNOWN_ID in sequence:
                name = "glossary" if place < of_glossary else "keep_placeholders"
                raise InvalidRequest(_cannot_write(name, terms[place]))
        return TermConstraints(sequences, self._continuing, tuple(after))

    @cached_property
    def _continuing(self) -> npt.NDArray[np.bool_]:
        return np.array([piece[:1].isalnum() for piece in self._target.vocabulary])

    def _normalised(self, text: str) -> str:
        return self._target.decode(self._target.encode(text))

    def _times(self, ratio: float, src_ids: Sequence[int]) -> float:
        """So many tokens for each of a text."""
        # Ratios come as fp32, and 0.3 of 10 is to be 3 all the same.
        return round(ratio * (len(src_ids) - self._specials), 4)


def with_sample(search: SearchOptions, number: int) -> SearchOptions:
    """The search for another translation by chance, which has numbers of its own."""
    guidance = search.guidance
    assert guidance is not None
    assert guidance.sampling is not None
    sampling = replace(guidance.sampling, seed=(guidance.sampling.seed[0], number))
    return replace(search, guidance=replace(guidance, sampling=sampling))


def _cannot_write(option: str, text: str) -> str:
    return f"{option}: the model's vocabulary cannot write {brief(text)}"
