"""White space around the tags of a translation."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import tag_spans
from dragoman_serving.fidelity.restored import Occurrence, Restored, with_spaces


@pytest.mark.parametrize(
    ("written", "source", "expected"),
    [
        ("<b> Hallo </b> Welt.", "<b>Hello</b> world.", "<b>Hallo</b> Welt."),
        ("<b>Hallo</b>Welt.", "<b> Hello </b> world.", "<b> Hallo </b> Welt."),
        ("<i> <b> Hallo </b> </i>.", "<i><b>Hello</b></i> .", "<i><b>Hallo</b></i> ."),
        ("<b>Hallo</b> Welt", "<b>Hello!</b> world", "<b>Hallo</b> Welt"),
        ("Haus<b>tür</b>", "<b>front</b> (door)", "Haus<b>tür</b>"),
        ("eins <br> zwei <br/> drei", "one<br>two <br/>three", "eins<br>zwei <br/>drei"),
    ],
)
def test_white_space_is_as_in_the_source(written: str, source: str, expected: str) -> None:
    spans = tag_spans(source)
    occurrences = [
        Occurrence(begin, end, span, written[begin:end])
        for (begin, end), span in zip(tag_spans(written), spans, strict=True)
    ]
    assert Restored(written, source, occurrences, spans).text == expected


@pytest.mark.parametrize(
    ("source", "written", "expected"),
    [
        ("It is 5_km, No._5.", "Es ist 5 km, No. 5.", "Es ist 5_km, No._5."),
        ("5_% and 7_%", "7 % und 5 %", "7_% und 5_%"),
        ("5_km 6 km", "6 kmh 5 km", "6 kmh 5_km"),
        ("1_234 cats", "1 234 Katzen", "1 234 Katzen"),
        ("a_b 5_pm", "a b 17 Uhr", "a b 17 Uhr"),
    ],
)
@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2009"])
def test_white_space_beside_numbers_is_as_in_the_source(
    source: str, written: str, expected: str, space: str
) -> None:
    source, expected = source.replace("_", space), expected.replace("_", space)
    assert with_spaces(written, source) == expected
