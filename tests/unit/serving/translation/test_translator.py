from __future__ import annotations

import gc
import re
import shutil
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dragoman_options.arguments import OptionArguments
from dragoman_serving.engine.errors import DeadlineExceeded, Overloaded
from dragoman_serving.engine.futures import outcome_error
from dragoman_serving.engine.settings import EngineSettings, Tuning
from dragoman_serving.request.plan import plan_request
from dragoman_serving.request.urgency import Urgency
from dragoman_serving.translation.source_texts import MAX_TEXT_CHARACTERS
from dragoman_serving.translation.translator import Translator
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.errors import InvalidRequest, UsageError
from dragoman.kernel.manifest import Limits, Manifest
from tests.waiting import wait_for, wait_until_done


@pytest.fixture(scope="module")
def translator(random_bundle: Path) -> Iterator[Translator]:
    running = Translator(random_bundle)
    yield running
    running.close()


def translate(translator: Translator, texts: list[str], **options: Any) -> list[str]:
    translations = translator.translate(texts, options)
    return [translation.text for translation in translations]


@pytest.fixture
def small(random_bundle: Path) -> Iterator[Translator]:
    """A translator in which fewer sentences may wait, and requests are cut into small parts."""
    tuning = Tuning(part_texts=64)
    running = Translator(random_bundle, EngineSettings(max_waiting=4_000, tuning=tuning))
    yield running
    running.close()


def wait_until_idle(translator: Translator) -> None:
    preparation = translator._preparation
    wait_for(lambda: not (translator.load.waiting or translator.load.rows or preparation._waiting))


TEXTS = ["red blue", "green", "white white black", "pink grey brown red blue green"]


def test_a_list_is_translated_like_its_texts(translator: Translator) -> None:
    together = translate(translator, TEXTS)
    assert together == [translate(translator, [text])[0] for text in TEXTS]
    assert len(set(together)) > 1


def test_a_large_request_is_translated_in_parts_as_a_whole(small: Translator) -> None:
    texts = [TEXTS[index % len(TEXTS)] for index in range(500)]
    alone = {text: translate(small, [text])[0] for text in TEXTS}
    assert translate(small, texts) == [alone[text] for text in texts]


def test_an_error_in_a_late_part_ends_the_request_at_once(small: Translator) -> None:
    texts = [*TEXTS * 100, "red " * 300, "pink"]
    with pytest.raises(InvalidRequest, match="text 400 has 300 tokens"):
        translate(small, texts, split_sentences=False)
    wait_until_idle(small)
    assert translate(small, TEXTS)


def test_a_failed_request_releases_its_space(small: Translator) -> None:
    for _ in range(3):  # the space is enough for two
        with pytest.raises(InvalidRequest, match="text 1499 has 300 tokens"):
            translate(
                small,
                [*["red"] * 1_499, "red " * 300],
                **{"max_tokens": 1, "beam_width": 1, "split_sentences": False},
            )
        wait_until_idle(small)


def test_a_cancelled_large_request_releases_its_space(small: Translator) -> None:
    options = {"max_tokens": 1, "beam_width": 1}
    for pause_s in (0.0, 0.001, 0.01, 0.05):
        futures = [small.submit(["red"] * 900, options).future for _ in range(3)]
        time.sleep(pause_s)
        for future in futures:
            future.cancel()
        wait_until_done(futures)
    wait_until_idle(small)
    assert len(small.translate(["red"] * 2_000, options)) == 2_000


def test_a_busy_engine_refuses_before_it_tokenizes(random_bundle: Path) -> None:
    busy = Translator(random_bundle, EngineSettings(workers=1, max_rows=1, max_waiting=20))
    try:
        first = [busy.submit(["red " * 50] * 5, {}).future for _ in range(3)]
        assert busy.load.waiting > 10
        with pytest.raises(Overloaded, match="but this one has 10"):
            busy.submit(["red " * 300] * 10, {"split_sentences": False})
        assert busy.counts.rejected == 10
        for future in first:
            future.cancel()
        wait_until_idle(busy)
        with pytest.raises(InvalidRequest, match="text 0 has 300 tokens"):
            busy.submit(["red " * 300] * 10, {"split_sentences": False})
    finally:
        busy.close()


def test_one_of_two_languages_is_enough(translator: Translator) -> None:
    to_german = translate(translator, TEXTS)
    assert translate(translator, TEXTS, target_language="de") == to_german
    assert translate(translator, TEXTS, source_language="en") == to_german
    to_english = translate(translator, TEXTS, target_language="en")
    assert translate(translator, TEXTS, source_language="de") == to_english
    assert to_english != to_german


@pytest.fixture(scope="module")
def trilingual(three_languages: Path) -> Iterator[Translator]:
    """Translates between German and English and between German and French, only."""
    running = Translator(three_languages)
    yield running
    running.close()


def test_a_language_is_paired_as_in_training(trilingual: Translator) -> None:
    to_german = translate(trilingual, TEXTS, target_language="de")
    assert translate(trilingual, TEXTS, source_language="fr") == to_german
    to_english = translate(trilingual, TEXTS, source_language="de")
    assert translate(trilingual, TEXTS, target_language="en") == to_english != to_german


def test_an_untrained_direction_is_refused(trilingual: Translator) -> None:
    message = "the model does not translate from 'en' into 'fr': it has en-de, de-en, de-fr, fr-de"
    with pytest.raises(InvalidRequest, match=message):
        translate(trilingual, TEXTS, source_language="en", target_language="fr")
    german = "Ich weiß nicht, was ich meiner Mutter sagen soll."
    english = "I do not know what to tell my mother, who is ill."
    options = {"source_language": "auto", "target_language": "fr", "max_tokens": 5}
    assert translate(trilingual, [german], **options)
    with pytest.raises(InvalidRequest, match="does not translate from 'en' into 'fr'"):
        translate(trilingual, [german, english], **options)


def test_alternatives_are_returned_with_the_best(translator: Translator) -> None:
    options = OptionArguments(num_return_sequences=3, beam_width=4)
    best, again = translator.translate(["red dog", "red dog"], options)
    assert best == again
    assert len(best.others) == 2
    scores = [translation.score for translation in (best, *best.others)]
    assert None not in scores
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    (alone,) = translator.translate(["red dog"], OptionArguments(beam_width=4))
    assert (alone.text, alone.score, alone.others) == (best.text, best.score, ())


def test_long_texts_are_refused_if_they_are_not_split(translator: Translator) -> None:
    text = "red blue green. " * 100
    for options in ({"split_sentences": False}, {"prefix": "pink"}, {"return_scores": True}):
        message = r"text 1 has \d+ tokens, more than 254: shorten it, or set split_sentences"
        with pytest.raises(InvalidRequest, match=message):
            translate(translator, ["red", text], **options)
    assert translate(translator, [text], max_tokens=5)


def test_texts_are_split_unless_an_option_excludes_it(translator: Translator) -> None:
    """A model trained on single sentences would otherwise lose sentences."""
    sentences = ["Red blue green.", "White pink.", "Grey brown black."]
    apart = translate(translator, sentences, max_tokens=20)
    text = " ".join(sentences)
    (split,) = translator.translate([text], OptionArguments(max_tokens=20))
    assert (split.text, split.sentences) == (" ".join(apart), 3)
    (whole,) = translate(translator, [text], max_tokens=20, split_sentences=False)
    (scored,) = translator.translate([text], OptionArguments(max_tokens=20, return_scores=True))
    assert (whole, scored.sentences) == (scored.text, 1)
    assert scored.score is not None


def test_a_model_may_require_shorter_sentences(translator: Translator) -> None:
    """Its manifest has the limit; a request may override it."""
    limits, tokenizer = Limits(max_sentence_tokens=20), translator._tokenizer
    given: list[tuple[dict[str, Any], int | None]] = [
        ({}, 20),
        ({"keep_placeholders": True}, 20),
        ({"max_sentence_tokens": 30}, 30),
        ({"split_sentences": False}, None),
    ]
    for options, right in given:
        plan = plan_request(options, limits, tokenizer)
        assert plan.most_sentence_tokens == right
    assert plan_request({}, Limits(), tokenizer).most_sentence_tokens == 254
    for wrong in (7, 255):
        with pytest.raises(UsageError, match=f"max_sentence_tokens is {wrong}: give 8 to 254"):
            Limits(max_sentence_tokens=wrong)


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ([], {}, "text_input is empty"),
        (["x" * 90_000] * 30, {}, "the texts have 2700000 characters together"),
        (["a"] * 20_001, {}, "20001 sentences in one request, more than 20000"),
        (["x" * (MAX_TEXT_CHARACTERS + 1)], {}, "text 0 has 100001 characters"),
        (
            ["x" * (MAX_TEXT_CHARACTERS + 1)],
            {},
            "send it in parts, as `dragoman translate",
        ),
        (["red"], {"return_alignments": "hard"}, "with: dragoman align-heads BUNDLE --text PREFIX"),
        (
            ["a"] * 10_000,
            {"return_token_scores": True, "num_return_sequences": 3},
            "30000 translations to score in one request, more than 20000",
        ),
        (["red"], {"return_scores": True, "split_sentences": True}, "not with split_sentences"),
        (["red"], {"num_return_sequences": 2, "split_sentences": True}, "not with split_sentences"),
        (["red"], {"target_language": "fr"}, "target_language 'fr' is unknown; known: en, de"),
        (["red"], {"source_language": "xx"}, "source_language 'xx' is unknown"),
        (["red"], {"source_language": "de", "target_language": "de"}, "are both 'de'"),
    ],
)
def test_unsupported_requests_are_refused_by_name(
    translator: Translator, texts: list[str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        translate(translator, texts, **options)
    assert message in str(caught.value)


def test_tags_that_differ_from_the_manifests_are_refused(
    random_bundle: Path, tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(random_bundle, tmp_path / "bundle"))
    manifest = Manifest.load(bundle)
    tags = {"en": manifest.special_ids.tags["de"], "de": manifest.special_ids.tags["en"]}
    replace(manifest, special_ids=replace(manifest.special_ids, tags=tags)).write(bundle)
    with pytest.raises(UsageError, match=r"tokenizer\.model: the tag of 'en' has id"):
        Translator(bundle)


@settings(max_examples=40)
@given(st.text(min_size=1, max_size=40), st.booleans())
def test_no_text_breaks_the_translator(translator: Translator, text: str, split: bool) -> None:
    try:
        (translated,) = translate(translator, [text], split_sentences=split, max_tokens=4)
    except InvalidRequest:
        return
    assert isinstance(translated, str)


def test_requests_leave_nothing_for_the_garbage_collector(translator: Translator) -> None:
    """Runs of the garbage collector would delay everything in flight."""
    options = [OptionArguments(beam_width=1), OptionArguments(beam_width=4)]
    for rounds in (2, 12):  # the first time, caches are filled
        gc.collect()
        gc.disable()
        for _ in range(rounds):
            for arguments in options:
                translator.translate(TEXTS, arguments)
                late = translator.submit(
                    TEXTS, arguments, Urgency(deadline_s=time.monotonic() - 1)
                ).future
                wait_until_done([late])
                assert isinstance(outcome_error(late), DeadlineExceeded)
                given_up = translator.submit(TEXTS * 20, arguments).future
                given_up.cancel()
                assert isinstance(outcome_error(given_up), CancelledError)
        translator.translate(TEXTS)  # after all of that was cancelled
        del late, given_up
        left = gc.collect()
        gc.enable()
    # A cycle has two objects or more: one for each request of one kind would leave twice as many.
    assert left < rounds * len(options)


def test_a_sentence_beyond_the_limit_is_cut(translator: Translator) -> None:
    text = "red blue green white, " * 60 + "\n\n  pink. "
    (translation,) = translator.translate(
        [text], OptionArguments(split_sentences=True, max_tokens=5)
    )
    assert translation.text.endswith(" ")
    assert translation.text.count("\n\n  ") == 1
    assert not translation.complete  # several pieces were cut, and not only the last one
    with pytest.raises(InvalidRequest, match=r"tokens, more than 254: .*or set split_sentences"):
        translator.translate([text], OptionArguments(split_sentences=False))


def test_sentences_are_cut_at_the_requested_length(translator: Translator) -> None:
    clauses = ["Red blue green white,", "black pink grey brown."]
    options = OptionArguments(split_sentences=True, max_sentence_tokens=8, max_tokens=20)
    (joined,) = translator.translate([" ".join(clauses)], options)
    apart = translator.translate(clauses, OptionArguments(max_tokens=20))
    assert joined.text.split() == [
        word for translation in apart for word in translation.text.split()
    ]
    assert joined.output_tokens == sum(translation.output_tokens for translation in apart)


@pytest.mark.parametrize("text", ["* * *", "---\n\n===", "🙂 … 🙂", "1.\n2."])
def test_text_without_words_stays_when_split(translator: Translator, text: str) -> None:
    (translation,) = translator.translate([text], OptionArguments(split_sentences=True))
    assert (translation.text, translation.output_tokens, translation.complete) == (text, 0, True)
    stream = translator.stream(text, OptionArguments(split_sentences=True), lambda: None)
    assert stream.future.result()[0].text == text


def test_a_cut_sentence_marks_the_text_as_cut(translator: Translator) -> None:
    sentences = ["Red.", "Red blue green white black pink.", "Blue."]
    translations = translator.translate(sentences, OptionArguments(max_tokens=40))
    limit = sorted(translation.output_tokens for translation in translations)[-1] - 1
    options = OptionArguments(split_sentences=True, max_tokens=limit)
    (joined,) = translator.translate([" ".join(sentences)], options)
    apart = translator.translate(sentences, OptionArguments(max_tokens=limit))
    assert joined.complete == all(translation.complete for translation in apart)
    assert not joined.complete
    assert joined.output_tokens == sum(translation.output_tokens for translation in apart)


LAYOUT = re.compile(r"\s*[\r\n]\s*")
INNER_BREAK = re.compile(r"green[ \t\r\n]+(?=\w)")
"""Possibly a line break within a sentence."""


@settings(max_examples=25)
@given(st.lists(st.sampled_from(["Red blue.", "green ", "\n", "\n\n", "\r\n\t", "- ", " "])))
def test_the_layout_is_kept(translator: Translator, parts: list[str]) -> None:
    text = "".join(parts) + "Pink."
    options = OptionArguments(split_sentences=True, max_tokens=6, beam_width=1)
    (translation,) = translator.translate([text], options)
    kept, whole = LAYOUT.findall(translation.text), LAYOUT.findall(text)
    if INNER_BREAK.search(text):  # a translation of one word has no position for it
        rest = iter(whole)
        assert all(mark in rest for mark in kept)
    else:
        assert kept == whole
    indents = [layout[: len(layout) - len(layout.lstrip())] for layout in (translation.text, text)]
    assert indents[0].strip("- ") == indents[1].strip("- ")


def test_closed_translators_are_freed_without_the_garbage_collector(random_bundle: Path) -> None:
    """Garbage collection delays all threads; a server that often drops models disables it."""
    translator = Translator(random_bundle)
    for options in ({}, {"beam_width": 1}, {"return_token_scores": True}):
        translator.translate(["red blue", "green. white"], options)
    parts: dict[str, weakref.ref[Any]] = {
        "translator": weakref.ref(translator),
        "tokenizer": weakref.ref(translator._tokenizer),
        "network": weakref.ref(translator._engine._network),
        "scorer": weakref.ref(translator._scorer),
    }
    gc.collect()
    gc.disable()
    try:
        translator.close()
        del translator
        assert [name for name, part in parts.items() if part() is not None] == []
    finally:
        gc.enable()
