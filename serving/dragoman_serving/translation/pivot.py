"""Joins the translations of the two legs of a pivot translation."""

from __future__ import annotations

from dataclasses import replace

from dragoman.kernel.texts.language import Detected
from dragoman_serving.markup.carried_markup import CarriedMarkup
from dragoman_serving.scoring.alignment import composed
from dragoman_serving.translation.translation import Translation


def joined(
    first: Translation,
    last: Translation,
    via: str,
    detected: Detected | None,
    markup: CarriedMarkup | None = None,
) -> Translation:
    """Returns the translation of a text through a pivot language.

    Text, tokens and scores are those of the last leg, so the scores are given the text in the pivot
    language. Source tokens are those of the first leg, and warnings those of both.

    Args:
        first: translation into the pivot language.
        last: translation of that into the target language.
        via: the pivot language.
        detected: the detected language of the text, if detection was requested.
        markup: markup of the text, if it has any.
    """
    assessment = last.assessment
    if assessment is not None and assessment.alignment is not None:
        before = first.assessment.alignment if first.assessment else None
        assessment = replace(assessment, alignment=composed(before, assessment.alignment))
    codes = last.codes
    if markup is not None and first.codes is not None and codes is not None:
        codes = markup.joined(first.codes, codes)
    return replace(
        last,
        complete=first.complete and last.complete,
        others=tuple(joined(first, other, via, detected) for other in last.others),
        assessment=assessment,
        detected=detected,
        codes=codes,
        warnings=tuple(sorted({*first.warnings, *last.warnings})),
        via=via,
        source_tokens=first.source_tokens,
    )
