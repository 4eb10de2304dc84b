"""Measurements of translations with tags."""

from __future__ import annotations

import pytest

from lab.markup.end_to_end import line_as_xml
from lab.markup.tag_quality import TagQuality, best_pieces, tag_quality
from lab.markup.tagged_pairs import TaggedPair, tagged_line, tagged_pair

SOURCE = "We <b>like <i>red</i> cars</b> and old houses, said <a/> the man in the garden."
REFERENCE = "Wir <b>mögen <i>rote</i> Autos</b> und alte Häuser, sagte <a/> der Mann im Garten."


def pair() -> TaggedPair:
    found = tagged_pair(SOURCE, REFERENCE)
    assert found is not None
    return found


def quality(translation: str) -> TagQuality:
    return tag_quality([pair()], [tagged_line(translation)])


def test_the_reference_is_perfect() -> None:
    found = quality(REFERENCE)
    assert (found.lines, found.elements) == (1, 3)
    assert (found.once, found.in_parent, found.matched) == (1, 1, 1)
    assert found.bleu == found.bleu_of_pieces == found.bleu_of_best_pieces == pytest.approx(100)


def test_a_misplaced_tag_lowers_only_the_score_of_pieces() -> None:
    moved = REFERENCE.replace("Wir <b>mögen", "<b>Wir mögen")
    found = quality(moved)
    assert (found.once, found.in_parent, found.matched) == (1, 1, 1)
    assert found.bleu == found.bleu_of_best_pieces == pytest.approx(100)
    assert found.bleu_of_pieces < 100


def test_tags_in_another_order_have_no_pieces() -> None:
    found = quality(
        "Wir <a/> <b>mögen <i>rote</i> Autos</b> und alte Häuser, sagte der Mann im Garten."
    )
    assert (found.once, found.in_parent, found.matched) == (1, 1, 0)
    assert found.bleu == pytest.approx(100)
    assert found.bleu_of_pieces == 0


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
    found = quality(translation)
    assert found.once == pytest.approx(once)
    assert found.in_parent == pytest.approx(in_parent)


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
