"""What a request may ask beside its texts, and how much of it.

Knows the options' names, types and ranges; must not know texts, engines or Triton.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from reprlib import repr as brief
from typing import Any, get_args, get_type_hints

from dragoman.errors import UsageError
from dragoman.manifest import Limits
from serving.alignment import FORMS
from serving.engine.sentence import SearchOptions

MAX_LENGTH_PENALTY = 10.0
_DEFAULTS = SearchOptions()
OF_SCORING = (
    *("source_language", "target_language", "length_penalty", "return_scores"),
    *("return_token_scores", "return_alignments", "return_confidence"),
)
"""Options that the scoring of given translations knows."""


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
    return_token_scores: bool = False
    return_alignments: str | None = None
    return_confidence: bool = False

    @property
    def assessed(self) -> bool:
        """Whether translations are to be scored once they are there."""
        greedy = (_DEFAULTS.beam_width if self.beam_width is None else self.beam_width) == 1
        return (
            self.return_token_scores
            or self.return_alignments is not None
            or self.return_confidence
            or (self.return_scores and greedy)
        )

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
    _check_alpha(alpha)
    tokens = options.max_tokens
    if tokens is not None and not 1 <= tokens <= limits.max_target_tokens:
        raise InvalidRequest(f"max_tokens is {tokens}: give 1 to {limits.max_target_tokens}")
    width = _DEFAULTS.beam_width if width is None else width
    check_alignments(options)
    return SearchOptions(
        beam_width=width,
        length_penalty=_DEFAULTS.length_penalty if alpha is None else alpha,
        hypotheses=_hypotheses(options, width),
    )


def check_alignments(options: RequestOptions) -> None:
    """Refuse a form of alignments that there is not.

    Raises:
        InvalidRequest: it is one.
    """
    wanted = options.return_alignments
    if wanted is not None and wanted not in FORMS:
        raise InvalidRequest(f"return_alignments is {brief(wanted)}: give {' or '.join(FORMS)}")


def scoring_alpha(options: RequestOptions) -> float:
    """The length penalty by which given translations are scored.

    Raises:
        InvalidRequest: a value out of range, or an option that is for translating, by name.
    """
    for field in fields(options):
        if field.name not in OF_SCORING and getattr(options, field.name) != field.default:
            raise InvalidRequest(
                f"option {field.name} is not for scoring; known: {', '.join(OF_SCORING)}"
            )
    check_alignments(options)
    _check_alpha(options.length_penalty)
    return _DEFAULTS.length_penalty if options.length_penalty is None else options.length_penalty


def _check_alpha(alpha: float | None) -> None:
    """Refuse a length penalty out of range.

    Raises:
        InvalidRequest: it is.
    """
    if alpha is not None and not 0.0 <= alpha <= MAX_LENGTH_PENALTY:
        raise InvalidRequest(f"length_penalty is {alpha}: give 0 to {MAX_LENGTH_PENALTY:g}")


def _hypotheses(options: RequestOptions, width: int) -> int:
    """How many translations of a text are wanted.

    Raises:
        InvalidRequest: more than there are, or what a text of several sentences has not.
    """
    wanted = options.num_return_sequences
    if wanted is not None and not 1 <= wanted <= width:
        raise InvalidRequest(
            f"num_return_sequences is {wanted}: give 1 to {width}, which is beam_width"
        )
    if options.split_sentences and (options.return_scores or (wanted or 1) > 1):
        name = "return_scores" if options.return_scores else "num_return_sequences"
        raise InvalidRequest(f"{name}: not with split_sentences, send the sentences one by one")
    return wanted or 1
