"""Whether our engine and CTranslate2 give the same translations, in each precision.

Both get token ids, one sentence for each call if that affects the result: CTranslate2 has one token
limit for each call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dragoman_training.run.evaluation import measure

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.manifest import Limits
from dragoman.kernel.text import Tokenizer
from lab.peers.contenders import TARGET_LANGUAGE
from lab.peers.processes import WorkerProcess
from lab.peers.test_set import TestSet
from lab.peers.workers.worker_protocol import BatchSearch, TokenIds
from lab.report import markdown_table, percent, search_name

BEAM_WIDTH = 4
LEAST_GREEDY_EQUAL = 0.99
"""Rounding may flip a near tie; if more sentences differ, something else is wrong."""
MOST_BLEU_APART = 0.3
"""With each side's own length penalty, beam search gives slightly different results."""

OURS, PEER = "Dragoman fp32", "CTranslate2 float32"
"""The two contenders that must agree."""


@dataclass(frozen=True)
class ContenderTranslations:
    """One contender's translations of a test set: token ids, and beam search's texts."""

    greedy: Sequence[tuple[int, ...]]
    beam: Sequence[tuple[int, ...]]
    beam_texts: Sequence[str]


@dataclass(frozen=True)
class Likeness:
    """Comparison of one contender's translations with the references and with our fp32's.

    `*_equal` are shares of sentences with the same token ids as our fp32's. The BLEUs are of beam
    search: `bleu` against the references, `bleu_to_fp32` with our fp32's translations as
    references.
    """

    contender: str
    greedy_equal: float
    beam_equal: float
    bleu: float
    bleu_to_fp32: float
    bleu_signature: str


def encoded(test: TestSet, tokenizer: Tokenizer, limits: Limits) -> TokenIds:
    """The sentences of a test set as token ids, each with its limit."""
    sources = [tokenizer.encode_source(text, TARGET_LANGUAGE) for text in test.texts]
    return TokenIds(sources, [limits.target_tokens(len(source)) for source in sources])


def translate(
    process: WorkerProcess, inputs: TokenIds, tokenizer: Tokenizer, length_penalty: float
) -> ContenderTranslations:
    """Both searches' translations by one contender."""
    answers = [
        process.run(inputs, BatchSearch(width, 1, length_penalty)) for width in (1, BEAM_WIDTH)
    ]
    greedy, beam = ([tuple(ids) for ids in answer.ids or ()] for answer in answers)
    return ContenderTranslations(greedy, beam, [tokenizer.target.decode(ids) for ids in beam])


def compare(
    translations: Mapping[str, ContenderTranslations], references: Sequence[str]
) -> list[Likeness]:
    """Compare every contender with our fp32.

    Args:
        translations: by contender, `OURS` among them.
        references: of the test set.
    """
    ours = translations[OURS]
    likenesses = []
    for name, translated in translations.items():
        quality = measure(translated.beam_texts, references)
        likenesses.append(
            Likeness(
                contender=name,
                greedy_equal=equal_share(translated.greedy, ours.greedy),
                beam_equal=equal_share(translated.beam, ours.beam),
                bleu=quality.bleu,
                bleu_to_fp32=measure(translated.beam_texts, ours.beam_texts).bleu,
                bleu_signature=quality.bleu_signature,
            )
        )
    return likenesses


def check(likenesses: Sequence[Likeness]) -> None:
    """Stop if our fp32 differs from CTranslate2's.

    Raises:
        CheckFailed: `OURS` and `PEER` do not agree.
    """
    named = {likeness.contender: likeness for likeness in likenesses}
    peer, apart = named[PEER], round(abs(named[PEER].bleu - named[OURS].bleu), 2)
    if peer.greedy_equal < LEAST_GREEDY_EQUAL:
        raise CheckFailed(
            f"only {peer.greedy_equal:.1%} of the greedy translations in fp32 are equal, less than "
            f"{LEAST_GREEDY_EQUAL:.0%}: speeds of different translations are not compared"
        )
    if apart > MOST_BLEU_APART:
        raise CheckFailed(
            f"{search_name(BEAM_WIDTH)} in fp32 differs by {apart} BLEU, more than "
            f"{MOST_BLEU_APART}: speeds of different translations are not compared"
        )


def equal_share(
    tokens: Sequence[tuple[int, ...]], other_tokens: Sequence[tuple[int, ...]]
) -> float:
    """Share of sentences with the same token ids."""
    pairs = list(zip(tokens, other_tokens, strict=True))
    return sum(a == b for a, b in pairs) / len(pairs)


def likeness_table(likenesses: Sequence[Likeness]) -> str:
    """Similarity of the translations, in Markdown."""
    beam = search_name(BEAM_WIDTH)
    header = ("contender", "greedy equal", f"{beam} equal", f"BLEU, {beam}")
    rows = [
        (
            *(likeness.contender, percent(likeness.greedy_equal), percent(likeness.beam_equal)),
            *(f"{likeness.bleu:.2f}", f"{likeness.bleu_to_fp32:.2f}"),
        )
        for likeness in likenesses
    ]
    return markdown_table((*header, f"BLEU against {OURS}'s"), rows)
