"""Sentences that the model reads as they are."""

# ruff: noqa: RUF001

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from dragoman_serving.fidelity.plain_sentences import is_plain
from dragoman_serving.request.plan import plan_request
from dragoman_serving.translation import source_texts
from dragoman_serving.translation.segments import SourceSentence, SourceText, join
from dragoman_serving.translation.source_texts import SourceTexts
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.manifest import Manifest
from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"
_WORDS = """
I a The the house Haus Straße École œuvre können übel ÄRGER NATO iPhone X2 3 don't l'eau 'tis
well-known e.g. www.a.org NOT -- … “so” Zürich łódź ﬁn naïve é {0} <b> :) & 10% Dr. a.m. İzmir
ÅÄ Œ ŒŒ œœ ü Ä ß À verylongwordwithoutanyspaceinitatallverylongwordwithoutanyspaceinitatall
"""
WORDS = st.sampled_from(_WORDS.split())
SEPARATORS = st.sampled_from(
    [" ", " ", " ", ", ", ",", "-", "'", "  ", "\t", "\n", ". ", "’", "? "]
)
TEXTS = st.lists(st.tuples(WORDS, SEPARATORS), min_size=1, max_size=30).flatmap(
    lambda parts: st.builds(
        lambda end: "".join(map("".join, parts[:-1])) + parts[-1][0] + end,
        st.sampled_from(["", ".", "!", "?", "...", " ", ",", "…"]),
    )
)


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return Manifest.load(BUNDLE)


@pytest.fixture(scope="module")
def texts(manifest: Manifest) -> SourceTexts:
    return SourceTexts(manifest, manifest.open_tokenizer(BUNDLE))


def read(
    texts: SourceTexts, manifest: Manifest, text: str, options: dict[str, Any]
) -> Sequence[SourceText]:
    tokenizer: Tokenizer = texts.tokenizer
    plan = plan_request(options, manifest.limits, tokenizer)
    return texts.pieces([text], range(1), plan)


@settings(max_examples=300, deadline=None)
@given(
    text=TEXTS,
    source=st.sampled_from(["en", "de", "fr"]),
    options=st.sampled_from(
        [
            {},
            {"max_sentence_tokens": 10},
            {"split_sentences": False},
            {"keep_placeholders": False},
            {"prefix": "Die"},
            {"min_length_ratio": 0.5},
            {"return_alignments": "hard"},
        ]
    ),
)
def test_a_plain_sentence_is_read_as_all_rules_read_it(
    texts: SourceTexts, manifest: Manifest, text: str, source: str, options: dict[str, Any]
) -> None:
    given_options = {**options, "source_language": source, "target_language": "en"}
    if source == "en":
        given_options["target_language"] = "de"
    readings = read(texts, manifest, text, given_options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(source_texts, "is_plain", lambda *_: False)
        by_rules = read(texts, manifest, text, given_options)
    # A plan's constraints are other objects for each plan.
    assert [list(map(without_search, reading.pieces)) for reading in readings] == [
        list(map(without_search, reading.pieces)) for reading in by_rules
    ]
    assert [reading.is_unread for reading in readings] == [
        reading.is_unread for reading in by_rules
    ]


@pytest.mark.parametrize("options", [{}, {"split_sentences": False}])
def test_hyphens_are_one_character_and_invisible_characters_none(
    texts: SourceTexts, manifest: Manifest, options: dict[str, Any]
) -> None:
    given_options = {**options, "source_language": "en", "target_language": "de"}
    sentences = [
        read(texts, manifest, text, given_options)[0].sentences[0]
        for text in (
            "A pre\u2011war e\u2010mail, inter\u00adnational.",
            "A pre-war e-mail, international.",
        )
    ]
    assert sentences[0].src_ids == sentences[1].src_ids


@pytest.mark.parametrize("text", ["\n Good morning \r\n", "  (Yes), no\n"])
def test_white_space_around_an_unsplit_text_is_kept(
    texts: SourceTexts, manifest: Manifest, text: str
) -> None:
    options = {"source_language": "en", "target_language": "de", "split_sentences": False}
    (source,) = read(texts, manifest, text, options)
    assert join(source.pieces, [sentence.line for sentence in source.sentences]) == text


def without_search(piece: Any) -> Any:
    if not isinstance(piece, SourceSentence):
        return piece
    return replace(piece, literals=tuple(piece.literals), options=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The house is small.", "en"),
        ("I don't know, do you?", "en"),
        ("Das ist schön", "de"),
        ("Élise a eu peut-être raison!", "fr"),
        ("Mother's here, and so are you", "en"),
    ],
)
def test_usual_sentences_are_plain(text: str, language: str) -> None:
    assert is_plain(text, language)


@pytest.mark.parametrize("text", ["Mother's here", "Blue", "The Big House"])
def test_titles_and_labels_are_not(text: str) -> None:
    assert not is_plain(text, "en")


@pytest.mark.parametrize("text", ["Kuno's here", "I met Brandvold."])
def test_sentences_with_rare_names_are_not(text: str) -> None:
    assert not is_plain(text, "en")


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "A", "I.", "NATO is old.", "the house", "It is 3.", "It is. So", "Tom  is"),
        *("Tom\nis", "Tom is ", "“Tom” is", "Das ist schön", "Tom is,", "A--b", "Tom ''is''"),
    ],
)
def test_other_texts_are_left_to_the_rules(text: str) -> None:
    assert not is_plain(text, "en")
