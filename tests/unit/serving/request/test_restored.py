"""Placeholders, and the white space around them, in translations."""

from __future__ import annotations

import pytest
from dragoman_serving.request.placeholders import find_placeholders
from dragoman_serving.request.restored import Restored
from hypothesis import given, settings
from hypothesis import strategies as st


def restored(written: str, source: str) -> str:
    """A translation restored with placeholders that the vocabulary writes unchanged."""
    return Restored(written, source, [(one, one) for one in find_placeholders(source)]).text


def test_placeholders_are_restored_once_and_characters_keep_their_index() -> None:
    source = "one {a_b}, two {a__b} {xyz}{gone} six"
    as_written = [("{a b}", "{a_b}"), ("{a b}", "{a__b}"), ("{x}", "{xyz}"), ("{lost}", "{gone}")]
    written = "one {a b}, two {a b} {x} six"
    found = Restored(written, source, as_written)
    assert found.text == "one {a_b}, two {a__b} {xyz} six"
    for part in ("one", ", two", " six"):
        assert found.index(written.index(part)) == found.text.index(part)
    for part, raw in (("{a b},", "{a_b}"), ("{a b} {", "{a__b}"), ("{x}", "{xyz}")):
        begin, raw_begin = written.index(part), found.text.index(raw)
        places = [found.index(begin + at) for at in range(part.index("}") + 1)]
        assert places[0] == raw_begin
        assert places == sorted(places)
        assert places[-1] < raw_begin + len(raw)
    nested = [("{a b a b}", "{1}"), ("{a b}", "{2}")]
    assert Restored("{a b a b}", "{1} {2}", nested).text == "{1}"
    assert Restored("12 2", "77 99", [("2", "77"), ("12", "99")]).text == "99 77"


@pytest.mark.parametrize(
    ("written", "source", "wanted"),
    [
        ("<b> Hallo </b> Welt.", "<b>Hello</b> world.", "<b>Hallo</b> Welt."),
        ("<b>Hallo</b>Welt.", "<b> Hello </b> world.", "<b> Hallo </b> Welt."),
        ("Welt <b> Hallo </b>.", "<b>Hello</b> world.", "Welt <b>Hallo</b>."),
        ("eins <br> zwei <br/> drei", "one<br>two <br/>three", "eins<br>zwei <br/>drei"),
        ("{b} und {a} .", "{a}{b} .", "{b} und {a} ."),
        ("{a} {b} ist da.", "{a}{b} is here.", "{a}{b} ist da."),
        ("{a} <b> {b} </b> da", "{a}<b>{b}</b> there", "{a}<b>{b}</b> da"),
        ("<b> {b} </b> {a} da", "{a} <b>{b}</b>there", "<b>{b}</b> {a} da"),
        ("Rot ( {n} ) und „ {x} “", 'Red ({n}) and "{x}"', "Rot ({n}) und „{x} “"),
        ("Salut {name} !", "Hello {name}!", "Salut {name} !"),
        ("Bitte {name} warten.", "Wait, {name}, please.", "Bitte {name} warten."),
        ("{n} -mal {m}", "{n}-fold {m}", "{n}-mal {m}"),
    ],
)
def test_white_space_beside_the_same_neighbour_equals_the_sources(
    written: str, source: str, wanted: str
) -> None:
    assert restored(written, source) == wanted


def test_no_placeholder_becomes_part_of_an_address() -> None:
    assert restored("Der Hof {x}", "Tom{x}") == "Der Hof{x}"
    assert restored("www.Hof {x}", "Tom{x}") == "www.Hof {x}"
    assert restored("<b> Hof 1: 2 </b>", "1 <b>Tom:2</b>") == "<b>Hof 1: 2</b>"


_WORDS = st.sampled_from(("Tom", "has", "öl", "(", "-", '"'))
_PLACEHOLDERS = st.sampled_from(("{a}", "<b>", "</b>", "<br/>", "${x}"))
_PARTS = st.tuples(_WORDS | _PLACEHOLDERS, st.sampled_from(("", " ")))


@settings(max_examples=200)
@given(st.lists(_PARTS, min_size=1, max_size=8))
def test_the_same_words_have_the_same_white_space(parts: list[tuple[str, str]]) -> None:
    """The search writes a space before each placeholder, and before the word after it."""
    source = "".join(word + gap for word, gap in parts).strip()
    placeholders = find_placeholders(source)
    written = source
    for one in set(placeholders):
        written = written.replace(one, f" {one} ")
    written = " ".join(written.split())
    assert restored(written, source) == source
    found = Restored(written, source, [(one, one) for one in placeholders])
    letters = [index for index, letter in enumerate(written) if not letter.isspace()]
    assert "".join(found.text[found.index(index)] for index in letters) == "".join(source.split())
