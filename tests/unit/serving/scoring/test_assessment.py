"""Translations with the model's assessments, through the engine and the scorer."""

from __future__ import annotations

import gc
import json
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dragoman_options.arguments import OptionArguments
from dragoman_serving.engine.errors import DeadlineExceeded, Overloaded
from dragoman_serving.engine.futures import outcome_error
from dragoman_serving.engine.settings import EngineSettings, Precision
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.request.plan import plan_scoring
from dragoman_serving.request.urgency import Urgency
from dragoman_serving.scoring import assessment
from dragoman_serving.scoring.assessment import Assessment, Candidate, SentencePair
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.manifest import AlignmentHeads, Limits, Manifest
from tests.conftest import REPOSITORY
from tests.waiting import wait_until_done

HEADS = AlignmentHeads(((2, 0),), False, "anchors", 1.0, 1, "nothing")


@pytest.fixture(scope="module")
def bundle(random_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle whose manifest names alignment heads."""
    folder = tmp_path_factory.mktemp("assessment") / "bundle"
    shutil.copytree(random_bundle, folder)
    replace(Manifest.load(folder), alignment=HEADS).write(folder)
    return folder


@pytest.fixture(scope="module")
def translator(bundle: Path) -> Iterator[Translator]:
    """A translator in the scorer's precision."""
    running = Translator(bundle, EngineSettings(precision="fp32"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def shipped() -> Iterator[Translator]:
    """A model that generates an end symbol."""
    bundle = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
    running = Translator(bundle, EngineSettings(precision="fp32"))
    yield running
    running.close()


def translate(translator: Translator, texts: list[str], **options: Any) -> list[Translation]:
    return translator.translate(texts, options)


def assessed(translation: Translation) -> Assessment:
    assert translation.assessment is not None
    return translation.assessment


TEXTS = ["red blue", "green", "white white black", "pink grey brown red blue green"]


def test_token_scores_add_up_to_the_score_of_beam_search(shipped: Translator) -> None:
    texts = ["I would like a cup of coffee.", "Good morning!", "Tom's."]
    translations = translate(shipped, texts, return_token_scores=True, num_return_sequences=3)
    every = [translation for best in translations for translation in (best, *best.others)]
    every += translate(shipped, texts, return_token_scores=True, max_tokens=3)
    assert len(every) == 12
    assert {translation.complete for translation in every} == {True, False}
    for translation in every:
        scores = json.loads(str(assessed(translation).token_scores))
        assert (
            len(scores["tokens"])
            == len(scores["log_probs"])
            == translation.output_tokens + translation.complete
        )
        assert (scores["tokens"][-1] == "</s>") == translation.complete
        alpha = shipped.manifest.limits.length_penalty
        assert translation.score == pytest.approx(assessed(translation).score(alpha), abs=1e-3)
        assert assessed(translation).confidence == pytest.approx(
            sum(scores["log_probs"]) / len(scores["log_probs"]), abs=1e-5
        )


@pytest.mark.parametrize("is_lost", [False, True])
@pytest.mark.parametrize(
    "placeholder", ["{first\u200bname}", "{a\u3000b}", "<a\u200b\u200bb c>Tom</a>", "{½}"]
)
@pytest.mark.parametrize("splits", [False, True])
def test_links_are_those_of_the_text_that_is_returned(
    placeholder: str,
    is_lost: bool,
    splits: bool,
    shipped: Translator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The vocabulary may write a placeholder differently, with another number of words."""
    if is_lost:  # then the parts between placeholders are translated separately
        monkeypatch.setattr(Reading, "is_in", lambda *_: False)
    text = f"Hello {placeholder}, that is a cup. {placeholder} is here."
    options = {"keep_placeholders": True, "split_sentences": splits, "return_alignments": "hard"}
    (translation,) = translate(shipped, [text], **options)
    assert translation.text.count(placeholder) == 2
    links = [
        tuple(map(int, link.split("-"))) for link in str(assessed(translation).alignment).split()
    ]
    source, target = text.split(), translation.text.split()
    tag = {place for place, word in enumerate(target) if word == "<a\u200b\u200bb"}
    assert {word for _, word in links} == set(range(len(target))) - tag
    assert ("here.", "hier.") in {(source[src], target[tgt]) for src, tgt in links}


def test_greedy_search_has_scores_on_request(translator: Translator) -> None:
    plain = translate(translator, TEXTS, beam_width=1)
    assert [(translation.score, translation.assessment) for translation in plain] == [
        (None, None)
    ] * 4
    translations = translate(
        translator, TEXTS, beam_width=1, return_scores=True, length_penalty=1.3
    )
    assert [translation.text for translation in translations] == [
        translation.text for translation in plain
    ]
    scored = translate(
        translator, TEXTS, beam_width=1, return_scores=True, return_token_scores=True
    )
    right = [assessed(translation).score(1.3) for translation in scored]
    # int8 by the search if the machine supports it, fp32 by the graph.
    assert [translation.score for translation in translations] == pytest.approx(right, abs=0.3)


@pytest.mark.parametrize("width", [1, 4])
def test_a_search_returns_its_confidence(translator: Translator, width: int) -> None:
    options = {"beam_width": width, "return_confidence": True, "length_penalty": 1.3}
    quick = translate(translator, TEXTS, **options)
    right = translate(translator, TEXTS, **options, return_token_scores=True)
    assert [translation.text for translation in quick] == [
        translation.text for translation in right
    ]
    assert all(translation.assessment is None for translation in quick)
    for translation, scored in zip(quick, right, strict=True):
        assert translation.confidence == pytest.approx(assessed(scored).confidence, abs=0.1)
    # If its scores are no longer the model's, the graph computes them.
    (altered,) = translate(translator, TEXTS[:1], **options, repetition_penalty=1.2)
    assert altered.assessment is not None


def test_text_without_words_has_full_confidence(translator: Translator) -> None:
    for options in (
        {"return_confidence": True},
        {"return_alignments": "hard"},
        {"return_alignments": "soft"},
    ):
        (translation,) = translate(translator, ["* * *"], split_sentences=True, **options)
        assert (translation.text, translation.confidence) == ("* * *", 0.0)


def test_a_translation_cut_at_the_limit_is_scored(translator: Translator) -> None:
    options = {"min_tokens": 320, "max_tokens": 320, "return_token_scores": True}
    (translation,) = translate(translator, TEXTS[:1], **options, return_alignments="soft")
    assert (translation.output_tokens, translation.complete) == (320, False)
    assert len(assessed(translation).tokens) == len(assessed(translation).log_probs) == 320
    assert len(json.loads(str(assessed(translation).alignment))["weights"]) == 320


def test_a_translation_of_more_tokens_is_refused(translator: Translator) -> None:
    """Joining parts of a translation after placeholders were lost can produce one."""
    pair = SentencePair((4, 11, 3), (11,) * 320, "red", complete=True)
    with pytest.raises(InvalidRequest, match="a translation of 321 tokens cannot be scored"):
        translator._assessor.assess(
            [Candidate("red", "", (pair,))], plan_scoring(OptionArguments(), Limits())
        )


def test_several_sentences_are_joined(translator: Translator) -> None:
    first, second = "red blue green.", "White black!"
    options = {"return_token_scores": True, "max_tokens": 8}
    (whole,) = translate(translator, [f" {first}\n\n {second}"], split_sentences=True, **options)
    parts = [
        assessed(translation) for translation in translate(translator, [first, second], **options)
    ]
    joined = assessed(whole)
    assert joined.tokens == parts[0].tokens + parts[1].tokens
    log_probs = [*parts[0].log_probs, *parts[1].log_probs]
    assert joined.log_probs == pytest.approx(log_probs, abs=1e-4)
    assert joined.confidence == pytest.approx(sum(log_probs) / len(log_probs), abs=1e-4)


def test_words_are_counted_in_the_whole_text(translator: Translator) -> None:
    first, second = "red blue green.", "White black!"
    options = {"return_alignments": "hard", "max_tokens": 8}
    (whole,) = translate(translator, [f" {first}\n\n {second}"], split_sentences=True, **options)
    parts = translate(translator, [first, second], **options)
    links = [[tuple(map(int, x.split("-"))) for x in links_of(part)] for part in (whole, *parts)]
    assert all(links)
    shift = len(first.split()), len(parts[0].text.split())
    assert links[0] == links[1] + [(src + shift[0], tgt + shift[1]) for src, tgt in links[2]]


def links_of(translation: Translation) -> list[str]:
    return str(assessed(translation).alignment).split()


def test_soft_alignments_link_subword_tokens(translator: Translator) -> None:
    (translation,) = translate(translator, ["red blue"], return_alignments="soft", max_tokens=8)
    soft = json.loads(str(assessed(translation).alignment))
    assert "".join(soft["source"]).replace("▁", " ").strip() == "red blue"
    assert len(soft["weights"]) == len(soft["target"]) == translation.output_tokens
    assert {len(row) for row in soft["weights"]} == {len(soft["source"])}
    assert all(0 <= sum(row) <= 1.001 for row in soft["weights"])


def test_given_translations_are_scored_like_own_ones(shipped: Translator) -> None:
    texts = ["I would like a cup of coffee.", "Good morning!"]
    own = translate(shipped, texts, return_alignments="hard", return_scores=True)
    options = OptionArguments(return_alignments="hard")
    assessments = shipped.score(
        texts, [translation.text for translation in own], options
    ).future.result(60)
    for translation, scored in zip(own, assessments, strict=True):
        assert scored.tokens == assessed(translation).tokens
        assert scored.log_probs == pytest.approx(assessed(translation).log_probs, abs=1e-4)
        assert scored.alignment == assessed(translation).alignment
        alpha = shipped.manifest.limits.length_penalty
        assert scored.score(alpha) == pytest.approx(translation.score, abs=1e-3)
    worse, better = shipped.score(
        ["Good morning!"] * 2, ["Gute Nacht!", "Guten Morgen!"], OptionArguments()
    ).future.result(60)
    assert worse.confidence < better.confidence


@settings(max_examples=60)
@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40), st.booleans())
def test_no_text_breaks_the_assessment(
    shipped: Translator, text: str, target: str, split: bool
) -> None:
    options = {"return_alignments": "hard", "return_token_scores": True}
    try:
        (scored,) = shipped.score([text], [target], options).future.result(60)
        (own,) = translate(shipped, [text], split_sentences=split, max_tokens=4, **options)
    except InvalidRequest:
        return
    for alignment, translated in ((scored.alignment, target), (assessed(own).alignment, own.text)):
        for link in str(alignment).split():
            src, tgt = map(int, link.split("-"))
            assert src < len(text.split())
            assert tgt < len(translated.split())


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_only_outputs_that_the_scorer_computes_are_refused_by_it(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    """With ONNX Runtime, searches return only token scores; with compiled code, alignments too."""

    def refuse(*_: object) -> None:
        raise Overloaded("the scorer is busy")

    with closing(Translator(bundle, EngineSettings(precision))) as running:
        monkeypatch.setattr(running._scorer, "check", refuse)
        assert assessed(translate(running, TEXTS[:1], return_token_scores=True)[0])
        for option in ({"return_alignments": "hard"}, {"coverage_penalty": 0.2}):
            if precision == "int8":
                assert translate(running, TEXTS[:1], **option)
                continue
            with pytest.raises(Overloaded, match="the scorer is busy"):
                translate(running, TEXTS[:1], **option)
        with pytest.raises(Overloaded, match="the scorer is busy"):
            running.score(["red"], ["blue"], {})


@pytest.mark.parametrize(
    ("texts", "targets", "options", "message"),
    [
        ([], [], {}, "text_input is empty"),
        (["red"], [], {}, "text_input has 1 texts and target_input 0: give a target for each"),
        (["red", " "], ["blue"] * 2, {}, "text 1 is empty, but its target is not"),
        (["red", "red"], ["blue", "\n"], {}, "target 1 is empty, but its text is not"),
        (["red"], ["red " * 400], {}, "target 0 has 400 tokens, more than 319: shorten it"),
        (["red " * 300], ["red"], {}, "text 0 has 300 tokens, more than 254: shorten it"),
        (["red"], ["x" * 100_001], {}, "target 0 has 100001 characters, more than 100000"),
        (["red"], ["blue"], {"target_language": "xx"}, "target_language 'xx' is unknown"),
        (["red"], ["blue"], {"beam_width": 4}, "beam_width: not supported by the model score"),
        (
            ["red"],
            ["blue"],
            {"split_sentences": True},
            "split_sentences: not supported by the",
        ),
        (["red"], ["blue"], {"length_penalty": -1.0}, "length_penalty is -1.0: give 0 to 10"),
        (["red"], ["blue"], {"return_alignments": "x"}, "return_alignments is 'x': give hard or"),
        (["a"] * 20_001, ["b"] * 20_001, {}, "20001 translations to score in one request"),
        (["a"] * 30, ["x" * 90_000] * 30, {}, "the texts have 2700030 characters together"),
    ],
)
def test_given_pairs_that_cannot_be_scored_are_named(
    translator: Translator,
    texts: list[str],
    targets: list[str],
    options: dict[str, Any],
    message: str,
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        translator.score(texts, targets, options)
    assert len(str(caught.value).splitlines()) == 1
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "options", "message"),
    [
        ("_MOST_TOKENS", {"return_token_scores": True}, "tokens, more than 1: send fewer texts"),
        ("_MOST_WEIGHTS", {"return_alignments": "soft"}, "soft alignments would take"),
        ("_MOST_WEIGHTS", {"return_alignments": "hard"}, "hard alignments would take"),
    ],
)
def test_too_large_outputs_are_refused(
    translator: Translator,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
    options: dict[str, Any],
    message: str,
) -> None:
    monkeypatch.setattr(assessment, limit, 1 if limit == "_MOST_TOKENS" else {"hard": 1, "soft": 1})
    with pytest.raises(InvalidRequest, match=message):
        translate(translator, TEXTS, **options)


def test_assessed_requests_leave_nothing_for_the_garbage_collector(
    translator: Translator,
) -> None:
    option = OptionArguments(return_token_scores=True, return_alignments="hard")
    for rounds in (2, 24):  # the first time, caches are filled
        gc.collect()
        gc.disable()
        for _ in range(rounds):
            translator.translate(TEXTS, option)
            late = translator.submit(TEXTS, option, Urgency(deadline_s=time.monotonic() - 1)).future
            wait_until_done([late])
            assert isinstance(outcome_error(late), DeadlineExceeded)
            given_up = translator.submit(TEXTS * 20, option).future
            given_up.cancel()
        translator.translate(TEXTS)  # after all of that was cancelled
        del late, given_up
        left = gc.collect()
        gc.enable()
    assert left < 24  # threads of the test runner leave a few
