"""Glossaries, placeholders and suppressed words, as texts and as tokens."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from dragoman_serving.engine.compiled.compiled_searches import NativeSearches
from dragoman_serving.engine.constraints import Constraints
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.session import Ranking
from dragoman_serving.request.glossary import Glossary
from dragoman_serving.request.placeholders import find_placeholders, split_at_placeholders
from dragoman_serving.request.suppression import suppressed_words
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.timing import fastest_s

PIECES = ("", "▁ab", "▁a", "b", "c", "▁", "a", "bc", "▁(", "▁ab▁c", "▁b")


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("Tea!", ("Tee",)),
        ("tea and TEA", ("Tee",)),
        ("Iced tea and tea", ("Eistee", "Tee")),
        ("steamed teapots", ()),
        ("a C++ (beta) book", ("C++ (beta)",)),
        ("", ()),
    ],
)
def test_terms_are_found_as_words(text: str, targets: tuple[str, ...]) -> None:
    glossary = Glossary({"tea": "Tee", "iced tea": "Eistee", "c++ (beta)": "C++ (beta)"})
    assert glossary.targets_of(text) == targets


def test_empty_terms_are_no_terms() -> None:
    assert Glossary({}).targets_of("tea") == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hi {name}, {0} {} {{ a.b }} ${C}", ["{name}", "{0}", "{}", "{{ a.b }}", "${C}"]),
        ("%s %1$s %(count)d %.2f %@ 9% sure", ["%s", "%1$s", "%(count)d", "%.2f", "%@", "9"]),
        ("See https://a.de/x?y=1&z=(2), or www.b.org.", ["https://a.de/x?y=1&z=(2", "www.b.org"]),
        ("<b>bold</b> <br/> a < b > c", ["<b>", "</b>", "<br/>"]),
        ("at 10:30 on 2024-01-31 for 1,234.50", ["10:30", "2024-01-31", "1,234.50"]),
        ("mail tom.x+y@example.co.uk.", ["tom.x+y@example.co.uk"]),
        ("R&amp;D &#38; &#x26; AT&T; a & b; &;", ["&amp;", "&#38;", "&#x26;", "&T;"]),
        ("nothing here: B12, MP3s and 3D", []),
    ],
)
def test_placeholders_of_all_forms_are_found(text: str, found: list[str]) -> None:
    assert find_placeholders(text) == found


@given(st.text(st.sampled_from("ab {}%sd<>/:.0 hw$@\n")))
def test_a_text_is_split_at_its_placeholders(text: str) -> None:
    found, between = find_placeholders(text), split_at_placeholders(text)
    assert len(between) == len(found) + 1
    assert "".join(a + b for a, b in zip(between, [*found, ""], strict=True)) == text


SLOW_FORMS = re.compile(
    r"(?:https?://[^\s<>\"]*[^\s<>\".,;:!?)\]}'])"
    r"|(?:www\.[^\s<>\"]*[^\s<>\".,;:!?)\]}'])"
    r"|(?:[\w.+-]+@[\w-]+\.[\w.-]*\w)"
    r"|(?:</?[A-Za-z][^<>]*>)"
    r"|(?:&(?:[A-Za-z][A-Za-z0-9]*|#\d+|#[xX][0-9A-Fa-f]+);)"
    r"|(?:\{\{[^{}\n]*\}\})"
    r"|(?:[$#]?\{[^{}\n]*\})"
    r"|(?:%\([^()\n]+\)[#0 +-]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa])"
    r"|(?:%(?:\d+\$)?[#0+-]*\d*(?:\.\d+)?(?:hh|h|ll|l|L|z|j|t)?[diouxXeEfFgGcrsa@](?![A-Za-z]))"
    r"|(?:(?<!\w)\d+(?:[.,:/-]\d+)*(?!\w))"
)
"""The same placeholders, for some in a time quadratic in the text's length."""


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(
            [
                *"ab01 .,:-+@%$#(){}<>/\n_hd&;x",
                "%(a)",
                "&#",
                "http://",
                "www.",
                "a@b.c",
                "{{",
                "}}",
                "<b>",
            ]
        ),
        max_size=30,
    )
)
def test_the_fast_and_the_slow_patterns_find_the_same_placeholders(parts: list[str]) -> None:
    text = "".join(parts)
    assert find_placeholders(text) == SLOW_FORMS.findall(text)


@pytest.mark.parametrize(
    "repeated",
    [
        *(
            "a",
            "a.",
            "_",
            "+",
            "a@",
            "a@a.",
            "<a",
            "</a ",
            "{{",
            "{",
            "${a",
            "%(",
            "%(a)",
            "%",
            "%0",
            *("&", "&a", "&#", "&#1", "&#x"),
        ),
        *("1", "1,", "1a", "http://", "http://!", "www.", "www.!"),
    ],
)
@pytest.mark.parametrize("before", ["", "%0", "%(a)0", "%1.", "a@a.", "http://", "<a", "{", "1"])
def test_the_time_for_placeholders_is_proportional_to_the_text(before: str, repeated: str) -> None:
    short, long = (before + repeated * (n // len(repeated)) + "a" for n in (5_000, 20_000))
    assert fastest_s(lambda: find_placeholders(long)) < 10 * fastest_s(
        lambda: find_placeholders(short)
    )


def test_zeros_in_a_printf_form_take_no_longer() -> None:
    short, long = ("%(a)" + "0" * n for n in (5_000, 20_000))
    assert fastest_s(lambda: find_placeholders(long)) < 10 * fastest_s(
        lambda: find_placeholders(short)
    )


SMALL_WORDS = st.lists(st.sampled_from("ab-ß "), min_size=1, max_size=6).map("".join)


@given(st.lists(SMALL_WORDS.filter(str.strip)), st.text(st.sampled_from("abB- ß")))
def test_the_longest_of_several_terms_at_a_position_counts(terms: list[str], text: str) -> None:
    folded = sorted({term.strip().casefold() for term in terms}, key=len, reverse=True)
    any_term = "|".join(map(re.escape, folded))
    found = re.findall(rf"(?<!\w)(?:{any_term})(?!\w)", text.casefold()) if terms else []
    glossary = Glossary({term: term.strip().casefold() for term in terms})
    assert glossary.targets_of(text) == tuple(dict.fromkeys(found))


def test_many_terms_with_one_prefix_take_little_longer_than_few() -> None:
    few, many = (
        Glossary({"z": "z", **{"- " * 90 + str(i): "x" for i in range(number)}})
        for number in (9, 900)
    )
    text = "- " * 10_000
    assert fastest_s(lambda: many.targets_of(text)) < 10 * fastest_s(lambda: few.targets_of(text))


def whole_word(text: str, word: str) -> bool:
    before = text[: len(text) - len(word)]
    return text.endswith(word) and not before[-1:].isalnum()


@settings(max_examples=50)
@given(
    st.lists(st.integers(1, len(PIECES) - 1), max_size=4).map(tuple),
    st.lists(st.sampled_from(["ab", "abc", "b", "ab c", "a"]), min_size=1, max_size=3),
)
def test_a_token_that_would_complete_a_word_is_forbidden(
    prefix: tuple[int, ...], words: list[str]
) -> None:
    constraints = Constraints(prefix=prefix, suppressed=suppressed_words(words, PIECES))
    text = "".join(PIECES[i] for i in prefix)
    for token, piece in enumerate(PIECES):
        written = (text + piece).replace("▁", " ")
        forbidden = bool(piece) and any(whole_word(written, word) for word in words)
        assert (token_after(constraints, token) != token) == forbidden


def token_after(constraints: Constraints, likely: int) -> int | None:
    """The token that greedy search chooses after the prefix if this one is the most probable."""
    end_id = len(PIECES)
    searches = NativeSearches(1, end_id, vocab_size=end_id + 1)
    steps = len(constraints.prefix) + 1
    searches.join([Sentence((1,), steps, SearchOptions(1, 0.0, constraints=constraints))])
    log_probs = np.full((1, end_id + 1), -9.0, np.float32)
    log_probs[0, likely] = -0.1
    ranking = cast(Ranking, SimpleNamespace(log_probs=lambda _logits, _rows: log_probs.copy()))
    for _ in range(steps):
        searches.advance(ranking, None)
    ids = searches.result(0).ids
    return ids[-1] if len(ids) == steps else None
