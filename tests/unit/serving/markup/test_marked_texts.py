"""Codes divided among sentences and joined again: always a tree, and exact without changes."""

from __future__ import annotations

import time
from itertools import accumulate

import numpy as np
import pytest
from dragoman_options.markup import Code, Markup, PlacedCodes, Span
from dragoman_serving.markup.evidence import Evidence
from dragoman_serving.markup.marked_texts import MarkedText, mover
from dragoman_serving.markup.placement import place
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.texts.sentences import LineBreaks
from tests.unit.serving.markup.test_placement import check_structure, markups

SENTENCES = ["I like red cars.", "Yes!", "Do\nyou see it?", "It is the 2nd one, I think."]
BETWEEN = ["", " ", "  \n", " - "]
TRANSLATIONS = ["", "Ja.", "Rote Autos mag ich sehr.", " x  y "]

Parts = list[tuple[str, str]]
"""Sentences, each with what follows it."""


def cut(parts: Parts, markup: Markup) -> MarkedText:
    text = "".join(sentence + between for sentence, between in parts)
    begins = [0, *accumulate(len(sentence) + len(between) for sentence, between in parts)]
    sentences = [
        ((begin, begin + len(sentence)), LineBreaks.of(sentence).line)
        for begin, (sentence, _) in zip(begins, parts, strict=False)
    ]
    return MarkedText(text, markup, sentences)


def placed_by(marked: MarkedText, lines: list[str], seed: int | None) -> list[PlacedCodes]:
    """Codes at random positions; without a seed, each line is its sentence's."""

    def place_line(source: str, target: str, markup: Markup) -> PlacedCodes:
        src: list[Span] = [(at, at + 1) for at in range(len(source))]
        tgt: list[Span] = [(at, at + 1) for at in range(len(target))]
        random = np.random.default_rng(seed)
        weights = random.random((len(tgt), len(src)), np.float32)
        return place(source, target, markup, Evidence(weights, src, tgt))

    return [
        place_line(sentence.line, line, sentence.markup)
        for sentence, line in zip(marked.sentences, lines, strict=True)
    ]


@st.composite
def marked_parts(draw: st.DrawFn) -> tuple[Parts, Markup]:
    pairs = st.tuples(st.sampled_from(SENTENCES), st.sampled_from(BETWEEN))
    parts = draw(st.lists(pairs, min_size=1, max_size=4))
    return parts, draw(markups(sum(len(sentence) + len(gap) for sentence, gap in parts)))


@settings(max_examples=120)
@given(marked_parts())
def test_sentences_have_valid_markup(given: tuple[Parts, Markup]) -> None:
    for sentence in cut(*given).sentences:
        sentence.markup.check(sentence.line)


@settings(max_examples=120)
@given(marked_parts(), st.data())
def test_any_placement_gives_a_tree(given: tuple[Parts, Markup], data: st.DataObject) -> None:
    parts, markup = given
    marked = cut(parts, markup)
    lines = [data.draw(st.sampled_from(TRANSLATIONS)) for _ in parts]
    finals = [
        LineBreaks.of(sentence).put_into(line)
        for (sentence, _), line in zip(parts, lines, strict=True)
    ]
    text, spans = "", []
    for final, (_, between) in zip(finals, parts, strict=True):
        spans.append((len(text), len(text) + len(final)))
        text += final + between
    placed = placed_by(marked, lines, data.draw(st.integers(0, 99)))
    check_structure(markup, text, marked.joined(placed, lines, text, spans))


@settings(max_examples=120)
@given(marked_parts())
def test_codes_of_an_unchanged_text_stay(given: tuple[Parts, Markup]) -> None:
    parts, markup = given
    marked = cut(parts, markup)
    text = "".join(sentence + between for sentence, between in parts)
    lines = [sentence.line for sentence in marked.sentences]
    spans = [(sentence.begin, sentence.end) for sentence in marked.sentences]
    joined = marked.joined(placed_by(marked, lines, None), lines, text, spans)
    for code, span in zip(markup.codes, joined.codes, strict=True):
        for offset, at in zip(code[:2], span, strict=True):
            # If a sentence has line breaks, a border in white space has one of several positions.
            assert text[min(offset, at) : max(offset, at)].strip() == ""
        if "\n" not in text:
            assert span == code[:2]


def test_only_inner_codes_need_an_alignment() -> None:
    for codes, needed in (
        ([Code(0, 21)], [False, False]),
        ([Code(0, 16), Code(17, 21)], [False, False]),
        ([Code(7, 10)], [True, False]),
        ([Code(7, 21)], [True, False]),
        ([Code(0, 0), Code(16, 17)], [False, False]),
        ([Code(5, 5)], [True, False]),
    ):
        marked = cut([("I like red cars.", " "), ("Yes!", "")], Markup(tuple(codes)))
        assert [sentence.needs_alignment for sentence in marked.sentences] == needed


def test_kept_spans_stay_with_their_sentence() -> None:
    marked = cut([("I like red cars.", " "), ("Yes!", "")], Markup((), ((7, 10), (17, 20))))
    assert [sentence.kept for sentence in marked.sentences] == [("red",), ("Yes",)]


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (1, 1), (2, 4), (3, 5), (4, 6), (5, 6)])
def test_offsets_follow_changes_of_white_space(offset: int, expected: int) -> None:
    assert mover("a bc ", "a\n\n\nbc")(offset) == expected


def test_many_codes_and_sentences_take_linear_time() -> None:
    def took_s(count: int) -> float:
        parts = [("I like red cars.", " ")] * count
        length = len("I like red cars. ")
        wrapping = [Code(0, count * length, index - 1 if index else None) for index in range(50)]
        inner = [Code(at * length + 7, at * length + 10, 49) for at in range(count)]
        begun = time.thread_time()
        marked = cut(parts, Markup((*wrapping, *inner)))
        line = "Ich mag rote Autos."
        placed = [
            PlacedCodes(tuple((8, 12) if code.begin else (0, 19) for code in sentence.markup.codes))
            for sentence in marked.sentences
        ]
        spans = [(at * 20, at * 20 + 19) for at in range(count)]
        joined = marked.joined(placed, [line] * count, f"{line} " * count, spans)
        assert joined.codes[-1] == (count * 20 - 12, count * 20 - 8)
        return time.thread_time() - begun

    short_s = min(took_s(500), took_s(500))
    assert min(took_s(2000), took_s(2000)) < 10 * short_s + 0.02


def test_offsets_of_a_long_text_move_in_linear_time() -> None:
    def took_s(count: int) -> float:
        begun = time.thread_time()
        moved = mover("word " * count, "word\n" * count)
        for offset in range(0, 5 * count, 5):
            assert moved(offset) == offset
        return time.thread_time() - begun

    assert took_s(20_000) < 10 * min(took_s(5000), took_s(5000)) + 0.02
