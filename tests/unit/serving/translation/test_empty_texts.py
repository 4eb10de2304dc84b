"""Texts with nothing to translate: each option has an empty answer for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dragoman_serving.engine.sentence import SearchOptions
from dragoman_serving.fidelity.casing import Capitals
from dragoman_serving.fidelity.reading import Reading
from dragoman_serving.translation.segments import SourceSentence, SourceText
from dragoman_serving.translation.translation import Composer, written
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.hypothesis import Hypothesis


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam_width": 1},
        {"return_scores": True, "return_token_scores": True, "return_confidence": True},
        {"num_return_sequences": 3, "return_scores": True},
        {"num_return_sequences": 3, "return_token_scores": True},
        {"num_return_sequences": 3, "seed": 1},
        {"num_return_sequences": 3, "return_alternatives": True},
        {"coverage_penalty": 0.5},
        {"keep_placeholders": True},
        {"glossary": {"red": "blue"}},
        {"prefix": "red"},
        {"min_tokens": 5},
        {"split_sentences": True, "return_token_scores": True},
        {"split_sentences": False},
        {"return_attention": True},
        {"source_language": "auto"},
    ],
    ids=str,
)
def test_a_text_without_words_stays(shipped: Translator, options: dict[str, Any]) -> None:
    """It needs no search, and does not change the translations of other texts beside it."""
    text, blanks = "I am hungry.", ("", "  \n\t\u00a0")
    (expected,) = shipped.translate([text], options)
    before = shipped.counts
    for blank in blanks:
        (alone,) = shipped.translate([blank], options)
        for translation in (alone, *alone.others):
            assert translation.text == blank
            assert (translation.output_tokens, translation.complete) == (0, True)
            assert (translation.score, translation.confidence) == (0.0, 0.0)
        assert len(alone.others) == options.get("num_return_sequences", 1) - 1
        if (assessment := alone.assessment) is not None:
            assert json.loads(str(assessment.token_scores)) == {"tokens": [], "log_probs": []}
            assert assessment.attention is None or assessment.attention.source == ()
    assert shipped.counts == before
    translations = shipped.translate([blanks[0], text, blanks[1]], options)
    assert [translation.text for translation in translations] == [
        blanks[0],
        expected.text,
        blanks[1],
    ]
    assert [len(translation.others) for translation in translations] == [len(expected.others)] * 3


@pytest.mark.parametrize(
    "options",
    [
        *({}, {"split_sentences": False}, {"beam_width": 1}, {"return_scores": True}),
        *(
            {"return_token_scores": True},
            {"num_return_sequences": 3},
            {"return_alignments": "hard"},
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("text", "source"),
    [("🙂🙂", "en"), (" ***\n", "en"), ("Das ist ein schöner Tag heute. Ja!", "auto")],
)
def test_a_text_without_letters_or_in_the_target_language_stays_as_it_is(
    shipped: Translator, options: dict[str, Any], text: str, source: str
) -> None:
    given = {**options, "source_language": source, "target_language": "de"}
    before = shipped.counts
    (translation,) = shipped.translate([text], given)
    assert shipped.counts == before  # nothing was decoded
    assert [translation.text, *(other.text for other in translation.others)] == (
        [text] * options.get("num_return_sequences", 1)
    )
    assert (translation.output_tokens, translation.complete, translation.warnings) == (0, True, ())
    if source == "auto":
        assert translation.detected is not None
        assert translation.detected.language == "de"
    first, second = shipped.translate([text, "I am hungry."], given)
    assert first == translation
    assert second.text not in ("", "I am hungry.")


def test_codes_of_a_text_that_stays_keep_their_places(shipped: Translator) -> None:
    markup = ['{"codes": [[4, 7], [32, 36]]}']
    text = "Das ist ein schöner Tag heute. Wir sind hier."
    given = {"source_language": "auto", "target_language": "de", "markup": markup}
    (translation,) = shipped.translate([text], given)
    assert translation.text == text
    assert translation.codes is not None
    assert translation.codes.codes == ((4, 7), (32, 36))


@pytest.mark.parametrize("splits", [False, True])
def test_a_text_of_only_tags_keeps_them(shipped: Translator, splits: bool) -> None:
    options = {"keep_placeholders": True, "split_sentences": splits, "return_confidence": True}
    texts = ["<b></b> <br>", "<b>Good morning.</b>"]
    translations = shipped.translate(texts, {**options, "target_language": "de"})
    assert [translation.text for translation in translations] == [
        "<b></b> <br>",
        "<b>Guten Morgen.</b>",
    ]


@pytest.mark.parametrize("form", ["hard", "soft"])
def test_an_empty_text_has_no_alignment(shipped: Translator, form: str) -> None:
    nothing = {"hard": "", "soft": '{"source": [], "target": [], "weights": []}'}[form]
    first, second = shipped.translate(["", "I am hungry."], {"return_alignments": form})
    assert first.assessment is not None
    assert second.assessment is not None
    assert str(first.assessment.alignment) == nothing != str(second.assessment.alignment)


def test_a_stream_of_white_space_ends_at_once(shipped: Translator) -> None:
    stream = shipped.stream(" \n", {}, lambda: None)
    assert stream.read() == " \n"
    (translation,) = stream.future.result(10)
    assert (translation.text, translation.complete) == (" \n", True)


def test_an_empty_translation_of_an_empty_text_is_scored_as_nothing(shipped: Translator) -> None:
    options = {"return_token_scores": True, "return_alignments": "hard", "return_attention": True}
    empty, pair = shipped.score([" ", "Yes."], ["", "Ja."], options).future.result(60)
    (alone,) = shipped.score(["Yes."], ["Ja."], options).future.result(60)
    assert (empty.score(1.0), empty.confidence, empty.tokens) == (0.0, 0.0, ())
    assert (str(empty.alignment), pair.tokens) == ("", alone.tokens)
    assert empty.attention is not None
    assert empty.attention.encoder.shape[2:] == empty.attention.cross.shape[2:] == (0, 0)


_WORDS = ["all", "from", "down", "by", "any", "of", "to", "in", "with", "some", "other", "about"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam_width": 4, "num_return_sequences": 3},
        {"keep_placeholders": True},
        {"return_token_scores": True},
        {"split_sentences": False},
        {"prefix": "L"},
        {"seed": 1},
        {"repair": False},
    ],
    ids=str,
)
def test_a_word_has_a_translation(shipped: Translator, options: dict[str, Any]) -> None:
    languages = {"source_language": "en", "target_language": "fr"}
    for best in shipped.translate(_WORDS, {**languages, **options}):
        for candidate in (best, *best.others):
            assert any(map(str.isalpha, candidate.text))


def test_a_sentence_whose_words_are_lost_stays(shipped: Translator) -> None:
    target = shipped._tokenizer
    capitals = Capitals()
    for ids in ((), tuple(target.encode(":")), tuple(target.encode("11"))):
        for sentence in (
            SourceSentence(
                (5, 9, 3), 9, SearchOptions(), reading=Reading("Elephant"), original="Elephant"
            ),
            SourceSentence(
                (5, 9, 3),
                9,
                SearchOptions(),
                reading=Reading("Not"),
                original="NOT",
                capitals=capitals,
            ),
        ):
            assert written(target, sentence, ids) == sentence.original
            # A stream waits until it has letters, or is complete.
            assert written(target, sentence, ids, is_whole=False) == ""
            text = SourceText([sentence, ""])
            (translation,) = Composer(target, None).compose(
                [text], [Hypothesis(ids, None, complete=True)], shipped.plan({}, 1)
            )
            assert translation.text == sentence.original
            assert translation.warnings == ("untranslated",)
