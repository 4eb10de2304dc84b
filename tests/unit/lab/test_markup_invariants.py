"""The checks of invariants on translated pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lab.gateway.made_up_translators import HOSTILE
from lab.markup.beside_libretranslate import by_our_client, judged
from lab.markup.invariants import INVARIANTS, Results, judge, marked, shares

PAGE = (
    '<!DOCTYPE html><html><body><!-- c --><p>Red &amp; <b title="x">blue</b> cars.</p>'
    '<p>An <a href="a?b">old</a> house</p></body></html>'
)
CHANGED = (
    '<!DOCTYPE html><html><body><!-- c --><p>RED &amp; <b title="X">BLUE</b> CARS.</p>'
    '<p>AN <a href="a?b">OLD</a> HOUSE</p></body></html>'
)


def good() -> Results:
    with_marks = marked(PAGE)
    assert with_marks is not None
    return Results(PAGE, PAGE, CHANGED, CHANGED, with_marks, with_marks)


def test_a_good_translation_keeps_all_invariants() -> None:
    assert judge(good()) == dict.fromkeys(INVARIANTS, True)


def test_invariants_without_a_subject_are_not_judged() -> None:
    found = judge(Results("Text", "Text", "TEXT", "TEXT", marked("Text"), ""))
    assert {name for name, holds in found.items() if holds is None} == {
        "tags are written as they were",
        "white space on both sides of tags",
        "alt, title and placeholder are translated",
        "translate=no and notranslate",
        "comments",
        "document type",
        "entities as they were written",
    }


@pytest.mark.parametrize(
    ("part", "before", "after", "broken"),
    [
        ("identity", "<p>An", "<p>an", {"translated into itself, the page is the same"}),
        ("identity", "&amp;", "&", {"entities as they were written"}),
        ("changed", "<!-- c -->", "C", {"comments", "the tree is the same"}),
        ("changed", "<!DOCTYPE html>", "HTML", {"document type"}),
        ("changed", " <b", "<b", {"white space on both sides of tags"}),
        ("changed", '"X"', '"x"', {"alt, title and placeholder are translated"}),
        ("changed", '"a?b"', "a?b", {"tags are written as they were"}),
        ("changed", "a?b", "A?B", {"tags are written as they were", "the tree is the same"}),
        ("changed", "<a ", "<a></a><a ", {"each element once, in its parent"}),
        ("hostile", "BLUE", "<s>BLUE</s>", {"no element of text that looks like markup"}),
        ("marked_changed", "Red", "RED", {"translate=no and notranslate"}),
        ("marked_changed", "old", "OLD", {"translate=no and notranslate"}),
    ],
)
def test_broken_invariants_are_detected(
    part: str, before: str, after: str, broken: set[str]
) -> None:
    written = getattr(good(), part)
    assert before in written
    found = judge(replace(good(), **{part: written.replace(before, after, 1)}))
    assert broken <= {name for name, holds in found.items() if not holds}


def test_our_client_keeps_all_invariants_on_a_page() -> None:
    def translated(name: str, pages: Sequence[str]) -> list[str]:
        return list(map(by_our_client(name), pages))

    assert HOSTILE not in translated("hostile", [PAGE])[0]
    assert shares(judged([PAGE, PAGE], translated)) == dict.fromkeys(INVARIANTS, (2, 2))
