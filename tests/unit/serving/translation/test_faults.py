"""Which translations are faulty, and the effect of a second search."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from dragoman_serving.engine.errors import DeadlineExceeded, Overloaded
from dragoman_serving.engine.futures import Future
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.request.plan import plan_request
from dragoman_serving.translation.corrections import Submit
from dragoman_serving.translation.faults import fault_of, has_loop, is_copy, is_lost
from dragoman_serving.translation.follow_up import FollowUp
from dragoman_serving.translation.segments import SourceSentence
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"


@pytest.mark.parametrize(
    ("ids", "loops"),
    [
        ([], False),
        ([1] * 5, False),
        ([1] * 6, True),
        ([1, 2] * 3, False),
        ([1, 2] * 4, True),
        ([7, 1, 2, 3, 1, 2, 3, 1, 2, 3, 8], True),
        ([1, 2, 3, 4, 1, 2, 3, 4, 9, 1, 2, 3, 4], False),
        ([*range(12)] * 3, True),
        ([*range(13)] * 3, False),
        ([1, 5, 1, 6, 1, 7, 1, 8, 1, 9, 1], False),
    ],
)
def test_loops(ids: list[int], loops: bool) -> None:
    assert has_loop(ids) is loops


@pytest.mark.parametrize(
    ("text", "translation", "is_so"),
    [
        ("all", "", True),
        ("all", " .", True),
        ("all", "11", True),
        ("all", "tout", False),
        ("3 p.m.", "15:00", False),
        ("3 p.m.", ".", True),
        ("!?", "", False),
        ("2 + 2", "", False),
    ],
)
def test_words_are_lost_without_letters(text: str, translation: str, is_so: bool) -> None:
    assert is_lost(text, translation) is is_so


@pytest.mark.parametrize(
    ("src", "tgt", "complete", "fault"),
    [
        (range(20), range(20), True, None),
        (range(20), [3] * 20, True, "repetition"),
        ([3] * 20, [3] * 20, True, None),  # "ha ha ha" is one in every language
        (range(20), range(5), True, "short"),
        (range(20), range(5), False, None),  # its limit cut it
        (range(20), range(61), True, "long"),
        (range(9), range(40), True, None),
        (range(9), range(1), True, None),
    ],
)
def test_faults(src: list[int], tgt: list[int], complete: bool, fault: str | None) -> None:
    assert fault_of(tuple(src), Hypothesis(tuple(tgt), None, complete)) == fault


@pytest.mark.parametrize(
    ("text", "translation", "copied"),
    [
        ("Chapter 7.", "Chapter 7", True),
        ("Chapter 7.", "Kapitel 7.", False),
        ("BOSTON", "Boston.", True),
        ("12:30", "12:30", False),
        ("", "", False),
        ("Tom, come in!", "Tom, komm herein!", False),
    ],
)
def test_copies(text: str, translation: str, copied: bool) -> None:
    assert is_copy(text, translation) is copied


def looping_text(translator: Translator) -> str:
    """A text whose translation loops, because of words that the model does not know."""
    words = ("zyx", "quorl", "vramp", "blint", "snarf", "grelp", "twonk", "plim")
    for first in range(len(words)):
        for count in range(6, 26):
            text = (
                "The " + " ".join(words[(first + i * i) % len(words)] for i in range(count)) + "."
            )
            (translation,) = translator.translate([text], {"beam_width": 1, "repair": False})
            if "repetition" in translation.warnings:
                return text
    raise AssertionError("no translation loops: find other words")


def test_a_loop_is_named_and_repaired(shipped: Translator) -> None:
    text = looping_text(shipped)
    (kept,) = shipped.translate([text], {"beam_width": 1, "repair": False})
    good, repaired = shipped.translate(["Good morning.", text], {"beam_width": 1})
    assert kept.warnings == ("repetition",)
    assert repaired.text != kept.text
    assert "repetition" not in repaired.warnings
    assert good.warnings == ()
    assert good.text == shipped.translate(["Good morning."], {"beam_width": 1})[0].text


@pytest.mark.parametrize(
    ("options", "repairs"),
    [
        ({}, True),
        ({"repair": True, "beam_width": 1, "return_scores": True}, True),
        ({"repair": False}, False),
        ({"prefix": "Die"}, False),
        ({"num_return_sequences": 2}, False),
        ({"temperature": 1.0}, False),
        ({"keep_placeholders": False}, True),
        ({"coverage_penalty": 0.2}, False),
    ],
)
def test_searches_with_special_results_are_not_repaired(
    shipped: Translator, options: dict[str, Any], repairs: bool
) -> None:
    limits, tokenizer = shipped.manifest.limits, shipped.manifest.open_tokenizer(BUNDLE)
    assert plan_request(options, limits, tokenizer).repairs is repairs
    assert not plan_request({}, limits, tokenizer, model="translate_stream").repairs


TOKENIZER = Tokenizer(BUNDLE / "tokenizer.model")
SENTENCES = [
    SourceSentence(tuple(range(20)), 60, SearchOptions(), reading=Reading("a")),
    SourceSentence(tuple(range(20, 40)), 60, SearchOptions(), reading=Reading("b")),
]
GOOD, LOOP = Hypothesis(tuple(range(18)), None, True), Hypothesis((7,) * 20, None, True)
SHORT = Hypothesis((1, 2), None, True)


def repair(first: list[Hypothesis], submit: Submit) -> list[Hypothesis]:
    plan = cast(Any, SimpleNamespace(corrects=True))
    follow_up = FollowUp(plan, TOKENIZER, submit, *(cast(Any, None),) * 3, 64)
    again = follow_up.repair(SENTENCES, first)
    return first if again is None else again.result(timeout=0)


def answering(*outcomes: Hypothesis | Exception) -> tuple[Submit, list[Sentence]]:
    """A search with these outcomes, and the requests that it receives."""
    submitted: list[Sentence] = []

    def submit(sentences: Sequence[Sentence]) -> list[Future[Hypothesis]]:
        submitted.extend(sentences)
        futures = [Future[Hypothesis]() for _ in sentences]
        for future, outcome in zip(futures, outcomes, strict=True):
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        return futures

    return submit, submitted


def test_only_faulty_translations_are_searched_for_again() -> None:
    submit, submitted = answering(GOOD)
    assert repair([GOOD, LOOP], submit) == [GOOD, GOOD]
    assert [sentence.src_ids for sentence in submitted] == [SENTENCES[1].src_ids]
    assert submitted[0].options.constraints is not None
    assert submitted[0].options.constraints.no_repeat_ngram_size == 3
    submit, submitted = answering(GOOD)
    assert repair([SHORT, GOOD], submit) == [GOOD, GOOD]
    assert submitted[0].options.constraints is not None
    assert submitted[0].options.constraints.min_tokens == 12


def test_the_first_translation_is_kept_unless_the_second_is_better() -> None:
    cut = Hypothesis(tuple(range(30)), None, False)
    for second in (LOOP, SHORT, cut):
        submit, _ = answering(second, GOOD)
        assert repair([LOOP, LOOP], submit) == [LOOP, GOOD]


def test_a_failed_second_search_keeps_the_first_translation() -> None:
    submit, _ = answering(DeadlineExceeded("late"), GOOD)
    assert repair([LOOP, LOOP], submit) == [LOOP, GOOD]

    def full(_sentences: Sequence[Sentence]) -> list[Future[Hypothesis]]:
        raise Overloaded("many are waiting", 1.0)

    assert repair([GOOD, LOOP], full) == [GOOD, LOOP]


def test_a_copy_is_named(shipped: Translator) -> None:
    copied, mixed = shipped.translate(["Windows 7.", "Windows 7. I am hungry."])
    assert copied.warnings == mixed.warnings == ("untranslated",)


def test_a_label_may_be_the_same(shipped: Translator) -> None:
    alone, label = shipped.translate(["Status", "Status: closed"])
    assert (alone.warnings, label.warnings) == (("untranslated",), ())


def test_every_alternative_has_its_own_warnings(shipped: Translator) -> None:
    (best,) = shipped.translate(["Music."], {"num_return_sequences": 3})
    warnings = {translation.text: translation.warnings for translation in (best, *best.others)}
    assert warnings["Musik."] == ()
    assert warnings["Music."] == ("untranslated",)


@pytest.mark.parametrize(
    ("languages", "text", "negation"),
    [
        (("en", "de"), "This information cannot be linked with you personally.", "nicht"),
        (("en", "de"), "QR code not recognised", "nicht"),
        (("fr", "en"), "Comment ça pourrait ne pas vous déranger ?", "not"),
        (("fr", "en"), "N'allons plus à ce restaurant.", "not"),
    ],
)
def test_a_lost_negation_is_searched_for_again(
    shipped: Translator, languages: tuple[str, str], text: str, negation: str
) -> None:
    options = dict(zip(("source_language", "target_language"), languages, strict=True))
    (first,) = shipped.translate([text], {**options, "repair": False})
    assert negation not in first.text
    assert first.warnings == ("negation",)
    (second,) = shipped.translate([text], options)
    assert negation in second.text
    assert second.warnings == ()


def test_an_additional_negation_is_searched_for_again(shipped: Translator) -> None:
    text = (
        "Pierre Noizat, der ebenfalls Autor eines Buchs über diese Währung ist, glaubt fest an das"
        " Potenzial dieser Technologie als Transaktionsnetzwerk."
    )
    options = {"source_language": "de", "target_language": "en"}
    assert "not" in shipped.translate([text], {**options, "repair": False})[0].text
    (translation,) = shipped.translate([text], options)
    assert "not" not in translation.text
    assert translation.warnings == ()
