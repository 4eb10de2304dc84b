"""Alternative translations of texts with several sentences.

The server returns n-best translations of a sentence, not of a text. So texts are split into
sentences here, and the k-th translation of a text is joined from the k-th ones of its sentences.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.kernel.texts.sentences import LineBreaks, split_sentences
from dragoman_gateway.core.caller import Caller
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.texts.translations import Translations

_USUAL_BEAM_WIDTH = 4
_LONGEST = 200
"""Maximum length of a sentence with alternatives; the server splits longer ones at clauses."""


@dataclass(frozen=True)
class Candidates:
    """The translations of a text: the best one, and others in order."""

    best: str
    others: tuple[str, ...] = ()


async def best_translations(
    translations: Translations,
    caller: Caller,
    texts: Sequence[str],
    options: Mapping[str, Any],
    others: int,
) -> list[Candidates]:
    """Translate texts with alternatives.

    Args:
        translations: the gateway's translations.
        caller: the admitted caller.
        texts: texts of any length.
        options: options with the direction and glossaries.
        others: number of alternatives, at least 1; duplicates are removed.

    Raises:
        GatewayError: the request failed.
    """
    language = options["source_language"]
    cut = await asyncio.to_thread(lambda: [split_sentences(text, language) for text in texts])
    lines = [[LineBreaks.of(sentence) for sentence, _ in parts] for parts in cut]
    short = [
        line.line for text_lines in lines for line in text_lines if 0 < len(line.line) <= _LONGEST
    ]
    long = [line.line for text_lines in lines for line in text_lines if len(line.line) > _LONGEST]
    candidates: dict[str, list[str]] = {"": [""]}
    if short:
        count = others + 1
        search = {"num_return_sequences": count, "beam_width": max(count, _USUAL_BEAM_WIDTH)}
        try:
            answers = await translations.translate_admitted(caller, short, {**options, **search})
        except InvalidInput:  # many tokens in spite of few characters: let the server split it
            long += short
        else:
            for line, answer in zip(short, answers, strict=True):
                candidates[line] = [
                    answer.text,
                    *(alternative.text for alternative in answer.alternatives),
                ]
    if long:
        answers = await translations.translate_admitted(caller, long, options)
        candidates |= {line: [answer.text] for line, answer in zip(long, answers, strict=True)}
    return [
        _joined(
            [
                ([line.put_into(text) for text in candidates[line.line]], tail)
                for line, (_, tail) in zip(of_text, parts, strict=True)
            ],
            others,
        )
        for of_text, parts in zip(lines, cut, strict=True)
    ]


def _joined(sentences: Sequence[tuple[list[str], str]], others: int) -> Candidates:
    """Joins the translations of sentences, with the characters after each, to those of a text."""
    ranked = [
        "".join(texts[min(rank, len(texts) - 1)] + tail for texts, tail in sentences)
        for rank in range(others + 1)
    ]
    best, *more = dict.fromkeys(ranked)
    return Candidates(best, tuple(more))
