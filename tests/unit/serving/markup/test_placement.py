"""Codes placed in translations: properties that always hold, and their positions."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from dragoman_options.markup import Code, Markup, PlacedCodes, Span
from dragoman_serving.markup.evidence import Evidence
from dragoman_serving.markup.placement import place
from dragoman_serving.markup.units import unit_pair
from hypothesis import given, settings
from hypothesis import strategies as st

WORDS = ["a", "Haus", "house", "house,", "12", "3.5", "(x)", "—", "„ja“", "don't", "e\u0301t\u00e9"]
SPACES = ["", " ", "  ", "\u00a0", "\n"]
TAG = re.compile(r"<(/?)(\w+)(/?)>")


@st.composite
def texts(draw: st.DrawFn) -> str:
    words = st.sampled_from(WORDS) | st.text(max_size=4)
    parts = draw(st.lists(st.tuples(st.sampled_from(SPACES), words), max_size=12))
    return "".join(space + word for space, word in parts)


@st.composite
def markups(draw: st.DrawFn, length: int) -> Markup:
    """A random tree of codes for a text of some length, and spans to keep between its borders."""
    codes: list[Code] = []

    def grow(begin: int, end: int, parent: int | None, depth: int) -> None:
        borders = sorted(draw(st.lists(st.integers(begin, end), max_size=6)))
        for first, last in zip(borders[::2], borders[1::2], strict=False):
            codes.append(Code(first, last, parent))
            if depth < 3:
                grow(first, last, len(codes) - 1, depth + 1)

    grow(0, length, None, 0)
    borders = sorted({0, length, *(offset for code in codes for offset in code[:2])})
    keep = [pair for pair in pairwise(borders) if draw(st.integers(0, 3)) == 0]
    return Markup(tuple(codes), tuple(keep))


def tokens(text: str, size: int) -> list[Span]:
    """Spans of a text's characters, some of which are white space."""
    return [(at, min(at + size, len(text))) for at in range(0, len(text), size)]


@st.composite
def evidences(draw: st.DrawFn, source: str, target: str) -> Evidence:
    """Weights of any size, empty input, and tokens that no tokenizer produces."""
    src = tokens(source, draw(st.integers(1, 4)))
    tgt = tokens(target, draw(st.integers(1, 4)))
    random = np.random.default_rng(draw(st.integers(0, 1000)))
    scale = draw(st.sampled_from([0.0, 1e-30, 1.0, 1e30]))
    sharp = draw(st.sampled_from([1, 30]))

    def weights(rows: int, columns: int) -> Any:
        return (scale * random.random((rows, columns)) ** sharp).astype(np.float32)

    reverse = weights(len(src), len(tgt)) if draw(st.booleans()) else None
    return Evidence(weights(len(tgt), len(src)), src, tgt, reverse)


@st.composite
def sentences(draw: st.DrawFn) -> tuple[str, str, Markup, Evidence]:
    source, target = draw(texts()), draw(texts())
    markup = draw(markups(len(source)))
    return source, target, markup, draw(evidences(source, target))


def check_structure(markup: Markup, target: str, placed: PlacedCodes) -> None:
    """Every code once, within its parent, and siblings disjoint."""
    assert len(placed.codes) == len(markup.codes)
    siblings: dict[int | None, list[Span]] = {}
    for code, (begin, end) in zip(markup.codes, placed.codes, strict=True):
        low, high = (0, len(target)) if code.parent is None else placed.codes[code.parent]
        assert low <= begin <= end <= high
        siblings.setdefault(code.parent, []).append((begin, end))
        if code.begin == code.end:
            assert begin == end
    for spans in siblings.values():
        spans.sort()
        for span, following in pairwise(spans):
            assert span[1] <= following[0]
    assert 0 <= placed.uncertain <= len(markup.codes)


@settings(max_examples=120)
@given(sentences())
def test_the_structure_is_kept_for_any_alignment(
    sentence: tuple[str, str, Markup, Evidence],
) -> None:
    source, target, markup, evidence = sentence
    markup.check(source)
    placed = place(source, target, markup, evidence)
    check_structure(markup, target, placed)
    assert place(source, target, markup, evidence) == placed
    assert PlacedCodes.parse(str(placed)) == placed
    borders = [0, *(offset for span in markup.keep for offset in span), len(source)]
    parts = [(0, len(source)), *pairwise(borders)]
    cut = {
        word
        for begin, end, _ in markup.codes
        for first, last in parts  # a kept span may split a word too
        for word in cut_words(source[first:last], (begin - first, end - first))
    }
    for span in placed.codes:
        assert cut.issuperset(cut_words(target, span))


def cut_words(text: str, span: Span) -> list[str]:
    """Words and numbers within which a span begins or ends."""
    words = (match.span() for match in re.finditer(r"(?:\w|(?<=\d)[.,](?=\d))+", text))
    return [text[a:b] for a, b in words if any(a < offset < b for offset in span)]


def diagonal(source: str, target: str) -> Evidence:
    """Words linked in order."""
    src = [match.span() for match in re.finditer(r"\s*\S+", source)]
    tgt = [match.span() for match in re.finditer(r"\s*\S+", target)]
    weights = np.eye(len(tgt), len(src), dtype=np.float32) + np.float32(0.01)
    return Evidence(weights, src, tgt, weights.T.copy())


@given(st.data())
@settings(max_examples=120)
def test_codes_at_the_ends_need_no_alignment(data: st.DataObject) -> None:
    source, target = data.draw(texts()), data.draw(texts().map(str.strip))
    first, last = len(source) - len(source.lstrip()), len(source.rstrip())
    before, around, behind = (data.draw(st.integers(0, 2)) for _ in range(3))
    codes = [Code(0, 0)] * before
    for depth in range(around if first < last else 0):
        codes.append(Code(depth and first, last, before + depth - 1 if depth else None))
    codes += [Code(len(source), len(source))] * behind
    markup = Markup(tuple(codes))
    markup.check(source)
    placed = place(source, target, markup, None)
    check_structure(markup, target, placed)
    assert placed.uncertain == 0
    if first == 0 and target:
        src, tgt = tokens(source, 1), tokens(target, 1)
        nothing = Evidence(np.zeros((len(tgt), len(src)), np.float32), src, tgt)
        assert placed.codes == place(source, target, markup, nothing).codes


@given(st.data())
def test_an_unchanged_text_keeps_its_codes(data: st.DataObject) -> None:
    text = data.draw(texts())
    markup = data.draw(markups(len(text)))
    placed = place(text, text, markup, diagonal(text, text))
    assert placed == PlacedCodes(tuple((code.begin, code.end) for code in markup.codes))


def parse(tagged: str) -> tuple[str, list[Code], list[str]]:
    """A text, its codes, and their names."""
    text, codes, names, opened = "", list[list[Any]](), list[str](), list[int]()
    at = 0
    for match in TAG.finditer(tagged):
        text += tagged[at : match.start()]
        at = match.end()
        closing, name, empty = match.groups()
        if closing:
            codes[opened.pop()][1] = len(text)
            continue
        codes.append([len(text), len(text), opened[-1] if opened else None])
        names.append(name)
        if not empty:
            opened.append(len(codes) - 1)
    return text + tagged[at:], [Code(*code) for code in codes], names


def translated(source: str, target: str, order: list[int] | None = None) -> str:
    """A translation with the source's tags; each word is linked to one of the source's words.

    Args:
        source: with tags.
        target: without.
        order: for each word of the target, the word of the source; None: the same order.
    """
    text, codes, names = parse(source)
    evidence = diagonal(text, target)
    if order is not None:
        weights = np.eye(len(evidence.source), dtype=np.float32)[order] + np.float32(0.01)
        evidence = Evidence(weights, evidence.source, evidence.target, weights.T.copy())
    placed = place(text, target, Markup(tuple(codes)), evidence)
    tags = []
    for index, ((begin, end), code) in enumerate(zip(placed.codes, codes, strict=True)):
        name = names[index]
        if code.begin == code.end:
            tags.append((begin, 1, index, f"<{name}/>"))
        else:
            tags += [(begin, 2, index, f"<{name}>"), (end, 0, -index, f"</{name}>")]
    for offset, *_, tag in sorted(tags, reverse=True):
        target = target[:offset] + tag + target[offset:]
    return target


@pytest.mark.parametrize(
    ("source", "target", "order"),
    [
        ("The <b>red</b> house", "Das <b>rote</b> Haus", None),
        ("He <b>saw</b> the dog", "Er hat den Hund <b>gesehen</b>", [0, 0, 2, 3, 1]),
        ("<a>The <b>red</b> house.</a>", "<a>Das <b>rote</b> Haus.</a>", None),
        (
            "<a>Press <b>Continue</b></a>, please.",
            "<a>Drücken Sie <b>Weiter</b></a>, bitte.",
            [0, 0, 1, 2],
        ),
        ("See <a>Tables</a> (<a2>all</a2>).", "Siehe <a>Tabellen</a> (<a2>alle</a2>).", None),
        ("He said “<i>no</i>”, twice.", "Er sagte „<i>nein</i>“, zweimal.", None),
        ("He said <i>“no”</i>, twice.", "Er sagte <i>„nein“</i>, zweimal.", None),
        (
            "Call <code>get_it($x)</code> now.",
            "Rufen Sie jetzt <code>get_it($x)</code> auf.",
            [0, 0, 2, 1, 0],
        ),
        ("Lines<br/> end here", "Zeilen<br/> enden hier", None),
        ("Lines <br/>end here", "Zeilen <br/>enden hier", None),
        ("<img/> A red <x/>house <img/>", "<img/> Ein rotes <x/>Haus <img/>", None),
        ("The area of 2 km<sup>2</sup> grows", "Die Fläche von 2 km<sup>2</sup> wächst", None),
        ("The price<sup>1</sup> is high", "Der Preis<sup>1</sup> ist hoch", None),
        ("The 2<sup>nd</sup> day", "Le 2<sup>e</sup> jour", None),
        (
            "The king<x/> built the city<x2/> here",
            "Hier baute der König<x/> die Stadt<x2/>",
            [5, 2, 0, 1, 3, 4],
        ),
        ("A<b> red </b>house", "Ein<b> rotes </b>Haus", None),
        ("<a>red</a> <b>and</b> <c>blue</c>", "<c>blau</c> <b>und</b> <a>rot</a>", [2, 1, 0]),
    ],
)
def test_tags_enclose_the_words_that_belong_to_them(
    source: str, target: str, order: list[int] | None
) -> None:
    assert translated(source, TAG.sub("", target), order) == target


def test_a_kept_span_is_not_cut() -> None:
    source, target = "Use {a b} here", "Hier {a b} verwenden"
    markup = Markup((Code(4, 9),), keep=((4, 9),))
    evidence = Evidence(
        np.ones((3, 3), np.float32), [(0, 3), (3, 9), (9, 14)], [(0, 4), (4, 10), (10, 20)]
    )
    assert place(source, target, markup, evidence).codes == ((5, 10),)


def test_kept_spans_beside_each_other_are_two() -> None:
    source, target = "Price: 12.50EUR", "Preis: 12.50EUR"
    kept = (7, 12), (12, 15)
    markup = Markup(tuple(Code(*span) for span in kept), keep=kept)
    assert place(source, target, markup, diagonal(source, target)).codes == kept


def test_codes_without_an_alignment_are_counted() -> None:
    source, target = "one two three four", "eins zwei drei vier"
    codes = (Code(0, 18), Code(0, 3, 0), Code(4, 7, 0))
    evidence = diagonal(source, target)
    assert place(source, target, Markup(codes), evidence).uncertain == 0
    nothing = Evidence(np.zeros((4, 4), np.float32), evidence.source, evidence.target)
    assert place(source, target, Markup(codes), nothing).uncertain == 2


def test_more_codes_than_words_are_placed() -> None:
    source, target = "one two three", "eins"
    markup = Markup((Code(0, 3), Code(4, 7), Code(8, 13)))
    placed = place(source, target, markup, diagonal(source, target))
    check_structure(markup, target, placed)
    assert sorted(end - begin for begin, end in placed.codes) == [0, 0, 4]
    assert placed.uncertain >= 2


def test_deep_and_many_codes_take_linear_time() -> None:
    source, target = "one two", "eins zwei"
    deep = [Code(0, 3), *(Code(0, 3, parent) for parent in range(4998))]
    markup = Markup((*deep, *[Code(7, 7)] * 5000))
    placed = place(source, target, markup, diagonal(source, target))
    assert set(placed.codes[:4999]) == {(0, 4)}
    assert set(placed.codes[4999:]) == {(9, 9)}


def test_a_code_encloses_a_negated_verb_as_a_whole() -> None:
    text = "It isn't l'eau."
    _, units = unit_pair("", text, Markup())
    written = [text[begin:end] for begin, end in zip(units.begins, units.ends, strict=True)]
    assert written == ["It", "isn't", "l", "'", "eau", "."]
