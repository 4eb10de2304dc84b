"""Tags counted as right or wrong, and the measures of translations with tags."""

from __future__ import annotations

import numpy as np
import pytest
from dragoman_options.markup import Span
from dragoman_serving.markup.evidence import Evidence

from lab.markup.end_to_end import line_as_xml
from lab.markup.placement import Count, count
from lab.markup.tag_quality import TagQuality, best_pieces, tag_quality
from lab.markup.tagged_pairs import TaggedPair, tagged_line, tagged_pair

NOTHING = Evidence(np.zeros((0, 0), np.float32), [], [])
SOURCE = "We <b>like <i>red</i> cars</b> and old houses, said <a/> the man in the garden."
REFERENCE = "Wir <b>mögen <i>rote</i> Autos</b> und alte Häuser, sagte <a/> der Mann im Garten."


def counted(source: str, target: str, placed: list[Span]) -> Count:
    pair = tagged_pair(source, target)
    assert pair is not None
    return count([(pair, NOTHING)], lambda *_: placed)


@pytest.mark.parametrize("placed", [[(3, 11), (12, 27)], [(12, 27), (3, 11)]])
def test_elements_numbered_by_language_are_matched(placed: list[Span]) -> None:
    total = counted(
        'The <g id="1">macroeconomic</g> <g id="2">scenario</g> is favourable.',
        'Le <g id="1">scénario</g> <g id="2">macroéconomique</g> est optimiste.',
        placed,
    )
    assert total == Count(tags=4, right_tags=4, pairs=2, right_pairs=2)


def test_elements_with_other_names_or_attributes_are_not_matched() -> None:
    swapped: list[Span] = [(4, 5), (0, 1)]
    for source in ("x <a>a</a> <b>b</b> x", 'x <a id="n">a</a> <a id="m">b</a> x'):
        total = counted(source, source, swapped)
        assert (total.tags, total.right_tags) == (4, 0)


def test_an_element_at_another_word_is_wrong() -> None:
    total = counted("a <g>red</g> car", "ein <g>rotes</g> Auto", [(4, 14)])
    assert total == Count(tags=2, right_tags=1, pairs=1, right_pairs=0)


def pair() -> TaggedPair:
    tagged = tagged_pair(SOURCE, REFERENCE)
    assert tagged is not None
    return tagged


def quality(translation: str) -> TagQuality:
    return tag_quality([pair()], [tagged_line(translation)])


@pytest.mark.parametrize(
    ("translation", "matched", "pieces"),
    [
        (REFERENCE, 1, 100),
        (REFERENCE.replace("Wir <b>mögen", "<b>Wir mögen"), 1, None),  # a misplaced tag
        (REFERENCE.replace("<a/> ", "").replace("Wir", "Wir <a/>"), 0, 0),  # in another order
    ],
)
def test_only_the_score_of_pieces_depends_on_the_positions(
    translation: str, matched: int, pieces: float | None
) -> None:
    measured = quality(translation)
    assert (measured.lines, measured.elements) == (1, 3)
    assert (measured.once, measured.in_parent, measured.matched) == (1, 1, matched)
    assert measured.bleu == pytest.approx(100)
    assert measured.bleu_of_best_pieces == pytest.approx(100)
    if pieces is None:
        assert 0 < measured.bleu_of_pieces < 100
    else:
        assert measured.bleu_of_pieces == pytest.approx(pieces)


@pytest.mark.parametrize(
    ("translation", "once", "in_parent"),
    [
        ("<b>Wir</b> <i>mögen</i> <a/>", 1, 2 / 3),
        ("<b>Wir <i>mögen</i></b>", 2 / 3, 2 / 3),
        ("<b>Wir <i>mögen</i><i>rote</i></b> <a/>", 2 / 3, 1),
        ("Wir </b> mögen", 0, 0),
    ],
)
def test_lost_duplicate_and_moved_elements(translation: str, once: float, in_parent: float) -> None:
    measured = quality(translation)
    assert measured.once == pytest.approx(once)
    assert measured.in_parent == pytest.approx(in_parent)


def test_the_best_parts_are_found_in_other_words() -> None:
    text = "wir lieben rote Autos, und alte Häuser"
    pieces = best_pieces(text, ["Wir mögen", "rote Autos", ", und", "alte Häuser", ""])
    assert pieces == ["wir lieben ", "rote Autos", ", und ", "alte Häuser", ""]
    assert best_pieces("", ["a", "b"]) == ["", ""]


def test_lines_are_documents_with_their_entities() -> None:
    line = tagged_line('A &amp; B &lt;c> <a href="?x=1&amp;y">&Changeable; &quot;d&quot;</a>')
    assert line is not None
    assert line.text == 'A & B <c> &Changeable; "d"'
    assert line_as_xml(line) == 'A &amp; B &lt;c&gt; <a href="?x=1&amp;y">&Changeable; "d"</a>'
