"""Tags removed from a sentence, and inserted into its translation."""

from __future__ import annotations

from collections import Counter

import pytest
from dragoman_options.markup import Code, PlacedCodes
from dragoman_serving.fidelity.literals import tag_spans
from dragoman_serving.fidelity.tagged_sentence import TaggedSentence
from dragoman_serving.markup.placement import place
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.serving.markup.test_placement import check_structure, evidences, texts

TAGS = ("<b>", "</b>", "<i>", "</i>", "<br>", "<br/>", '<a href="x">', "</a>", "<B>", "</ b>")
PARTS = ("Tom", " ", "öl", "1", "2", "{a}", "%s", "(", ".", "a@b.de", "https://a.aa/")


@st.composite
def lines(draw: st.DrawFn) -> str:
    return "".join(draw(st.lists(st.sampled_from(TAGS + PARTS), max_size=12)))


def tags(text: str) -> Counter[str]:
    return Counter(text[slice(*span)] for span in tag_spans(text))


@settings(max_examples=200)
@given(lines(), st.data())
def test_each_tag_occurs_once_and_elements_enclose_the_same_words(
    line: str, data: st.DataObject
) -> None:
    tagged = TaggedSentence.of(line)
    if tagged is None:
        return
    tagged.markup.check(tagged.text)
    assert sorted(tag.span for pair in tagged.tags for tag in pair if tag) == tag_spans(line)
    target = data.draw(texts())
    placed = place(tagged.text, target, tagged.markup, data.draw(evidences(tagged.text, target)))
    check_structure(tagged.markup, target, placed)
    translated = tagged.with_placed(placed).put_into(target)
    letters = [at for at, letter in enumerate(target) if not letter.isspace()]
    assert [translated.text[translated.places[at]] for at in letters] == [
        target[at] for at in letters
    ]
    assert translated.places[-1] == len(translated.text)
    if "<" not in target:
        assert tags(translated.text) == tags(line)


@given(lines())
def test_tags_inserted_into_the_same_sentence_keep_their_positions(line: str) -> None:
    tagged = TaggedSentence.of(line)
    if tagged is None:
        return
    same = PlacedCodes(tuple((code.begin, code.end) for code in tagged.markup.codes))
    translated = tagged.with_placed(same).put_into(tagged.text)
    assert translated.text.replace(" ", "") == line.replace(" ", "")
    for character, at in zip(tagged.text, tagged.source.places, strict=False):
        assert character in (line[at], " ")  # a space in place of a tag separates words


@pytest.mark.parametrize(
    ("line", "text", "codes"),
    [
        ("I <b>like <i>it</i></b>.", "I like it.", [Code(2, 9), Code(7, 9, 0)]),
        ("One<br>two <br/> three", "One two  three", [Code(3, 3), Code(8, 8)]),
        ("<b>One <i>two</b> three</i>", "One two three", [Code(0, 7), Code(4, 4, 0), Code(13, 13)]),
        ("1<b>2</b>", "1 2", [Code(1, 3)]),
        ("{a}<b>{b}</b>", "{a}{b}", [Code(3, 6)]),
    ],
)
def test_elements_become_codes(line: str, text: str, codes: list[Code]) -> None:
    tagged = TaggedSentence.of(line)
    assert tagged is not None
    assert tagged.text == text
    assert list(tagged.markup.codes) == codes


def test_tags_of_elements_across_sentences_keep_their_order() -> None:
    tagged = TaggedSentence.of("red</b> and <b>blue <i>it</i>")
    assert tagged is not None
    placed = tagged.with_placed(PlacedCodes(((12, 12), (0, 0), (5, 7))))
    assert placed.put_into("blau es und rot").text == "</b> blau <i>es</i> und <b>rot"


@pytest.mark.parametrize(
    ("line", "target", "span", "translated"),
    [
        ("Do **not** open.", "Nicht öffnen.", (0, 5), "**Nicht** öffnen."),
        ("[b]Do not[/b] open.", "Nicht öffnen.", (0, 5), "[b]Nicht[/b] öffnen."),
        ("A [red car](a.b/c).", "Une voiture rouge.", (4, 17), "Une [voiture rouge](a.b/c)."),
        ("\u2068{a}\u2069 files", "{a} Dateien", (0, 3), "\u2068{a}\u2069 Dateien"),
    ],
)
def test_marks_are_placed_like_tags(
    line: str, target: str, span: tuple[int, int], translated: str
) -> None:
    tagged = TaggedSentence.of(line, has_tags=False, has_marks=True)
    assert tagged is not None
    assert tagged.with_placed(PlacedCodes((span,))).put_into(target).text == translated


def test_invisible_marks_divide_no_word() -> None:
    tagged = TaggedSentence.of("a\u200eb", has_marks=True)
    assert tagged is not None
    assert tagged.text == "ab"


def test_a_sentence_without_tags_has_none() -> None:
    assert TaggedSentence.of("a < b, {c} > d") is None


def test_too_many_tags_are_left_in() -> None:
    assert TaggedSentence.of("Tom" + "<b></b>" * 128) is not None
    assert TaggedSentence.of("Tom" + "<b></b>" * 129) is None
    assert TaggedSentence.of("<a>" * 10_000 + "Tom" + "</b>" * 10_000) is None


def test_elements_that_meet_within_a_literal_repeat_no_text() -> None:
    tagged = TaggedSentence.of("<b>one</b><i>two</i>")
    assert tagged is not None
    placed = PlacedCodes(((0, 3), (3, 5)))
    assert tagged.with_placed(placed).put_into("a (x)").text == "<b>a (</b><i>x)</i>"
