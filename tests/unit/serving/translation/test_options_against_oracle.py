"""Every option on real sentences: in fp32 the engine equals the oracle, token by token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import search
from dragoman_training.run import checkpoint
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.kernel.errors import InvalidRequest
from dragoman.kernel.text import Tokenizer
from tests.conftest import REPOSITORY

BUNDLE = REPOSITORY / "model_repository/translate/1/bundle"
TEXTS = [
    "I would like a cup of tea, please.",
    "Where is the next station?",
    "Tom has lived in Boston for three years.",
    "She didn't say anything, because she was tired.",
    "Call me when you get home.",
    "It is raining.",
]


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    running = Translator(BUNDLE, EngineSettings(precision="fp32", runtime="onnxruntime"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def model() -> Transformer:
    return checkpoint.load(BUNDLE).model


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(BUNDLE / "tokenizer.model")


def translate(translator: Translator, texts: list[str], **options: Any) -> list[Translation]:
    options = {"target_language": "de", "length_penalty": Options().alpha, **options}
    return translator.translate(texts, options)


def _thorough(options: dict[str, Any], oracle_options: Options) -> Any:
    """Options that others of the usual run nearly include."""
    return pytest.param(options, oracle_options, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("options", "oracle_options"),
    [
        _thorough({"patience": 2.0}, Options(patience=2.0)),
        ({"patience": 0.25}, Options(patience=0.25)),
        _thorough({"early_stopping": False}, Options(early_stopping=False)),
        (
            {"early_stopping": False, "length_penalty": 0.0, "num_return_sequences": 4},
            Options(early_stopping=False, alpha=0.0, hypotheses=4),
        ),
        _thorough({"min_tokens": 15}, Options(min_tokens=15)),
        _thorough({"repetition_penalty": 1.5}, Options(repetition_penalty=1.5)),
        (
            {"repetition_penalty": 1.5, "beam_width": 1},
            Options(repetition_penalty=1.5, beam_width=1),
        ),
        _thorough({"no_repeat_ngram_size": 1}, Options(no_repeat_ngram_size=1)),
        (
            {"no_repeat_ngram_size": 2, "min_tokens": 20},
            Options(no_repeat_ngram_size=2, min_tokens=20),
        ),
        ({"prefix": "Ich"}, Options()),
        ({"prefix": "Das ist", "beam_width": 1}, Options(beam_width=1)),
        ({"suppress": ["Tee", "ist", "in", "Ich", "er"]}, Options()),
        _thorough({"temperature": 1.0}, Options(sampling=True)),
        ({"temperature": 1.5, "top_k": 10}, Options(sampling=True, temperature=1.5, top_k=10)),
        ({"top_p": 0.8}, Options(sampling=True, top_p=0.8)),
    ],
    ids=str,
)  # fmt: skip
def test_translations_equal_the_oracles(
    translator: Translator,
    model: Transformer,
    tokenizer: Tokenizer,
    options: dict[str, Any],
    oracle_options: Options,
) -> None:
    oracle_options = replace(oracle_options, pieces=tokenizer.vocabulary)
    if oracle_options.sampling:
        options["seed"] = 7
        # A request's samples are numbered.
        oracle_options = replace(oracle_options, beam_width=1, seed=(7, 0))
    if prefix := options.get("prefix"):
        oracle_options = replace(oracle_options, prefix=tuple(tokenizer.encode(prefix)))
    if words := options.get("suppress"):
        oracle_options = replace(oracle_options, suppressed=tuple(words))
    translations = translate(translator, TEXTS, **options)
    for text, translation in zip(TEXTS, translations, strict=True):
        src = tokenizer.encode_source(text, "de")
        limit = translator.manifest.limits.target_tokens(len(src)) + len(oracle_options.prefix)
        right = search(model, [src], [limit], oracle_options)[0]
        for candidate, hypothesis in zip((translation, *translation.others), right, strict=False):
            assert candidate.text == tokenizer.decode(hypothesis.ids)
            assert candidate.complete == hypothesis.complete
            if candidate.score is not None:
                assert candidate.score == pytest.approx(
                    hypothesis.score(oracle_options.alpha), abs=1e-3
                )


def test_a_term_replaces_the_usual_word(translator: Translator) -> None:
    terms = {"tea": "Kaffee", "station": "Haltestelle", "boston": "Hamburg", "home": "Zorbhavix"}
    translations = translate(translator, TEXTS, glossary=json.dumps(terms), beam_width=8)
    plain = translate(translator, TEXTS, beam_width=8)
    for text, translation, without in zip(TEXTS, translations, plain, strict=True):
        target = next((target for term, target in terms.items() if term in text.casefold()), None)
        if target is None:
            assert translation == without
            continue
        assert translation.text.count(target) == 1
        lost = set(re.findall(r"\w+", without.text)) - set(re.findall(r"\w+", translation.text))
        assert lost  # the usual word


def test_terms_and_numbers_have_the_same_place_without_alignment_heads(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = {"tea": "Kaffee", "station": "Haltestelle", "boston": "Hamburg", "tom": "Thomas"}
    terms |= {"house": "Bude", "client": "Auftraggeber", "provider": "Auftragnehmer"}
    texts = [
        *TEXTS,
        "The door of the house is open.",
        "The client and the provider meet the client.",
        "The 1,234.5 apples of Tom cost 17 euros.",
    ]
    right = translate(translator, texts, glossary=json.dumps(terms))
    bundle = replace(translator.manifest, alignment=None)
    monkeypatch.setattr(translator, "manifest", bundle)
    translations = translate(translator, texts, glossary=json.dumps(terms))
    assert [translation.text for translation in translations] == [
        translation.text for translation in right
    ]
    assert all(
        term in " ".join(translation.text for translation in translations)
        for term in terms.values()
    )


def test_alternatives_continue_from_different_tokens(translator: Translator) -> None:
    (best,) = translate(
        translator, TEXTS[:1], prefix="Ich", num_return_sequences=4, return_alternatives=True
    )
    translations = [best, *best.others]
    assert all(translation.text.startswith("Ich ") for translation in translations)
    second = [translation.text.split()[1] for translation in translations]
    assert len(set(second)) == 4
    for translation in translations:
        # Each equals the result of a request with that prefix.
        (again,) = translate(translator, TEXTS[:1], prefix=" ".join(translation.text.split()[:2]))
        assert again.text == translation.text


@pytest.mark.parametrize("mark", [">>fra<< ", ">>fr<<", ">>FR<<\t"])
def test_a_target_language_before_a_text_is_used_if_the_request_has_none(
    translator: Translator, mark: str
) -> None:
    german, french = (
        translate(translator, TEXTS[:2], target_language=language) for language in ("de", "fr")
    )
    texts = [mark + TEXTS[0], TEXTS[1]]
    for language, expected in ((None, [french[0], german[1]]), ("de", german), ("fr", french)):
        options = {"target_language": language} if language else {}
        translations = translator.translate(texts, {"length_penalty": Options().alpha, **options})
        assert [translation.text for translation in translations] == [
            translation.text for translation in expected
        ]


@pytest.mark.parametrize("mark", [">>spa<< ", ">>cmn_Hans<<", ">>pt-BR<<\t"])
def test_a_target_language_that_the_model_lacks_is_refused_or_replaced(
    translator: Translator, mark: str
) -> None:
    (plain,) = translate(translator, TEXTS[:1], target_language="de")
    (translation,) = translate(translator, [mark + TEXTS[0]], target_language="de")
    assert translation.text == plain.text
    named = re.escape(mark.strip())
    with pytest.raises(InvalidRequest, match=f"text 1 begins with {named}, .* into .*de") as error:
        translator.translate([TEXTS[0], mark + TEXTS[0]], {})
    assert (error.value.option, error.value.text_index) == ("target_language", 1)


@pytest.mark.parametrize(
    "text", [">>xyz<< Hello.", ">>note<< Hello.", ">> fra << Hello.", "Hello >>fra<<."]
)
def test_other_marks_are_text(translator: Translator, text: str) -> None:
    (translation,) = translator.translate([text], {})
    assert "Hallo" in translation.text or "Hello" in translation.text


@pytest.mark.parametrize(
    ("text", "language", "prefix", "beginning"),
    [
        ("I would like a cup of coffee.", "de", "Ich möch", "Ich möchte "),
        ("The house is big.", "de", "Das Hau", "Das Haus "),
        ("I have a cat.", "de", "Ich habe ein", "Ich habe eine Katze"),
        ("The president is ill.", "de", "Der Präsi", "Der Präsident "),
        ("It is important.", "fr", "Il est impor", "Il est important"),
        ("Where is the station?", "fr", "Où se tr", "Où se trouve "),
    ],
)
@pytest.mark.parametrize("options", [{}, {"beam_width": 1}, {"num_return_sequences": 2}])
def test_a_word_at_the_end_of_a_prefix_is_completed(
    translator: Translator,
    text: str,
    language: str,
    prefix: str,
    beginning: str,
    options: dict[str, Any],
) -> None:
    (best,) = translate(translator, [text], target_language=language, prefix=prefix, **options)
    assert best.text.startswith(beginning)
    assert all(other.text.startswith(prefix) for other in best.others)


@pytest.mark.parametrize("options", [{}, {"return_alternatives": True}])
@pytest.mark.parametrize(("width", "count"), [(4, 2), (4, 4), (8, 4), (8, 8)])
def test_several_translations_are_different_texts(
    translator: Translator, options: dict[str, Any], width: int, count: int
) -> None:
    texts = [*TEXTS, "He is tall.", "Yes.", "x", ""]
    for best in translate(
        translator, texts, beam_width=width, num_return_sequences=count, **options
    ):
        every = [best, *best.others]
        different = [translation.text for translation in every if not translation.is_repeated]
        assert len(every) == count
        assert len(set(different)) == len(different)
        assert {translation.text for translation in every} == {*different}


def test_alternatives_with_more_rows_than_a_worker_has_are_the_same(translator: Translator) -> None:
    options = {"num_return_sequences": 5, "beam_width": 5, "return_alternatives": True}
    settings = EngineSettings(precision="fp32", runtime="onnxruntime", max_rows=10)
    in_parts = Translator(BUNDLE, settings)
    try:
        translations = translate(in_parts, TEXTS[:2], **options)
    finally:
        in_parts.close()
    for best, right in zip(translations, translate(translator, TEXTS[:2], **options), strict=True):
        assert [translation.text for translation in (best, *best.others)] == [
            translation.text for translation in (right, *right.others)
        ]


def test_samples_depend_only_on_their_seed(translator: Translator) -> None:
    options = {"temperature": 1.0, "seed": 11, "num_return_sequences": 4}
    together = translate(translator, TEXTS, **options)
    for text, best in zip(TEXTS, together, strict=True):
        (alone,) = translate(translator, [text], **options)
        assert [alone.text, *(other.text for other in alone.others)] == [
            best.text,
            *(other.text for other in best.others),
        ]
    assert len(
        {translation.text for best in together for translation in (best, *best.others)}
    ) > len(TEXTS)
    others = translate(translator, TEXTS, **{**options, "seed": 12})
    assert [translation.text for translation in others] != [
        translation.text for translation in together
    ]
    # Without a seed, the result is random.
    free = {tuple(t.text for t in translate(translator, TEXTS, temperature=2.0)) for _ in range(3)}
    assert len(free) > 1


def test_coverage_is_computed_from_attention(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test computes coverage from the weights of soft alignments."""
    # A logarithm of a small weight needs more digits than a response has.
    monkeypatch.setattr("dragoman_serving.scoring.alignment._DIGITS", 7)
    options: dict[str, Any] = {"num_return_sequences": 4, "return_alignments": "soft"}
    changed = 0
    for text in TEXTS:
        (plain,) = translate(translator, [text], **options)
        (best,) = translate(translator, [text], **options, coverage_penalty=2.0)
        right = {}
        for translation in (plain, *plain.others):
            assert translation.assessment is not None
            weights = np.array(json.loads(str(translation.assessment.alignment))["weights"])
            coverage = np.log(np.clip(weights.sum(axis=0), 1e-6, 1.0)).sum()
            right[translation.text] = (translation.score or 0.0) + 2.0 * coverage
        ranked = [translation.text for translation in (best, *best.others)]
        for translation in (best, *best.others):
            assert translation.score == pytest.approx(right[translation.text], abs=0.001)
        changed += ranked != [translation.text for translation in (plain, *plain.others)]
    assert changed


def test_coverage_reranks_the_beam(translator: Translator) -> None:
    plain = translate(translator, TEXTS, num_return_sequences=4)
    for penalty in (1e-6, 5.0):
        translations = translate(
            translator, TEXTS, num_return_sequences=4, coverage_penalty=penalty
        )
        for best, before in zip(translations, plain, strict=True):
            ranked = [best, *best.others]
            assert {t.text for t in ranked} == {t.text for t in (before, *before.others)}
            scores = [t.score for t in ranked if t.score is not None]
            assert scores == sorted(scores, reverse=True)
            if penalty < 1:
                assert [t.text for t in ranked] == [t.text for t in (before, *before.others)]
            else:
                assert scores[0] < (before.score or 0.0)


placeholders = st.one_of(
    st.from_regex(r"\{[a-z_]{0,8}\}", fullmatch=True),
    st.sampled_from(
        ["%s", "%d", "%1$s", "%(n)d", "<b>", "</b>", "<a href='x'>", "${X}", "{{  x }}", "{n²}"]
    ),
    st.from_regex(r"https://[a-z]{1,5}\.[a-z]{2}/[a-z0-9?=]{0,8}[a-z]", fullmatch=True),
    st.from_regex(r"[1-9][0-9]{0,4}(:[0-9]{2})?", fullmatch=True),
)
WORDS = [
    *("Hello", "please", "call", "Tom", "at", "today", "and"),
    *("you", "have", "new", "messages", "in", "Boston"),
]
words = st.sampled_from(WORDS)


others = st.fixed_dictionaries(
    {},
    optional={
        "suppress": st.just(["Hallo", "Tom", "heute"]),
        "glossary": st.just('{"tom": "Thomas", "boston": "Hamburg"}'),
        "beam_width": st.sampled_from([2, 4]),
        "no_repeat_ngram_size": st.just(3),
    },
)


@settings(max_examples=60)
@given(st.lists(st.one_of(words, placeholders), min_size=1, max_size=8), others)
@example(["Hello", "<a title='Good. Very good.'>", "https://a.aa/" + "0a" * 60, "Tom."], {})
@example(["Hello", "https://a.aa/a", "<a href='x'>", "https://a.aa/0a"], {})
@example(["Hello", "https://a.aa/a", "<b>", "{{  x }}"], {})
@example(
    ["2", "Tom", "{}"],
    {"suppress": ["Hallo", "Tom", "heute"], "glossary": '{"tom": "Thomas", "boston": "Hamburg"}'},
)
def test_placeholders_survive(
    translator: Translator, parts: list[str], others: dict[str, Any]
) -> None:
    text = " ".join(parts)
    (translation,) = translate(translator, [text], keep_placeholders=True, **others)
    for word in others.get("suppress", []):
        is_kept = "untranslated" in translation.warnings  # the text itself
        assert is_kept or not re.search(rf"(?<!\w){word}(?!\w)", translation.text)
    if "glossary" in others and "Tom" in parts:
        assert "Thomas" in translation.text
    for part in {part for part in parts if not part[0].isdigit()} - set(WORDS):
        assert translation.text.count(part) >= parts.count(part)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(words | placeholders, st.sampled_from(["", " "])), min_size=1, max_size=6)
)
def test_white_space_within_tags_equals_the_texts(
    translator: Translator, parts: list[tuple[str, str]]
) -> None:
    text = "".join(word + gap for word, gap in parts).strip()
    (translation,) = translate(translator, [text], keep_placeholders=True)
    inner = re.compile(r"<[^/<>]*>(\s*)(?=\S)|(?<=\S)(\s*)</[^<>]*>")
    before, after = (
        [bool(match[1] or match[2]) for match in inner.finditer(whole)]
        for whole in (text, translation.text)
    )
    if len(before) == len(after):  # at its ends, a text has no inner side
        assert after == before


def test_placeholders_stay_within_the_limit(translator: Translator) -> None:
    text = "Please {a} call {b} me {c} when {d} you {e} are {f} at {g} home."
    (translation,) = translate(translator, [text], keep_placeholders=True, max_tokens=12)
    assert translation.output_tokens <= 12
    assert not translation.complete
