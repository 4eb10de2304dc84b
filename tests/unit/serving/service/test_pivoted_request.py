"""Requests through a pivot language: two legs, of two bundles or of one."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dragoman_options.client_frames import pack_cancel, pack_request, request_of
from dragoman_options.frames import Answer, DataType, ErrorCode, Failure, Tensor
from dragoman_options.markup import Code, Markup, PlacedCodes
from dragoman_options.table import OUTPUTS, SCORE, STREAM, TRANSLATE
from dragoman_serving.engine.futures import Future
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.markup.carried_markup import CarriedMarkup
from dragoman_serving.request.urgency import DEFAULT_URGENCY
from dragoman_serving.scoring.alignment import composed
from dragoman_serving.service import bundles as bundles_module
from dragoman_serving.service.bundles import Bundles
from dragoman_serving.service.models_to_serve import ModelsToServe
from dragoman_serving.service.pivoted_request import PivotedRequest
from dragoman_serving.service.requests import ParsedOptions, ParsedRequest
from dragoman_serving.translation.translation import Translation
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import AlignmentHeads, Manifest
from tests.conftest import REPOSITORY
from tests.small_bundles import make_bundles
from tests.unit.serving.service.triton_side import Connect, Triton, info_of, pairs, ready, served

DIRECTIONS = {"german": "en-de de-en", "french": "en-fr fr-en", "three": "en-de de-en en-fr"}
TEXTS = ["red blue green", "white grey.\nPink brown", ""]
GERMAN_TO_FRENCH = {"source_language": "de", "target_language": "fr"}
TO_ENGLISH = {"source_language": "de", "target_language": "en"}
TO_FRENCH = {"source_language": "en", "target_language": "fr"}
WAIT_S = 60
SHIPPED = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = make_bundles(tmp_path_factory.mktemp("pivot"), DIRECTIONS)
    for folder in made:
        replace(
            Manifest.read(folder),
            alignment=AlignmentHeads(((0, 1),), False, "anchors", 1.0, 1, "nothing"),
        ).write(folder)
    return made


@pytest.fixture(scope="module")
def connect(folders: list[Path]) -> Iterator[Connect]:
    with served(to_serve=ModelsToServe(tuple(map(str, folders)), pivot="EN")) as connecting:
        ready(connecting)  # the model `translate` opens the bundles
        yield connecting


def ask(triton: Triton, texts: Sequence[str], **options: Any) -> None:
    """A request for all outputs."""
    inputs = Tensor.of("text_input", DataType.BYTES, (len(texts),), [t.encode() for t in texts])
    triton.send(pack_request(request_of(1, 0, options, tuple(OUTPUTS), (inputs,))))


def outputs(answer: Answer | Failure) -> dict[str, list[Any]]:
    assert isinstance(answer, Answer), answer
    return {
        tensor.name: [v.decode() if isinstance(v, bytes) else v for v in tensor.values]
        for tensor in answer.outputs
    }


def legs(
    folders: Sequence[Path], texts: Sequence[str], of_first: Any = None, **options: Any
) -> tuple[list[Translation], list[Translation]]:
    """The result of two bundles used one after the other."""
    translations: list[list[Translation]] = []
    each: list[dict[str, Any]] = [TO_ENGLISH | (of_first or {}), TO_FRENCH | options]
    for folder, more in zip(folders, each, strict=True):
        translations.append(translated(folder, texts, more))
        texts = [translation.text for translation in translations[-1]]
    return translations[0], translations[1]


def translated(folder: Path, texts: Sequence[str], options: dict[str, Any]) -> list[Translation]:
    """The translations of a bundle alone."""
    translator = Translator(folder)
    try:
        return translator.translate(texts, options)
    finally:
        translator.close()


def last_answer(triton: Triton) -> Answer | Failure:
    """The answer, or the last one of a stream."""
    answer = triton.answer()
    while isinstance(answer, Answer) and not answer.last:
        answer = triton.answer()
    return answer


@pytest.mark.parametrize("name", [None, "three"])
def test_two_legs_are_joined_if_no_bundle_is_direct(
    connect: Connect, folders: list[Path], name: str | None
) -> None:
    first, last = (folders[2], folders[2]) if name else (folders[0], folders[1])
    before, expected = legs((first, last), TEXTS, return_confidence=True)
    model = ready(connect)
    named = {"model": name} if name else {}
    returned = ("return_bundle", "return_confidence", "return_source_tokens")
    ask(model, TEXTS, **GERMAN_TO_FRENCH, **dict.fromkeys(returned, True), **named)
    answer = outputs(model.answer())
    assert answer["source_tokens"] == [translation.source_tokens for translation in before]
    assert answer["text_output"] == [translation.text for translation in expected]
    assert answer["output_tokens"] == [translation.output_tokens for translation in expected]
    assert answer["confidences"] == pytest.approx(
        [translation.confidence for translation in expected]
    )
    assert answer["via"] == ["en"] * len(TEXTS)
    identities = ",".join(Manifest.read(folder).identity for folder in (first, last))
    assert answer["bundle"] == [identities] * len(TEXTS)
    faults = [
        set(first.warnings) | set(second.warnings)
        for first, second in zip(before, expected, strict=True)
    ]
    assert [
        set(filter(None, warnings.split(","))) for warnings in answer.get("warnings", [""] * 3)
    ] == faults


def test_direct_translations_name_no_pivot(connect: Connect) -> None:
    model = ready(connect)
    for options in ({}, TO_FRENCH, TO_ENGLISH, {"target_language": "fr"}):
        ask(model, TEXTS, **options)
        assert "via" not in outputs(model.answer())


def test_answers_name_the_codes_that_stand_for_others(connect: Connect) -> None:
    model = ready(connect)
    ask(model, TEXTS, source_language="de-AT", target_language="fra")
    values = outputs(model.answer())
    assert values["via"] == ["en"] * len(TEXTS)
    assert values["language_fallbacks"] == ["de-AT=de,fra=fr"] * len(TEXTS)
    ask(model, TEXTS, source_language="en_US", target_language="DE", num_return_sequences=2)
    assert outputs(model.answer())["language_fallbacks"] == ["en_US=en"] * len(TEXTS) * 2
    ask(model, TEXTS, source_language="EN", target_language="de")
    assert "language_fallbacks" not in outputs(model.answer())
    stream = ready(connect, STREAM)
    ask(stream, TEXTS[:1], source_language="en", target_language="deu")
    answer = last_answer(stream)
    assert isinstance(answer, Answer)
    assert outputs(answer)["language_fallbacks"] == ["deu=de"]


def test_options_of_the_translation_apply_to_the_second_leg(
    connect: Connect, folders: list[Path]
) -> None:
    options = {"num_return_sequences": 3, "return_scores": True, "max_tokens": 5}
    _, expected = legs(folders[:2], TEXTS[:1], {"beam_width": 5}, beam_width=5, **options)
    model = ready(connect)
    ask(model, TEXTS[:1], **GERMAN_TO_FRENCH, beam_width=5, **options)
    answer = outputs(model.answer())
    best = expected[0]
    assert answer["text_output"] == [translation.text for translation in (best, *best.others)]
    assert answer["scores"] == pytest.approx(
        [translation.score for translation in (best, *best.others)]
    )
    assert answer["finish_reason"] == [
        "length" if not translation.complete else "stop" for translation in (best, *best.others)
    ]


@pytest.mark.parametrize("form", ["hard", "soft"])
def test_alignments_are_composed(connect: Connect, folders: list[Path], form: str) -> None:
    options = {"return_alignments": form}
    expected = []
    for first, second in zip(*legs(folders[:2], TEXTS, options, **options), strict=True):
        assert first.assessment is not None
        assert second.assessment is not None
        expected.append(composed(first.assessment.alignment, second.assessment.alignment))
    model = ready(connect)
    ask(model, TEXTS, **GERMAN_TO_FRENCH, **options)
    alignments = outputs(model.answer())["alignments"]
    assert alignments == [str(alignment) for alignment in expected]
    if form == "soft":
        soft = json.loads(alignments[0])
        assert "".join(soft["source"]).replace("▁", " ").strip() == TEXTS[0]
        sums = np.array(soft["weights"]).sum(axis=1)
        assert ((sums > 0) & (sums < 1.01)).all()


def test_a_stream_has_the_text_of_the_second_leg(connect: Connect, folders: list[Path]) -> None:
    _, expected = legs(folders[:2], TEXTS[1:2], repair=False)
    stream = ready(connect, STREAM)
    ask(stream, TEXTS[1:2], **GERMAN_TO_FRENCH, return_bundle=True)
    texts, deltas = [], ""
    while True:
        answer = stream.answer()
        values = outputs(answer)
        texts += values["text_output"]
        deltas += values["delta"][0]
        assert isinstance(answer, Answer)
        if answer.last:
            break
    assert texts[-1] == deltas == expected[0].text
    assert all(texts[-1].startswith(text) for text in texts)
    assert values["via"] == ["en"]
    assert values["bundle"][0].count(",") == 1


@pytest.mark.parametrize("model", [TRANSLATE, STREAM])
def test_codes_of_the_first_leg_are_placed_by_the_second(
    connect: Connect, folders: list[Path], model: str
) -> None:
    text = TEXTS[1]
    markup = Markup((Code(0, 11), Code(6, 10, 0), Code(12, 12), Code(17, 22)))
    (before,), _ = legs(folders[:2], [text], {"markup": markup})
    assert before.codes is not None
    carried = CarriedMarkup(text, markup)
    between = carried.last(before.text, before.codes)
    (expected,) = translated(folders[1], [before.text], TO_FRENCH | {"markup": between})
    assert expected.codes is not None
    triton = ready(connect, model)
    _ask_with_input(triton, text, "markup", str(markup))
    answer = outputs(last_answer(triton))
    assert answer["text_output"] == [expected.text]
    assert answer["codes"] == [str(carried.joined(before.codes, expected.codes))]


def test_texts_with_and_without_markup_can_be_mixed(connect: Connect) -> None:
    triton = ready(connect)
    texts = Tensor.of("text_input", DataType.BYTES, (3,), [text.encode() for text in TEXTS])
    markups = Tensor.of("markup", DataType.BYTES, (3,), [b"", b"{}", b'{"codes": [[0, 0]]}'])
    names = ("text_output", "codes")
    triton.send(pack_request(request_of(1, 0, GERMAN_TO_FRENCH, names, (texts, markups))))
    answer = outputs(triton.answer())
    assert [json.loads(codes)["codes"] for codes in answer["codes"]] == [[], [], [[0, 0]]]


def test_tags_and_kept_words_pass_through_both_legs() -> None:
    text = (
        "Rufen Sie die <b>Funktion</b> <code>get_size</code> auf, um die <a>rote Tür</a> zu öffnen."
    )
    parts = re.split(r"(<[^>]*>)", text)
    plain = "".join(parts[::2])
    begins = list(accumulate(map(len, parts[::2])))[:-1]
    codes = [Code(*pair) for pair in zip(begins[::2], begins[1::2], strict=True)]
    markup = Markup(tuple(codes), (codes[1][:2],))
    with served(to_serve=ModelsToServe((str(SHIPPED),), pivot="en")) as connect:
        triton = ready(connect)
        _ask_with_input(triton, plain, "markup", str(markup))
        answer = outputs(triton.answer())
    placed = PlacedCodes.parse(answer["codes"][0])
    assert placed.uncertain == 0
    words = [answer["text_output"][0][begin:end] for begin, end in placed.codes]
    assert words == ["fonction", "get_size", "porte rouge"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"glossary": '{"red": "rouge"}'}, "glossary: not through a pivot language"),
        ({"markup": '{"codes": [[0, 99]]}'}, "markup of text 0: code 0 is 0 to 99: give a part"),
        ({"return_attention": True}, "return_attention: not through a pivot language"),
        ({"max_length_ratio": 2.0}, "max_length_ratio: not through a pivot language"),
        ({"beam_width": "wide"}, "beam_width is 'wide': give a whole number"),
        (
            {"split_sentences": False},
            "shorten it, or set split_sentences (in its translation into 'en')",
        ),
        ({"model": "french"}, "source_language 'de' is unknown; known: en, fr"),
        ({"source_language": "fr"}, "no model translates from 'fr' into 'fr': there are en-de"),
    ],
)
def test_options_that_exclude_a_pivot_are_refused_by_name(
    connect: Connect, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TEXTS[0]
    if options == {"split_sentences": False}:
        _lengthen(monkeypatch)
    for model in (TRANSLATE, STREAM):
        if options == {"return_attention": True} and model == STREAM:
            message = "return_attention: not supported in a stream"
        triton = ready(connect, model)
        if name := next((option for option in ("glossary", "markup") if option in options), None):
            _ask_with_input(triton, text, name, options[name])
        else:
            ask(triton, [text], **(GERMAN_TO_FRENCH | options))
        failure = last_answer(triton)
        assert isinstance(failure, Failure), outputs(failure)
        assert message in failure.message
        assert failure.code is ErrorCode.INVALID_ARG
        assert "\n" not in failure.message


def _lengthen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make first legs generate more text than a second leg accepts."""
    submit = Translator.submit

    def longer(self: Translator, texts: Sequence[str], options: Any, *more: Any) -> Any:
        if options.get("target_language") == "en":
            texts = ["red blue"]
        begun = submit(self, texts, options, *more)
        if options.get("target_language") == "en":
            for translation in begun.future.result(WAIT_S):
                object.__setattr__(translation, "text", "red " * 500)
        return begun

    monkeypatch.setattr(Translator, "submit", longer)


def _ask_with_input(triton: Triton, text: str, name: str, value: str) -> None:
    inputs = (
        Tensor.of("text_input", DataType.BYTES, (1,), [text.encode()]),
        Tensor.of(name, DataType.BYTES, (1,), [value.encode()]),
    )
    triton.send(pack_request(request_of(1, 0, GERMAN_TO_FRENCH, tuple(OUTPUTS), inputs)))


def test_scores_come_only_from_direct_models(connect: Connect) -> None:
    score = ready(connect, SCORE)
    score.send(pairs(1, ["red"], ["blue"], **GERMAN_TO_FRENCH))
    failure = score.failure()
    assert failure.message == "no model translates from 'de' into 'fr' directly"


def test_info_lists_pairs_with_their_models(connect: Connect) -> None:
    listed = info_of(connect)
    assert [
        (pair["source"], pair["target"], pair["via"], pair["models"]) for pair in listed["pairs"]
    ] == [
        ("en", "de", None, ["german", "three"]),
        ("de", "en", None, ["german", "three"]),
        ("en", "fr", None, ["french", "three"]),
        ("fr", "en", None, ["french"]),
        ("de", "fr", "en", ["german", "french"]),
        ("fr", "de", "en", ["french", "german"]),
    ]
    assert listed["directions"] == [[pair["source"], pair["target"]] for pair in listed["pairs"]]


class _Slow(Translator):
    """Waits before the second leg is loaded."""

    gate = threading.Event()
    reached = threading.Event()

    def __init__(self, bundle: Path, *more: Any, **named: Any) -> None:
        if bundle.name == "french":
            _Slow.reached.set()
            _Slow.gate.wait(WAIT_S)
        super().__init__(bundle, *more, **named)


def test_cancellation_and_deadline_reach_the_second_leg_and_sentences_are_counted(
    folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles_module, "Translator", _Slow)
    _Slow.gate.clear()
    to_serve = ModelsToServe(tuple(map(str, folders[:2])), pivot="en")
    with served(to_serve=to_serve) as connect:
        model, stream = ready(connect), ready(connect, STREAM)
        try:
            for triton in (model, stream):
                ask(triton, TEXTS[:1], **GERMAN_TO_FRENCH, timeout=2_000_000)
                assert _Slow.reached.wait(WAIT_S)  # the first leg is done
                late = "CANCELLED: the deadline passed while the model 'french' was loaded"
                assert triton.answer() == Failure(1, ErrorCode.CANCELLED, late)
                ask(triton, TEXTS[:1], **GERMAN_TO_FRENCH)
                triton.send(pack_cancel(1))
                failure = triton.failure()
                assert failure.code is ErrorCode.CANCELLED
        finally:
            _Slow.gate.set()
        ask(model, TEXTS, **GERMAN_TO_FRENCH)
        assert outputs(model.answer())["via"] == ["en"] * 3


def test_sentences_of_both_legs_are_counted(folders: list[Path]) -> None:
    bundles = Bundles(folders[:2], EngineSettings(), ModelsToServe(pivot="en"), lambda _: None)
    to_french = ParsedOptions(dict(GERMAN_TO_FRENCH), (), None, 0)
    parsed = ParsedRequest(TEXTS, (len(TEXTS),), to_french, DEFAULT_URGENCY)
    try:
        request = PivotedRequest(bundles, bundles.route(parsed), parsed, TRANSLATE)
        future = request.start(
            lambda translator, a, options: translator.submit(a.texts, options).future
        )
        last = future.result(WAIT_S)
        counted = [resident.record.pivoted for resident in bundles.keeper.residents]
        assert counted == [3, sum(translation.sentences for translation in last)]
        direct = replace(parsed, requested=ParsedOptions(dict(TO_ENGLISH), (), None, 0))
        bundles.start(bundles.route(direct).bundles[0], direct, _to_english).result(WAIT_S)
        assert counted == [resident.record.pivoted for resident in bundles.keeper.residents]
    finally:
        bundles.close()


def _to_english(translator: Translator) -> Future[list[Translation]]:
    return translator.submit(TEXTS, TO_ENGLISH).future


def test_a_pivot_that_no_model_has_is_refused(folders: list[Path]) -> None:
    with pytest.raises(UsageError, match="--pivot es: no model has this language; known: en, de"):
        Bundles(folders[:1], EngineSettings(), ModelsToServe(pivot="es"), lambda _: None)
