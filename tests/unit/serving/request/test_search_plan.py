"""The options of a request, and the search that results from them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dragoman_options.table import OPTIONS
from dragoman_serving.fidelity.literals import Literal
from dragoman_serving.fidelity.reading import Reading, StandIns
from dragoman_serving.request.plan import SearchPlan, plan_request, with_beginning

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import Limits
from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

VOCABULARY = REPOSITORY / "model_repository/translate/1/bundle/tokenizer.model"
READING = Reading("a")
SOURCE = (5, 100, 101, 102, 103, 3)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(Path(VOCABULARY))


def plan(tokenizer: Tokenizer, texts: int = 1, **options: Any) -> SearchPlan:
    return plan_request(options, Limits(), tokenizer, texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_width": 9}, "beam_width is 9: give 1 to 8"),
        ({"length_penalty": 11}, "length_penalty is 11.0: give 0 to 10"),
        ({"coverage_penalty": -1.0}, "coverage_penalty is -1.0: give 0 to 10"),
        ({"coverage_penalty": 1.0, "beam_width": 1}, "coverage_penalty: not with beam_width 1"),
        ({"max_tokens": 0}, "max_tokens is 0: give 1 to 320"),
        ({"max_sentence_tokens": 20, "split_sentences": False}, "only with split_sentences"),
        ({"max_sentence_tokens": 20, "prefix": "a"}, "max_sentence_tokens: only with split_"),
        ({"max_sentence_tokens": 7}, "max_sentence_tokens is 7: give 8 to 254"),
        ({"num_return_sequences": 2, "beam_width": 1}, "give 1 to 1, which is beam_width"),
        ({"min_tokens": -1}, "min_tokens is -1: give 0 to 320"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens is 9, more than max_tokens, 5"),
        ({"max_length_ratio": 0}, "max_length_ratio is 0.0: give more than 0 to 100"),
        ({"max_length_ratio": 2, "max_tokens": 5}, "max_length_ratio: not with max_tokens"),
        ({"min_length_ratio": -0.5}, "min_length_ratio is -0.5: give 0 to 100"),
        ({"patience": 0}, "patience is 0.0: give more than 0 to 10"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0.0: give more than 0 to 10"),
        ({"no_repeat_ngram_size": 0}, "no_repeat_ngram_size is 0: give 1 to 100"),
        ({"temperature": 0}, "temperature is 0.0: give 0.001 to 100; for the most probable"),
        ({"temperature": float("nan")}, "temperature is nan: give 0.001 to 100"),
        ({"top_k": 0}, "top_k is 0: give 1 to 16000"),
        ({"top_p": 1.5}, "top_p is 1.5: give more than 0 to 1"),
        ({"seed": -1}, "seed is -1: give 0 to"),
        ({"seed": 1, "beam_width": 4}, "seed: turns on sampling, give beam_width 1 or none"),
        ({"seed": 1, "patience": 2}, "patience: not with seed"),
        ({"seed": 1, "glossary": '{"a": "b"}'}, "glossary: not with seed"),
        ({"seed": 1, "num_return_sequences": 65}, "num_return_sequences is 65: give 1 to 64"),
        ({"num_return_sequences": 5}, "num_return_sequences is 5: give 1 to 4, which is beam"),
        ({"prefix": "a", "split_sentences": True}, "prefix: not with split_sentences"),
        ({"prefix": ["a", "b", "c"]}, "prefix has 3 values for 2 texts: give one, or one for each"),
        ({"prefix": 3}, "prefix is 3: give text, or a sequence of texts"),
        ({"prefix": ["a", 3]}, "prefix is ['a', 3]: give text, or a sequence of texts"),
        ({"return_alternatives": True}, "return_alternatives: only with num_return_sequences"),
        ({"suppress": [" "]}, "suppress has an empty word"),
        ({"suppress": ["\u200b"]}, "suppress: the model's vocabulary cannot write '\\u200b'"),
        ({"suppress": ["日本"]}, "suppress: the model's vocabulary cannot write '日本'"),
        ({"glossary": "[" * 100_000}, "glossary is not valid JSON"),
        ({"glossary": '{"a": "\\ud800"}'}, "contains half of a character"),
        ({"min_length_ratio": 2, "max_length_ratio": 1}, "more than max_length_ratio, 1.0"),
        ({"suppress": ["x" * 101]}, "has more than 100 characters"),
        ({"suppress": ["x"] * 101}, "suppress has 101 words, more than 100"),
        ({"glossary": "{"}, "glossary is not valid JSON"),
        ({"glossary": "[]"}, "give terms, such as"),
        ({"glossary": '{"a": 1}'}, "give terms, such as"),
        ({"glossary": '{"a": " "}'}, "glossary has an empty term"),
        (
            {"glossary": json.dumps({str(i): "x" for i in range(1001)})},
            "glossary has 1001 terms, more than 1000",
        ),
        ({"glossary": json.dumps({"x" * 201: "x"})}, "has more than 200 characters"),
        ({"return_alignments": "medium"}, "return_alignments is 'medium': give hard or soft"),
        ({"tempreature": 1.0}, "unknown option 'tempreature'"),
        ({"beam_width": "four"}, "beam_width is 'four': give a whole number"),
        ({"beam_width": True}, "beam_width is true: give a whole number"),
        ({"early_stopping": 1}, "early_stopping is 1: give true or false"),
    ],
)
def test_impossible_options_are_refused_by_name(
    tokenizer: Tokenizer, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        plan(tokenizer, 2, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_plain_requests_have_no_constraints(tokenizer: Tokenizer) -> None:
    for options in ({}, {"beam_width": 1}, {"num_return_sequences": 3, "length_penalty": 1.0}):
        _, search = plan(tokenizer, **options).of_sentence(0, READING, SOURCE)
        assert search.constraints is None
    # Nor if the given options have default values, whatever they exclude.
    defaults = {
        name: option.default for name, option in OPTIONS.items() if option.default is not None
    }
    _, search = plan(tokenizer, **defaults).of_sentence(0, READING, SOURCE)
    assert search.constraints is None


def test_a_single_word_has_at_least_one_token(tokenizer: Tokenizer) -> None:
    planned = plan(tokenizer)
    for text, least in (("all", 1), ("The old house is very red today.", 0)):
        _, search = planned.of_sentence(0, Reading(text), tokenizer.encode_source(text, "de"))
        assert (search.constraints.min_tokens if search.constraints else 0) == least
    _, search = plan(tokenizer, min_tokens=2).of_sentence(
        0, READING, tokenizer.encode_source("a", "de")
    )
    assert search.constraints is not None
    assert search.constraints.min_tokens == 2


def test_lengths_follow_the_source(tokenizer: Tokenizer) -> None:
    """The source has four tokens of text; the end symbol is added to the maximum."""
    most, search = plan(tokenizer, max_length_ratio=1.5, min_length_ratio=0.6).of_sentence(
        0, READING, SOURCE
    )
    assert most == 7
    assert search.constraints is not None
    assert search.constraints.min_tokens == 3
    # Never more than the maximum.
    _, search = plan(tokenizer, max_tokens=5, min_length_ratio=9).of_sentence(0, READING, SOURCE)
    assert search.constraints is not None
    assert search.constraints.min_tokens == 5


def test_a_minimum_length_raises_the_maximum(tokenizer: Tokenizer) -> None:
    most, _ = plan(tokenizer, min_tokens=100).of_sentence(0, READING, SOURCE)
    assert most == 101
    most, _ = plan(tokenizer, min_tokens=320).of_sentence(0, READING, SOURCE)
    assert most == 320


def test_ratios_may_be_given_as_fp32(tokenizer: Tokenizer) -> None:
    source = (5, *range(100, 110), 3)
    for ratio in (0.7, float(np.float32(0.7))):
        assert plan(tokenizer, max_length_ratio=ratio).of_sentence(0, READING, source)[0] == 8
    for ratio in (0.3, float(np.float32(0.3))):
        _, search = plan(tokenizer, min_length_ratio=ratio).of_sentence(0, READING, source)
        assert search.constraints is not None
        assert search.constraints.min_tokens == 3


def test_each_text_has_its_own_prefix_or_all_share_one(tokenizer: Tokenizer) -> None:
    for prefix in (["Das", "Ein Hund."], ["Das"], "Das"):
        planned = plan(tokenizer, 2, prefix=prefix)
        for index in (0, 1):
            most, search = planned.of_sentence(index, READING, SOURCE)
            own_prefix = prefix[index] if len(prefix) == 2 else "Das"
            assert search.constraints is not None
            assert search.constraints.prefix == tuple(tokenizer.encode(own_prefix))
            assert most == Limits().target_tokens(len(SOURCE)) + len(search.constraints.prefix)


@pytest.mark.parametrize(
    ("prefix", "kept", "word", "completions"),
    [
        ("Ich möch", "Ich", "▁möch", {"▁möchte", "▁möchten", "▁möchtest"}),
        ("Der Präsi", "Der", "▁Präsi", {"▁Präsident"}),
        ("Das Haus", "Das", "▁Haus", {"▁Haus", "▁Hause", "▁Hauses", "▁Hausaufgaben", "▁Haust"}),
    ],
)
def test_the_last_word_of_a_prefix_is_completed(
    tokenizer: Tokenizer, prefix: str, kept: str, word: str, completions: set[str]
) -> None:
    _, search = plan(tokenizer, prefix=prefix).of_sentence(0, READING, SOURCE)
    assert search.constraints is not None
    assert search.constraints.prefix == tuple(tokenizer.encode(kept))
    assert search.constraints.not_first is not None
    allowed = {
        tokenizer.piece(token) for token in np.flatnonzero(search.constraints.not_first == 0)
    }
    assert allowed == completions
    assert all(piece.startswith(word) for piece in allowed)


@pytest.mark.parametrize(
    ("prefix", "options"),
    [
        ("Ich möch ", {}),
        ("Ich hatte 3", {}),
        ("Das Haus.", {}),
        ("Ich möch", {"suppress": ["Hund"]}),
        ("Ich möch", {"return_alternatives": True, "num_return_sequences": 2}),
    ],
)
def test_a_finished_word_stays_as_given(
    tokenizer: Tokenizer, prefix: str, options: dict[str, Any]
) -> None:
    _, search = plan(tokenizer, prefix=prefix, **options).of_sentence(0, READING, SOURCE)
    assert search.constraints is not None
    assert search.constraints.prefix == tuple(tokenizer.encode(prefix))
    assert search.constraints.not_first is None


def test_a_prefix_must_leave_space_for_more_tokens(tokenizer: Tokenizer) -> None:
    with pytest.raises(InvalidRequest, match="prefix of text 1 has 2 tokens, and its translation"):
        plan(tokenizer, 2, prefix="Das ist", max_tokens=2).of_sentence(1, READING, SOURCE)


def test_literals_of_a_prefix_are_read_as_in_the_sentence(tokenizer: Tokenizer) -> None:
    reading = Reading.of("Hello {name}", [Literal(6, 12)], StandIns(tokenizer))
    _, search = plan(tokenizer, prefix="Hallo {name}").of_sentence(0, reading, SOURCE)
    assert search.constraints is not None
    assert tokenizer.decode(search.constraints.prefix) == f"Hallo {reading.stand_ins[0]}"


def test_a_given_beginning_changes_nothing_else(tokenizer: Tokenizer) -> None:
    _, search = plan(tokenizer, suppress=["Hund"], min_tokens=7, beam_width=3).of_sentence(
        0, READING, SOURCE
    )
    not_first = np.zeros(tokenizer.vocab_size, np.float32)
    begun = with_beginning(search, (100, 101), not_first)
    constraints = begun.constraints
    assert constraints is not None
    assert constraints.not_first is not_first
    assert constraints.prefix == (100, 101)
    assert replace(begun, constraints=replace(constraints, prefix=(), not_first=None)) == search
