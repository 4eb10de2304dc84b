"""What a request may ask beside its texts, and how much of it.

Knows the options' names, types and ranges; must not know texts, engines or Triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from reprlib import repr as brief
from typing import Any, get_args, get_type_hints

from dragoman.errors import UsageError
from dragoman.manifest import Limits
from serving.engine.sentence import SearchOptions

MAX_LENGTH_PENALTY = 10.0
LEAST_SENTENCE_TOKENS = 8
"""Most characters have fewer, so that a sentence can be cut between two of them."""
_DEFAULTS = SearchOptions()


class InvalidRequest(UsageError):
    """A request that cannot be served; the message says why and names the text's index."""


@dataclass(frozen=True)
class RequestOptions:
    """What a request may ask beside its texts; None leaves it to the model.

    With `target_language` alone the source is the model's other language, and the reverse; with
    neither, the model's first language is translated into its second. With a `source_language` of
    `auto` it is found out, text by text.
    """

    source_language: str | None = None
    target_language: str | None = None
    max_tokens: int | None = None
    beam_width: int | None = None
    length_penalty: float | None = None
    split_sentences: bool = False
    num_return_sequences: int | None = None
    return_scores: bool = False
    max_sentence_tokens: int | None = None

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> RequestOptions:
        """Check names and types of options.

        Raises:
            InvalidRequest: an unknown name or a value of the wrong type, by name.
        """
        checked: dict[str, Any] = {}
        for name, value in values.items():
            wanted = _TYPES.get(name)
            if wanted is None:
                raise InvalidRequest(f"unknown option {brief(name)}; known: {', '.join(_TYPES)}")
            if wanted is float and type(value) is int:
                value = float(value)
            if type(value) is not wanted:
                raise InvalidRequest(f"option {name} is {brief(value)}: expected {_KINDS[wanted]}")
            checked[name] = value
        return cls(**checked)


_TYPES: dict[str, type] = {
    name: (get_args(hint) or (hint,))[0] for name, hint in get_type_hints(RequestOptions).items()
}
"""Type of each option, without the None."""
_KINDS = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def search_options(options: RequestOptions, limits: Limits) -> SearchOptions:
    """How to search, as a request asks.

    Args:
        options: of the request.
        limits: of the model.

    Raises:
        InvalidRequest: a value out of range, or one that does not go with another, by name.
    """
    width, alpha = options.beam_width, options.length_penalty
    if width is not None and not 1 <= width <= limits.max_beam_width:
        raise InvalidRequest(f"beam_width is {width}: give 1 to {limits.max_beam_width}")
    if alpha is not None and not 0.0 <= alpha <= MAX_LENGTH_PENALTY:
        raise InvalidRequest(f"length_penalty is {alpha}: give 0 to {MAX_LENGTH_PENALTY:g}")
    tokens = options.max_tokens
    if tokens is not None and not 1 <= tokens <= limits.max_target_tokens:
        raise InvalidRequest(f"max_tokens is {tokens}: give 1 to {limits.max_target_tokens}")
    _check_sentence_tokens(options, limits)
    width = _DEFAULTS.beam_width if width is None else width
    return SearchOptions(
        beam_width=width,
        length_penalty=_DEFAULTS.length_penalty if alpha is None else alpha,
        hypotheses=_hypotheses(options, width),
    )


def _check_sentence_tokens(options: RequestOptions, limits: Limits) -> None:
    """Refuse a length of sentences that cannot be kept.

    Raises:
        InvalidRequest: it is out of range, or nothing is cut into sentences.
    """
    tokens, most = options.max_sentence_tokens, limits.most_text_tokens
    if tokens is None:
        return
    if not options.split_sentences:
        raise InvalidRequest("max_sentence_tokens: only with split_sentences")
    if not LEAST_SENTENCE_TOKENS <= tokens <= most:
        raise InvalidRequest(
            f"max_sentence_tokens is {tokens}: give {LEAST_SENTENCE_TOKENS} to {most}"
        )


def _hypotheses(options: RequestOptions, width: int) -> int:
    """How many translations of a text are wanted.

    Raises:
        InvalidRequest: more than there are, or scores where there are none.
    """
    wanted = options.num_return_sequences
    if wanted is not None and not 1 <= wanted <= width:
        raise InvalidRequest(
            f"num_return_sequences is {wanted}: give 1 to {width}, which is beam_width"
        )
    if options.return_scores and width == 1:
        raise InvalidRequest("return_scores: greedy search has none, give beam_width 2 or more")
    if options.split_sentences and (options.return_scores or (wanted or 1) > 1):
        name = "return_scores" if options.return_scores else "num_return_sequences"
        raise InvalidRequest(f"{name}: not with split_sentences, send the sentences one by one")
    return wanted or 1
