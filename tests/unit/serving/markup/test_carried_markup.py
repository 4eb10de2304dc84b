"""Markup through a pivot language: always a tree of valid codes, and no code is lost."""

from __future__ import annotations

from dragoman_options.markup import Code, Markup, PlacedCodes
from dragoman_serving.markup.carried_markup import CarriedMarkup
from dragoman_serving.markup.placement import place
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.serving.markup.test_placement import (
    check_structure,
    diagonal,
    evidences,
    markups,
    texts,
)


@settings(max_examples=120)
@given(st.data())
def test_the_structure_is_kept_for_any_alignment_in_both_legs(data: st.DataObject) -> None:
    text, between, target = (data.draw(texts()) for _ in range(3))
    markup = data.draw(markups(len(text)))
    carried = CarriedMarkup(text, markup)
    carried.first.check(text)
    assert carried.first.keep == markup.keep
    before = place(text, between, carried.first, data.draw(evidences(text, between)))
    last = carried.last(between, before)
    last.check(between)
    assert {between[begin:end] for begin, end in last.keep} <= {
        text[begin:end] for begin, end in markup.keep
    }
    behind = place(between, target, last, data.draw(evidences(between, target)))
    joined = carried.joined(before, behind)
    check_structure(markup, target, joined)
    assert (joined.uncertain > 0) == (
        before.uncertain + behind.uncertain > 0 and joined.codes != ()
    )


@given(st.data())
def test_codes_of_an_unchanged_text_stay(data: st.DataObject) -> None:
    text = data.draw(texts())
    markup = data.draw(markups(len(text)))
    carried = CarriedMarkup(text, markup)
    same = PlacedCodes(tuple((code.begin, code.end) for code in carried.first.codes))
    assert carried.last(text, same) == markup
    own = PlacedCodes(tuple((code.begin, code.end) for code in markup.codes))
    assert carried.joined(same, own) == own


def test_codes_and_kept_words_may_change_their_order() -> None:
    text, between = "a b c d", "c d b a"
    markup = Markup((Code(0, 1), Code(2, 7), Code(4, 5, 1)), ((2, 3), (6, 7)))
    carried = CarriedMarkup(text, markup)
    assert carried.first.codes == (
        *(Code(0, 1), Code(2, 7)),
        *(Code(2, 3, 1), Code(4, 5, 1), Code(6, 7, 1)),
    )
    before = PlacedCodes(((6, 7), (0, 5), (4, 5), (0, 1), (2, 3)), 1)
    last = carried.last(between, before)
    assert last == Markup((Code(0, 5), Code(0, 1, 0), Code(6, 7)), ((2, 3), (4, 5)))
    joined = carried.joined(before, place(between, between, last, diagonal(between, between)))
    assert joined == PlacedCodes(((6, 7), (0, 5), (0, 1)), 1)


def test_words_that_the_first_leg_changes_are_not_kept() -> None:
    carried = CarriedMarkup("a b", Markup((), ((0, 1), (2, 3))))
    assert carried.last("x b", PlacedCodes(((0, 1), (2, 3)))).keep == ((2, 3),)
