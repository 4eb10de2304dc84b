"""Corrects the half of the day: `8:15 p.m.` is `20:15 Uhr` in German, not `8:15 Uhr`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_HALF = r"[ap](?=\.?\s?m\b)"
_GERMAN_HALF = r"[ap](?=\.\s?m\b)|p(?=m\b)|(?-i:A)(?=M\b)"
"""In German, `am` is a word: `um 7 am Bahnhof`."""
_TIMES = {
    is_german: re.compile(
        r"(?:(?<![\w.,:/$€£+-])|(?<=[ap]m-))(?P<hour>\d{1,2})"
        r"(?:(?:[:.]|\s?h\s?)(?P<minute>\d{2})(?![\d:.,/]\d|\d))?"
        rf"(?:\s?(?:(?P<half>{half})|(?P<whole>(?:Uhr|heures?|h)\b)))?",
        re.IGNORECASE,
    )
    for is_german, half in ((False, _HALF), (True, _GERMAN_HALF))
}
_AFTER_12_PM = re.compile(
    r"(?<![\w.,:/])(?:1[3-9]|2[0-3])(?:[:.]\d{2})?(?P<half>\s?p\.?m\b(?:\.(?=\s*\S))?)",
    re.IGNORECASE,
)
"""`17:30 p.m.`, which is `17:30`."""
_FRENCH = re.compile(r"\d\s?h\s?\d")
_LATER = re.compile(
    r"abend|mittag|soir|midi|evening|afternoon|noon|tarde|sera|pomeriggio|avond|middag",
    re.IGNORECASE,
)
"""Words that say the half of the day, besides those of the morning."""
_NIGHT = re.compile("nacht|nuit|night|noche|noite|notte", re.IGNORECASE)
"""Words of both halves: `3 Uhr nachts` is a.m., `11 Uhr nachts` p.m., and `12 Uhr nachts` a.m."""
_AFTER_MIDNIGHT = range(1, 6)
_NOON, _DAY, _HOUR = 12, 24, 60


class _Time(NamedTuple):
    """A time of the day: where its hour is, its values, and what says the half of the day.

    Attributes:
        begin: where the hour begins.
        end: where it ends.
        hour: as it is written.
        minute: None without minutes.
        half: begin of `a` or `p`; None: there is neither.
        is_marked: whether it has any mark of a time, such as `Uhr`.
        hour_of_day: from 0 to 23.
    """

    begin: int
    end: int
    hour: int
    minute: int | None
    half: int | None
    is_marked: bool
    hour_of_day: int


def half_days(
    source: str, target: str, source_language: str, target_language: str
) -> Iterator[tuple[int, int, str]]:
    """Yields what to change in a translation so that its times are in the same half of the day.

    If another word may say it, such as `evening`, nothing changes.

    Args:
        source: a text.
        target: its translation.
        source_language: language of the text.
        target_language: language of the translation.
    """
    if target_language == "en":
        yield from ((*match.span("half"), "") for match in _AFTER_12_PM.finditer(target))
    times = list(_times(source, source_language))
    if not any(time.is_marked for time in times) or _LATER.search(f"{source} {target}"):
        return
    remaining = list(_times(target, target_language))
    is_night = _NIGHT.search(f"{source} {target}") is not None
    for time in times:
        same = next((other for other in remaining if _may_be_same(time, other)), None)
        if same is None:
            continue
        remaining.remove(same)
        if same.hour_of_day == time.hour_of_day or not time.is_marked:
            continue
        if is_night and time.hour_of_day % _NOON not in _AFTER_MIDNIGHT:
            continue
        if same.half is not None:
            letter = {"a": "p", "p": "a", "A": "P", "P": "A"}[target[same.half]]
            yield same.half, same.half + 1, letter
        elif time.half is not None and (same.is_marked or same.minute is not None):
            yield same.begin, same.end, str(time.hour_of_day)


def _times(text: str, language: str) -> Iterator[_Time]:
    for match in _TIMES[language == "de"].finditer(text):
        hour, minute = int(match["hour"]), match["minute"]
        if hour >= _DAY or (minute is not None and int(minute) >= _HOUR):
            continue
        half = match.start("half") if match["half"] else None
        of_day = hour
        if half is not None and hour <= _NOON:
            of_day = hour % _NOON + (_NOON if match["half"] in "pP" else 0)
        is_marked = bool(half is not None or match["whole"] or _FRENCH.search(match[0]))
        yield _Time(
            *match.span("hour"), hour, int(minute) if minute else None, half, is_marked, of_day
        )


def _may_be_same(time: _Time, other: _Time) -> bool:
    """Whether two times are the same but for the half of the day."""
    return (time.minute or 0) == (other.minute or 0) and (
        time.hour_of_day % _NOON == other.hour_of_day % _NOON
    )
