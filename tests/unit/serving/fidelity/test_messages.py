from __future__ import annotations

import pytest
from dragoman_serving.fidelity.literals import known_literals
from dragoman_serving.fidelity.messages import doubled_apostrophes, quoted_spans, syntax_spans
from hypothesis import given
from hypothesis import strategies as st

SYNTAX = [
    *(
        "{n, plural, one {",
        "{ $n ->",
        "[one] ",
        "*[other] ",
        "{% if n %}",
        "{% else %}",
        "<% end %>",
    ),
    *("{{#if a}}", "{{/if}}", "{", "}", "{{ x }}", "`", "text", " ", "\n"),
]


def texts(message: str) -> list[str]:
    ends = [0, *(end for _, end in syntax_spans(message))]
    begins = [*(begin for begin, _ in syntax_spans(message)), len(message)]
    between = [message[end:begin].strip() for end, begin in zip(ends, begins, strict=True)]
    return [text for text in between if text]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("{n, plural, one {# cat} other {# cats}}.", ["# cat", "# cats", "."]),
        ("{ $n -> [one] One file *[other] { $n } files }", ["One file", "{ $n } files"]),
        ("Go{ NUMBER($n) ->\n [0] no\n*[other] yes\n}!", ["Go", "no", "yes", "!"]),
        ("Press [Enter] -> { $x } [one]", ["Press [Enter] -> { $x } [one]"]),
        ("{% trans %}Good night{% endtrans %}", ["Good night"]),
        ("{%- if n -%}{{ n }} cats{% else %}none{% endif %}", ["{{ n }} cats", "none"]),
        ("{{#if a}}Open{{else}}Close{{/if}} it", ["Open", "Close", "it"]),
        ("{{if .A}}Open{{else}}Close{{end}}", ["Open", "Close"]),
        ("<% if a %>Yes<% else %>No<% end %> <%= name %>", ["Yes", "No", "<%= name %>"]),
        ("<?php if ($a): ?>Yes<?php endif; ?> <?= $b ?>", ["Yes", "<?= $b ?>"]),
        ("{{ name }}, see {% url 'home' %}", ["{{ name }}, see {% url 'home' %}"]),
        ("`{% if n %}` begins a block", ["`{% if n %}` begins a block"]),
    ],
)
def test_branches_are_texts(message: str, expected: list[str]) -> None:
    assert texts(message) == expected


@given(st.lists(st.sampled_from(SYNTAX), max_size=12).map("".join))
def test_spans_are_sorted_and_within_the_text(message: str) -> None:
    spans = syntax_spans(message)
    assert spans == sorted(spans)
    assert all(0 <= begin <= end <= len(message) for begin, end in spans)


@pytest.mark.parametrize("text", ["Don''t go", "l''{name}", "{name}''s file"])
def test_a_doubled_apostrophe_in_a_word_is_no_sign(text: str) -> None:
    (span,) = doubled_apostrophes(text)
    assert text[slice(*span)] == "''"
    assert not any(literal.is_sign for literal in known_literals(text))


@pytest.mark.parametrize("text", ["''not''", "a ''b", "a'' b", "5''6", "''{name}''", "don't"])
def test_other_apostrophes_are_not_doubled_ones(text: str) -> None:
    assert doubled_apostrophes(text) == []


def test_quoted_braces_are_kept() -> None:
    text = "It''s '{'name'}' and '{0}'"
    assert [text[slice(*span)] for span in quoted_spans(text)] == ["'{'", "'}'", "'{0}'"]
