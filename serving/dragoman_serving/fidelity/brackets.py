"""Parentheses that a translation lacks, or has without the other one of the pair."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BRACKET = re.compile(r"(?<![\w()])\w{1,5}\)|[()]")
"""A bracket, or `a)` of an enumeration, whose first one some languages omit."""
_PAIR = re.compile(r"\([^()]*\)(?=[.,;:!?]|$)")
"""Brackets before punctuation or at the end, of which the other one's place is known."""
_PAUSE = re.compile(r"[,;:](?=\s)")
_FINAL = '.,;:!?"”“»'


def lost_brackets(
    source: str, target: str, _source_language: str, _target_language: str
) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that its parentheses are pairs.

    Only if those of the sentence are. A last one is closed if the sentence closes it before
    punctuation: behind as many punctuation marks as are in the sentence's parentheses.

    Args:
        source: a text.
        target: its translation.
    """
    if "(" not in target and ")" not in target:
        return
    opened, unopened = _unpaired(target)
    if not (opened or unopened) or any(_unpaired(source)):
        return
    for index in unopened:
        yield index, index + 1, ""
    pairs = _PAIR.findall(source)
    if len(opened) == 1 and pairs and "(" not in target[opened[0] + 1 :]:
        end = len(target.rstrip(_FINAL))
        end -= target[end - 1 : end] == " " and target[end - 2 : end - 1].isalnum()
        pauses = [match.start() for match in _PAUSE.finditer(target, opened[0], end)]
        marks = len(_PAUSE.findall(pairs[-1]))
        end = pauses[marks] if marks < len(pauses) else max(opened[0] + 1, end)
        yield end, end, ")"


def _unpaired(text: str) -> tuple[list[int], list[int]]:
    """Indices of the opening and of the closing brackets of a text without the other one."""
    opened: list[int] = []
    unopened: list[int] = []
    for match in _BRACKET.finditer(text):
        if match[0] == "(":
            opened.append(match.start())
        elif opened:
            opened.pop()
        elif match[0] == ")":
            unopened.append(match.start())
    return opened, unopened
