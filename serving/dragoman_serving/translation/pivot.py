"""Translations through a pivot language: that of each leg made one."""

from __future__ import annotations

from dataclasses import replace

from dragoman.kernel.language import Detected
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
    """The translation of a text through a pivot language.

    Text, tokens and scores are those of the last leg: what its model thinks of its translation,
    given the text in the pivot language. Faults are those of both.

    Args:
        first: the text in the pivot language.
        last: the translation of that one.
        via: the pivot language.
        detected: the language of the text, if it was to be detected.
        markup: of the text, if it has any.
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
    )
