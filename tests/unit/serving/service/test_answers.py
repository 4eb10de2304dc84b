from __future__ import annotations

import logging
from concurrent.futures import CancelledError
from typing import get_args

import pytest
from dragoman_options.frames import Answer, ErrorCode, Failure
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, EngineFailure, Overloaded
from dragoman_serving.service.answers import (
    Form,
    of_beginning,
    of_error,
    of_stream_error,
    of_translations,
)
from dragoman_serving.translation.translation import Translation

from dragoman.kernel.errors import InvalidRequest, Status

BUNDLE = "0" * 64
ALL = ("text_output", "output_tokens", "finish_reason", "delta")
TRANSLATIONS = [Translation("Grün.", 3, True), Translation("Rot", 2, False)]


def elements(answer: Answer) -> dict[str, list[object]]:
    return {tensor.name: tensor.values for tensor in answer.outputs}


def test_an_answer_has_an_element_for_each_text() -> None:
    answer = of_translations(TRANSLATIONS, (), Form(7, ALL, (1, 2)), BUNDLE)
    assert (answer.number, answer.last) == (7, True)
    assert elements(answer) == {
        "text_output": ["Grün.".encode(), b"Rot"],
        "output_tokens": [3, 2],
        "finish_reason": [b"stop", b"length"],
    }
    assert {tensor.shape for tensor in answer.outputs} == {(1, 2)}


def test_alternatives_follow_the_best_translation_of_their_text() -> None:
    others = (Translation("Grünes.", 4, True, -2.0),)
    translations = [
        Translation("Grün.", 3, True, -1.0, others),
        Translation("Rot", 2, False, -0.5, (Translation("Rotes", 3, True, -0.75),)),
    ]
    names = (*ALL, "scores")
    answer = of_translations(translations, {"scores"}, Form(7, names, (1, 2)), BUNDLE)
    assert elements(answer) == {
        "text_output": ["Grün.".encode(), "Grünes.".encode(), b"Rot", b"Rotes"],
        "output_tokens": [3, 4, 2, 3],
        "finish_reason": [b"stop", b"stop", b"length", b"stop"],
        "scores": [-1.0, -2.0, -0.5, -0.75],
    }
    assert {tensor.shape for tensor in answer.outputs} == {(1, 4)}
    assert "scores" not in elements(
        of_translations(translations, (), Form(7, names, (1, 2)), BUNDLE)
    )


def test_only_requested_outputs_are_sent() -> None:
    answer = of_translations(TRANSLATIONS, (), Form(7, ("output_tokens", "colour"), (2,)), BUNDLE)
    assert elements(answer) == {"output_tokens": [3, 2]}


def test_the_bundle_is_named_for_each_translation() -> None:
    answer = of_translations(TRANSLATIONS, {"bundle"}, Form(7, ("bundle",), (1, 2)), BUNDLE)
    assert elements(answer) == {"bundle": [BUNDLE.encode()] * 2}


def test_a_partial_answer_is_not_the_last_one() -> None:
    answer = of_beginning("Grüß", "üß", 3, Form(7, ALL, (1,)))
    assert (answer.number, answer.last) == (7, False)
    assert elements(answer) == {
        "text_output": ["Grüß".encode()],
        "output_tokens": [3],
        "finish_reason": [b""],
        "delta": ["üß".encode()],
    }


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Overloaded("many", 2.3), ErrorCode.UNAVAILABLE, "UNAVAILABLE: many: try again in 3 s"),
        (Closed("closed"), ErrorCode.UNAVAILABLE, "UNAVAILABLE: closed"),
        (DeadlineExceeded("late"), ErrorCode.CANCELLED, "CANCELLED: late"),
        (
            CancelledError(),
            ErrorCode.CANCELLED,
            "CANCELLED: the request failed: CancelledError",
        ),
        (EngineFailure("broken"), ErrorCode.INTERNAL, "INTERNAL: broken"),
        (
            KeyError("secret text"),
            ErrorCode.INTERNAL,
            "INTERNAL: the request failed: KeyError",
        ),
    ],
)
def test_errors_have_tritons_codes(error: BaseException, code: ErrorCode, message: str) -> None:
    assert of_error(error, 7) == Failure(7, code, message)


def test_a_refusal_keeps_its_fields() -> None:
    refused = InvalidRequest("text 3 is loud", "made_up", "loudness", 3)
    fields = '{"kind":"made_up","option":"loudness","text_index":3}'
    assert of_error(refused, 7) == Failure(7, ErrorCode.INVALID_ARG, "text 3 is loud", fields)
    assert of_stream_error(refused, 7).details == fields
    assert of_error(InvalidRequest("no"), 7).details == '{"kind":"invalid"}'


def test_every_status_has_a_code() -> None:
    assert [ErrorCode[status].value for status in get_args(Status)] == [3, 4, 7, 1]


@pytest.mark.parametrize("error", [InvalidRequest("no"), Overloaded("no"), DeadlineExceeded("no")])
def test_every_error_of_a_stream_begins_with_its_status(error: BaseException) -> None:
    name = {"InvalidRequest": "INVALID_ARGUMENT", "Overloaded": "UNAVAILABLE"}
    status = name.get(type(error).__name__, "CANCELLED")
    assert of_stream_error(error, 7).message.startswith(f"{status}: no")


def test_only_unexpected_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        of_error(InvalidRequest("no"), 7)
        assert not caplog.records
        of_error(KeyError("x"), 7)
    assert [record.message for record in caplog.records] == ["a request failed: KeyError"]


def test_an_error_does_not_quote_at_length() -> None:
    failure = of_error(InvalidRequest("x" * 1_000_000), 7)
    assert len(failure.message) < 1000
