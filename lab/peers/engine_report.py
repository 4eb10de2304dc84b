"""Measurements of the in-process engine, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.report import Case, markdown_table, percent, search_name, spread

_MIB = 2**20


@dataclass(frozen=True)
class EngineCase(Case):
    """The rounds of one search and batch size; `test` is the model's name.

    `ctranslate2` has only the best setting.
    """

    precision: str
    """Precision of our engine."""


@dataclass(frozen=True)
class Memory:
    """Peak resident memory of a contender's process while it ran all cases of a model."""

    model: str
    contender: str
    setting: str
    peak_bytes: int


def engine_table(cases: Sequence[EngineCase]) -> str:
    """Speed of both if all translations have the same length, in Markdown."""
    header = (
        *("search", "batch", "precision", "Dragoman tok/s", "CTranslate2 tok/s", "its setting"),
        "ratio (min..max)",
    )
    rows = []
    for case in cases:
        values = case.summary()
        rows.append(
            (
                *(search_name(case.beam_width), str(case.batch_size), case.precision),
                f"{values['dragoman_speed']['tokens_per_s']:.0f}",
                f"{values['ctranslate2_speed']['tokens_per_s']:.0f}",
                *(case.best_setting, spread(case.ratios)),
            )
        )
    return markdown_table(header, rows)


def text_table(cases: Sequence[EngineCase]) -> str:
    """Speed of both on text, in Markdown; the ratio is of sentences per second."""
    header = (
        *("search", "batch", "precision", "Dragoman sent/s", "tok/s", "CTranslate2 sent/s"),
        *("tok/s", "its setting", "ratio (min..max)", "output/input tokens", "cut"),
    )
    rows = []
    for case in cases:
        values = case.summary()
        ours, theirs = values["dragoman_speed"], values["ctranslate2_speed"]
        rows.append(
            (
                *(search_name(case.beam_width), str(case.batch_size), case.precision),
                *(f"{ours['sentences_per_s']:.1f}", f"{ours['tokens_per_s']:.0f}"),
                *(f"{theirs['sentences_per_s']:.1f}", f"{theirs['tokens_per_s']:.0f}"),
                *(case.best_setting, spread(case.ratios)),
                f"{ours['length_ratio']:.2f} / {theirs['length_ratio']:.2f}",
                f"{percent(ours['cut_share'])} / {percent(theirs['cut_share'])}",
            )
        )
    return markdown_table(header, rows)


def memory_table(memories: Sequence[Memory]) -> str:
    """Memory of each contender, in Markdown."""
    header = ("model", "contender", "setting", "peak resident MiB")
    rows = [
        (one.model, one.contender, one.setting, f"{one.peak_bytes / _MIB:.0f}") for one in memories
    ]
    return markdown_table(header, rows)
