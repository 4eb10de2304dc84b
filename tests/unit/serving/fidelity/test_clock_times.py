"""Times of the day stay in their half of the day."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.clock_times import half_days
from hypothesis import given
from hypothesis import strategies as st


def corrected(source: str, target: str, languages: str) -> str:
    src, tgt = languages.split("-")
    for begin, end, text in sorted(half_days(source, target, src, tgt), reverse=True):
        target = target[:begin] + text + target[end:]
    return target


@pytest.mark.parametrize(
    ("source", "target", "languages", "expected"),
    [
        ("at 8:15 p.m.", "um 8:15 Uhr", "en-de", "um 20:15 Uhr"),
        ("at 12 AM", "um 12 Uhr", "en-de", "um 0 Uhr"),
        ("from 9 a.m. to 5 p.m.", "de 9 heures à 5 heures", "en-fr", "de 9 heures à 17 heures"),
        ("7:45 am or 7:45 pm", "7 h 45 ou 7 h 45", "en-fr", "7 h 45 ou 19 h 45"),
        ("um 10.45 Uhr", "at 10.45pm", "de-en", "at 10.45am"),
        ("à 14 h", "at 2 A.M.", "fr-en", "at 2 P.M."),
        ("9am-1pm", "9am-1 Uhr", "en-de", "9am-13 Uhr"),
        ("9 bis 17 Uhr", "9 to 17pm", "de-en", "9 to 17"),
        ("um 3 Uhr nachts", "at 3 p.m.", "de-en", "at 3 a.m."),
        ("um 17.30 Uhr.", "at 17:30 p.m.", "de-en", "at 17:30."),
        ("um 17.30 Uhr da", "there at 17:30 P.M. now", "de-en", "there at 17:30 now"),
        ("5 hours until 5 p.m.", "5 heures à 5 heures", "en-fr", "5 heures à 17 heures"),
    ],
)
def test_the_half_of_the_day_is_corrected(
    source: str, target: str, languages: str, expected: str
) -> None:
    assert corrected(source, target, languages) == expected


@pytest.mark.parametrize(
    ("source", "target", "languages"),
    [
        ("at 8 p.m.", "um 8 Uhr abends", "en-de"),
        ("um 8 Uhr am Abend", "at 8 p.m.", "de-en"),
        ("um 11 Uhr nachts", "at 11 p.m.", "de-en"),
        ("um 12 Uhr nachts", "at 12 a.m.", "de-en"),
        ("at 7 p.m. at the station", "um 19 Uhr am Bahnhof", "en-de"),
        ("Um 7 am Bahnhof", "At 7 at the station", "de-en"),
        ("at 9 p.m. at 9 stations", "um 21 Uhr an 9 Orten", "en-de"),
        ("9:05 and $8 p.m.", "9:05 und 8 $", "en-de"),
        ("at 12:30 PM", "um 12.30 Uhr", "en-de"),
        ("for 5 hours", "für 5 Stunden", "en-de"),
    ],
)
def test_other_times_stay(source: str, target: str, languages: str) -> None:
    assert corrected(source, target, languages) == target


@given(
    st.integers(0, 23),
    st.integers(0, 59),
    st.sampled_from((("Uhr",) * 2, ("heures",) * 2, ("a.m.", "p.m."), ("AM", "PM"))),
    st.booleans(),
)
def test_every_hour_becomes_that_of_the_source(
    hour: int, minute: int, marks: tuple[str, str], is_late: bool
) -> None:
    shown = f"{hour % 12 or 12}:{minute:02}"
    source = f"at {shown} {'pm' if hour >= 12 else 'am'}"
    is_half = marks[0] != marks[1]
    expected = f"{shown if is_half else f'{hour}:{minute:02}'} {marks[hour >= 12]} x"
    assert corrected(source, f"{shown} {marks[is_late]} x", "en-de") == expected
