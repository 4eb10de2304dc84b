"""Marks that come in pairs around words."""

from __future__ import annotations

import itertools

import pytest
from dragoman_serving.fidelity.paired_marks import tags_of
from hypothesis import given
from hypothesis import strategies as st

PARTS = [*"*_~'=|[]{}() ab1\n", "**", "[b]", "[/b]", "\\emph{", "](a.b/)", "[[", "]]", "`", "<b>"]
PARTS += ["\u2068", "\u2069", "\u200e"]


def marks_of(text: str) -> list[str]:
    return [text[slice(*tag.span)] for tag in tags_of(text, "<" in text, True)]


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        *((mark, mark) for mark in ("*", "**", "***", "_", "~", "~~", "''", "'''", "==", "||")),
        *(("[b]", "[/b]"), ("[size=2]", "[/size]"), ("[url=https://a.b/c]", "[/url]")),
        *(("\\emph{", "}"), ("\\textbf{", "}"), ("\\section*{", "}")),
        *(("[", "](https://a.b/c)"), ("![", '](a.png "b")'), ("[[A b|", "]]")),
        ("\u2068", "\u2069"),
    ],
)
@pytest.mark.parametrize("text", ["Do %snot%s go.", "%sDo not%s go!", "It (%s{a}%s)", "%sé%s"])
def test_a_pair_around_words_is_marks(opening: str, closing: str, text: str) -> None:
    assert marks_of(text % (opening, closing)) == [opening, closing]


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("**_not_**", ["**", "_", "_", "**"]),
        ("\\textbf{a {b} \\emph{c}}", ["\\textbf{", "\\emph{", "}", "}"]),
        ("__not__ and __name__", ["__", "__"]),
        ("`*a*` *b*", ["*", "*"]),
        ("*a **b* c", ["*", "*"]),
        ("\\n*a* b", ["*", "*"]),
        ("The [NATO](https://a.b/c) said", ["[", "](https://a.b/c)"]),
        ("<b>*a*</b>", ["<b>", "*", "*", "</b>"]),
        ("\u200eAb \u2068c", ["\u200e", "\u2068"]),
    ],
)
def test_marks_within_others(text: str, marks: list[str]) -> None:
    assert marks_of(text) == marks


@pytest.mark.parametrize(
    "text",
    [
        *("2*3*4", "5 * 3 * 2", "*args, **kwargs", "snake_case", "a_b_c", "__init__", "_a_b_"),
        *(
            "*.py and test_*.py",
            "a/*.py b/*",
            "f**k s**t",
            "Leser*innen Kund*innen",
            "~5, ~10",
        ),
        *("a == b == c", "a || b || c", '"*" or "*.x"', "T_*, S_*", "\\*a\\*", "*a\nb*", "* a *"),
        *("[b]", "[b]a[/i]", "[NAME]", "[name]", "[[name]]", "a[i](b.c)", "[he](she)", "{a} {b}"),
        *("\\ref{a}", "\\texttt{a}", "*|NAME|*", "Don''t, can''t", "https://a.b/*c*", "*", "*5*"),
    ],
)
def test_others_are_no_marks(text: str) -> None:
    assert marks_of(text) == []


@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_marks_are_in_order_and_in_pairs(text: str) -> None:
    tags = tags_of(text, False, True)
    assert all(0 <= tag.begin < tag.end <= len(text) for tag in tags)
    assert all(tag.end <= other.begin for tag, other in itertools.pairwise(tags))
    opened: list[str] = []
    for tag in tags:
        if tag.opens:
            opened.append(tag.name)
        elif tag.opens is False:
            assert opened.pop() == tag.name
    assert not opened
