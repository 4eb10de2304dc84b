"""White space around the tags of a translation."""

from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import tag_spans
from dragoman_serving.fidelity.restored import Occurrence, Restored


@pytest.mark.parametrize(
    ("written", "source", "expected"),
    [
        ("<b> Hallo </b> Welt.", "<b>Hello</b> world.", "<b>Hallo</b> Welt."),
        ("<b>Hallo</b>Welt.", "<b> Hello </b> world.", "<b> Hallo </b> Welt."),
        ("<i> <b> Hallo </b> </i>.", "<i><b>Hello</b></i> .", "<i><b>Hallo</b></i> ."),
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
