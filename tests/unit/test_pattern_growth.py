"""No regular expression of the product takes more than linear time, whatever the text."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.patterns import Usage, usages
from tests.timing import fastest_s, fault_of_growth

_SIZE = 8192
"""Size of the largest texts."""
_PROSE = "On 3 May 2024 the committee approved the annual budget; members met in Room 12. "
_INPUT: dict[tuple[str, str], str | None] = {
    ("serving/dragoman_serving/markup/units.py", "pattern"): "aaab|aab|ab",
    (
        "serving/dragoman_serving/fidelity/reading.py",
        "before + re.escape(stand_in) + behind",
    ): r"(?<!\w)der(?!\w)",
    (
        "serving/dragoman_serving/fidelity/phrases.py",
        "begin + first + rest + end",
    ): r"(?<!Black )(?:(?<=in[ \u00a0])|(?<=in))[Mm]arch(?!\w)(?!\s[A-Z][a-z])",
    (
        "serving/dragoman_serving/fidelity/phrases.py",
        "'|'.join(map(_accepted, forms))",
    ): r"weniger als|unter|(?<!\w)max(?!\w)",
    (
        "serving/dragoman_serving/fidelity/spellings.py",
        "expression",
    ): r"(?<![\w-])(?<!\d[.,:])(?:(?:[aA]|one) ((?i:fifth)) of|[eE]very other (year|month)"
    r"|[nN]ahm(en)?(?= [^.;]{1,40}(?:Prozent|%)[^.;]{0,20} ab(?!\w)))(?!(?<=\w)\w)",
    (
        "serving/dragoman_serving/fidelity/negations.py",
        "pattern",
    ): r"(?i:(?<!\w)(?:a\w*|\w{2,}less|not\sa)(?!\w)|\bn(?:e\s|').{0,30}?\b(?:pas|rien)(?!\w))",
    (
        "serving/dragoman_serving/translation/losses.py",
        'rf"(?<![^\\W\\d_]){re.escape(text)}(?!\\d)"',
    ): r"(?<![^\W\d_])aab12(?!\d)",
    (
        "serving/dragoman_serving/translation/losses.py",
        'rf"(?<!\\w){re.escape(term)}(?!\\w)"',
    ): r"(?<!\w)aab(?!\w)",
    ("training/dragoman_training/config.py", "self.drop_matching or ''"): None,
    ("training/dragoman_training/text/cleaning.py", "corpus.drop_matching"): None,
}
"""Patterns that depend on input: an example of one of escaped texts; None: the user's own one."""


@cache
def words_s(converted: Callable[[str], Any]) -> float:
    """The time that it takes to find the words of prose."""
    words = converted(_PROSE * (_SIZE // len(_PROSE)))
    word = re.compile(converted(r"\w+|[^\w\s]"))
    return fastest_s(lambda: [match.span() for match in word.finditer(words)])


def fault_of(usage: Usage) -> str | None:
    """Returns the first fault of a pattern's growth, with its text."""
    is_bytes = isinstance(usage.pattern.pattern, bytes)
    converted: Callable[[str], Any] = str.encode if is_bytes else str
    prose_s = words_s(converted)
    for begin, part, end in [("", _PROSE, ""), *usage.shapes()]:

        def text_of(size: int, begin: str = begin, part: str = part, end: str = end) -> Any:
            return converted((begin + part * (size // len(part) + 1))[:size] + end)

        if (fault := fault_of_growth(usage.run, text_of, _SIZE, prose_s)) is not None:
            text = f"{begin!r} + {part!r} * n + {end!r}"
            return f"{usage.where}: {usage.pattern.pattern!r} with {text}: {fault}"
    return None


def test_the_time_of_every_pattern_is_linear() -> None:
    every = usages(_INPUT)
    assert len(every) > 100
    faults = [fault for usage in every if (fault := fault_of(usage)) is not None]
    assert not faults, "\n".join(faults)
