"""BLEU and chrF of translations, with the signatures needed to reproduce them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sacrebleu


@dataclass(frozen=True)
class Quality:
    """Corpus scores; `*_signature` states exactly how they were computed."""

    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str


def measure(translations: Sequence[str], references: Sequence[str]) -> Quality:
    """Score translations against one reference each, case-sensitive, with sacrebleu's defaults.

    Source: Post 2018, https://aclanthology.org/W18-6319
    """
    bleu, chrf = sacrebleu.metrics.BLEU(), sacrebleu.metrics.CHRF()
    bleu_score = bleu.corpus_score(list(translations), [list(references)])
    chrf_score = chrf.corpus_score(list(translations), [list(references)])
    return Quality(
        bleu=round(bleu_score.score, 2),
        bleu_signature=str(bleu.get_signature()),
        chrf=round(chrf_score.score, 2),
        chrf_signature=str(chrf.get_signature()),
    )
