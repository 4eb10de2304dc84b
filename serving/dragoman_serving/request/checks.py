"""What a request's options may be, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from reprlib import repr as brief

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import MOST_LENGTH_PENALTY, Limits
from dragoman_serving.request.options import RequestOptions
from dragoman_serving.request.outputs import ALIGNMENT_FORMS, OPTIONS_OF_OUTPUTS

OF_SCORING = ("source_language", "target_language", "length_penalty", *OPTIONS_OF_OUTPUTS)
"""Options that the scoring of given translations knows."""
_LEAST_SENTENCE_TOKENS = 8
"""Most characters have fewer, so that a sentence can be cut between two of them."""
_MOST_SUPPRESSED = 100
_MOST_SUPPRESSED_CHARACTERS = 100
_MOST_SEED = 2**63 - 1


@dataclass(frozen=True)
class _Range:
    """What a number may be."""

    least: float
    most: float
    above: bool = False
    """Whether it must be more than the least."""

    def check(self, name: str, value: float | None) -> None:
        """Refuse a number out of range.

        Raises:
            InvalidRequest: it is, or is no number at all.
        """
        if value is None or (self.least <= value <= self.most and not self._is_least(value)):
            return
        least = f"more than {self.least:g}" if self.above else f"{self.least:g}"
        raise InvalidRequest(f"{name} is {value}: give {least} to {self.most:g}")

    def _is_least(self, value: float) -> bool:
        return self.above and value == self.least


_RANGES = {
    "length_penalty": _Range(0, MOST_LENGTH_PENALTY),
    "coverage_penalty": _Range(0, 10),
    "patience": _Range(0, 10, above=True),
    "repetition_penalty": _Range(0, 10, above=True),
    "no_repeat_ngram_size": _Range(1, 100),
    "temperature": _Range(0.001, 100),
    "top_p": _Range(0, 1, above=True),
    "max_length_ratio": _Range(0, 100, above=True),
    "min_length_ratio": _Range(0, 100),
    "seed": _Range(0, _MOST_SEED),
}


def check_options(options: RequestOptions, limits: Limits, vocab_size: int) -> None:
    """Refuse what cannot be asked for.

    Args:
        options: of a request.
        limits: of the model.
        vocab_size: V.

    Raises:
        InvalidRequest: a value out of range, or one that does not go with another, by name.
    """
    _check_ranges(options, limits, vocab_size)
    _check_sentence_tokens(options, limits)
    _check_alignments(options)
    _check_words(options.suppress or ())
    _check_company(options)


def check_scoring(options: RequestOptions) -> None:
    """Refuse what cannot be asked for given translations.

    Raises:
        InvalidRequest: a value out of range, or an option that is for translating, by name.
    """
    for field in fields(options):
        if field.name not in OF_SCORING and getattr(options, field.name) != field.default:
            raise InvalidRequest(
                f"option {field.name} is not for scoring; known: {', '.join(OF_SCORING)}"
            )
    _RANGES["length_penalty"].check("length_penalty", options.length_penalty)
    _check_alignments(options)


def _check_ranges(options: RequestOptions, limits: Limits, vocab_size: int) -> None:
    for name, range_ in _RANGES.items():
        range_.check(name, getattr(options, name))
    _Range(1, limits.max_target_tokens).check("max_tokens", options.max_tokens)
    _Range(0, limits.max_target_tokens).check("min_tokens", options.min_tokens)
    _Range(1, vocab_size).check("top_k", options.top_k)
    most, least = options.max_tokens, options.min_tokens
    if most is not None and least is not None and least > most:
        raise InvalidRequest(f"min_tokens is {least}, more than max_tokens, {most}")


def _check_alignments(options: RequestOptions) -> None:
    wanted = options.return_alignments
    if wanted is not None and wanted not in ALIGNMENT_FORMS:
        forms = " or ".join(ALIGNMENT_FORMS)
        raise InvalidRequest(f"return_alignments is {brief(wanted)}: give {forms}")


def _check_sentence_tokens(options: RequestOptions, limits: Limits) -> None:
    if options.max_sentence_tokens is not None and not options.split_sentences:
        raise InvalidRequest("max_sentence_tokens: only with split_sentences")
    range_ = _Range(_LEAST_SENTENCE_TOKENS, limits.most_text_tokens)
    range_.check("max_sentence_tokens", options.max_sentence_tokens)


def _check_company(options: RequestOptions) -> None:
    """Refuse options that do not go with each other."""
    several = (options.num_return_sequences or 1) > 1
    for_one_sentence = {
        "return_scores": options.return_scores,
        "num_return_sequences": several,
        "prefix": options.prefix is not None,
        "return_alternatives": options.return_alternatives,
        "return_attention": options.return_attention,
    }
    of_beams = {
        "patience": options.patience is not None,
        "early_stopping": options.early_stopping is not None,
        "coverage_penalty": options.coverage_penalty is not None,
        "return_alternatives": options.return_alternatives,
        "glossary": options.glossary is not None,
        "keep_placeholders": options.keep_placeholders,
    }
    if options.split_sentences:
        for name in filter(for_one_sentence.get, for_one_sentence):
            raise InvalidRequest(f"{name}: not with split_sentences, send the sentences one by one")
    if options.sampled:
        for name in filter(of_beams.get, of_beams):
            raise InvalidRequest(f"{name}: not with temperature, top_k, top_p or seed")
    if options.max_length_ratio is not None and options.max_tokens is not None:
        raise InvalidRequest("max_length_ratio: not with max_tokens, give one of them")
    for name in ("coverage_penalty", "prefix"):
        if options.keep_placeholders and getattr(options, name) is not None:
            raise InvalidRequest(f"{name}: not with keep_placeholders")
    most, least = options.max_length_ratio, options.min_length_ratio
    if most is not None and least is not None and least > most:
        raise InvalidRequest(f"min_length_ratio is {least}, more than max_length_ratio, {most}")
    if options.return_alternatives:
        if not several:
            raise InvalidRequest("return_alternatives: say how many by num_return_sequences")
        for name in ("glossary", "keep_placeholders", "coverage_penalty"):
            if of_beams[name]:
                raise InvalidRequest(f"return_alternatives: not with {name}")


def _check_words(words: Sequence[str]) -> None:
    if len(words) > _MOST_SUPPRESSED:
        raise InvalidRequest(f"suppress has {len(words)} words, more than {_MOST_SUPPRESSED}")
    for word in words:
        if not word.strip():
            raise InvalidRequest("suppress has an empty word")
        if len(word) > _MOST_SUPPRESSED_CHARACTERS:
            raise InvalidRequest(
                f"suppress: {brief(word)} has more than {_MOST_SUPPRESSED_CHARACTERS} characters"
            )
