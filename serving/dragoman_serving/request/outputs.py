"""What a request returns beside its translations."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, cast, get_args

from dragoman.kernel.errors import InvalidRequest
from dragoman_serving.request.options import RequestOptions

AlignmentForm = Literal["hard", "soft"]
ALIGNMENT_FORMS: tuple[AlignmentForm, ...] = get_args(AlignmentForm)


@dataclass(frozen=True)
class Outputs:
    """The outputs that a request asks for; each is the option of this name after `return_`."""

    scores: bool = False
    token_scores: bool = False
    alignments: AlignmentForm | None = None
    confidence: bool = False
    attention: bool = False

    @classmethod
    def of(cls, options: RequestOptions) -> Outputs:
        """Those of a request's options, which are checked elsewhere."""
        return cls(
            options.return_scores,
            options.return_token_scores,
            cast("AlignmentForm | None", options.return_alignments),
            options.return_confidence,
            options.return_attention,
        )

    def check_stream(self) -> None:
        """Refuse what a stream does not return.

        Raises:
            InvalidRequest: an output is asked for.
        """
        if self.scores:
            raise InvalidRequest("return_scores: a stream has no scores")
        if self != Outputs():
            raise InvalidRequest(
                "a stream has no return_token_scores, return_attention, return_alignments or "
                "return_confidence: ask the model translate"
            )


OPTIONS_OF_OUTPUTS = tuple(f"return_{field.name}" for field in fields(Outputs))
