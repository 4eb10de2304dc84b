from __future__ import annotations

import math
import time
from typing import Any

import pytest
from dragoman_options.arguments import OptionArguments
from dragoman_options.client_frames import request_of
from dragoman_options.frames import DataType, Request, Tensor
from dragoman_options.refusal import WrongValue
from dragoman_serving.service.requests import RequestReader, RequestRules

from dragoman.kernel.errors import InvalidRequest

RULES = RequestRules()
TEXTS = Tensor.of("text_input", DataType.BYTES, (1, 2), [b"red", "grün".encode()])


def asked(*inputs: Tensor, timeout_us: int = 0, **parameters: Any) -> Request:
    return request_of(1, timeout_us, parameters, (), (TEXTS, *inputs))


def refusal(request: Request, rules: RequestRules = RULES) -> str:
    with pytest.raises((InvalidRequest, WrongValue)) as caught:
        RequestReader(rules).read(request)
    return str(caught.value)


def test_texts_keep_their_shape() -> None:
    request = RequestReader(RULES).read(asked())
    assert request.texts == ["red", "grün"]
    assert request.shape == (1, 2)
    assert request.requested.options == {}
    nothing = request_of(1, 0, {}, (), ())
    assert RequestReader(RULES).read(nothing, needs_texts=False).texts == []


def test_missing_texts_are_named_before_their_option() -> None:
    misspelt = request_of(1, 0, {"text": "red"}, (), ())
    assert refusal(misspelt) == "text_input is missing"
    lone_target = Tensor.of("target_input", DataType.BYTES, (1, 1), [b"red"])
    assert refusal(request_of(1, 0, {}, (), (lone_target,))) == "text_input is missing"


def test_options_may_be_inputs_or_parameters() -> None:
    by_input = asked(
        Tensor.of("target_language", DataType.BYTES, (1, 1), [b"en"]),
        Tensor.of("beam_width", DataType.INT32, (1, 1), [4]),
        Tensor.of("length_penalty", DataType.FP32, (1, 1), [0.5]),
        Tensor.of("split_sentences", DataType.BOOL, (1, 1), [True]),
    )
    by_parameter = asked(
        target_language="en", beam_width=4, length_penalty=0.5, split_sentences=True
    )
    right = OptionArguments(
        target_language="en", beam_width=4, length_penalty=0.5, split_sentences=True
    )
    assert RequestReader(RULES).read(by_input).requested.options == right
    assert RequestReader(RULES).read(by_parameter).requested.options == right


def test_known_options_are_not_parsed_again() -> None:
    reader = RequestReader(RULES)
    first, again = reader.read(asked(beam_width=1)), reader.read(asked(beam_width=1))
    assert again.requested is first.requested
    # True equals 1, but it is not the same request.
    assert reader.read(asked(beam_width=True)).requested.options["beam_width"] is True
    large = asked(prefix="a" * 10_000)
    assert reader.read(large).requested is not reader.read(large).requested
    for number in range(1000):
        reader.read(asked(max_tokens=number))
    assert reader.read(asked(max_tokens=7)).requested.options == {"max_tokens": 7}
    assert len(reader) <= 256


def test_each_request_has_its_own_timeout() -> None:
    reader = RequestReader(RULES)
    first, second = (reader.read(asked(timeout_us=us)).urgency for us in (1_000_000, 2_000_000))
    assert first.deadline_s is not None
    assert second.deadline_s is not None
    assert second.deadline_s > first.deadline_s


def test_tritons_own_parameters_are_not_options() -> None:
    request = asked(sequence_id=1, sequence_start=True, sequence_end=True, priority=2, timeout=3)
    assert RequestReader(RULES).read(request).requested.options == {}


def test_an_option_may_be_repeated_for_each_text() -> None:
    three = Tensor.of("beam_width", DataType.INT32, (3, 1), [2, 2, 2])
    assert RequestReader(RULES).read(asked(three)).requested.options == {"beam_width": 2}


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            Tensor.of("beam_width", DataType.INT32, (2, 1), [2, 3]),
            "input beam_width has 2 values: give one",
        ),
        (
            Tensor.of("beam_width", DataType.INT32, (0, 1), []),
            "input beam_width has 0 values: give one",
        ),
        (
            # Not even equal to itself.
            Tensor.of("length_penalty", DataType.FP32, (2, 1), [math.nan, math.nan]),
            "input length_penalty has 2 values: give one",
        ),
        (
            Tensor("beam_width", DataType.INT32, (1, 1), b"123"),
            "input beam_width is damaged",
        ),
        (
            Tensor("text_input", DataType.BYTES, (1, 1), b"\5\0\0\0four"),
            "input text_input is damaged",
        ),
        (
            Tensor.of("text_input", DataType.BYTES, (1, 2), [b"red", b"bl\xffue"]),
            "text 1 is not valid UTF-8 at byte 2",
        ),
        (
            Tensor.of("target_language", DataType.BYTES, (1, 1), [b"\x80"]),
            "input target_language is not valid UTF-8 at byte 0",
        ),
        (
            Tensor.of("text_input", DataType.BOOL, (1, 1), [True]),
            "text 0 is a number: give text, of the type BYTES",
        ),
        (
            Tensor.of("suppress", DataType.INT32, (1, 1), [5]),
            "input suppress is a number: give text, of the type BYTES",
        ),
    ],
)
def test_invalid_requests_name_the_error(tensor: Tensor, message: str) -> None:
    assert message in refusal(asked(tensor))


def test_priorities_need_the_operators_permission() -> None:
    allowed = RequestRules(priorities=True)
    assert RequestReader(allowed).read(asked(queue_priority=9)).urgency.priority == 9
    assert RequestReader(allowed).read(asked()).urgency.priority == 0
    assert "is not allowed by this server" in refusal(asked(queue_priority=9))
    for wrong in (-1, 10, 1.0, True, "1"):
        message = refusal(asked(queue_priority=wrong), allowed)
        assert message == f"option queue_priority is {wrong!r}: give 0 to 9"


@pytest.mark.parametrize(
    ("request_", "allowed_s"),
    [
        (asked(), 300.0),
        (asked(timeout_us=2_000_000), 2.0),
        (asked(timeout=2_000_000), 2.0),
        (asked(timeout=1_000_000, timeout_us=2_000_000), 1.0),
        (asked(timeout=2**62), 300.0),
    ],
)
def test_the_shortest_timeout_counts(request_: Request, allowed_s: float) -> None:
    before_s = time.monotonic()
    deadline_s = RequestReader(RULES).read(request_).urgency.deadline_s
    assert deadline_s is not None
    assert before_s + allowed_s <= deadline_s <= time.monotonic() + allowed_s


@pytest.mark.parametrize("wrong", [-1, 1.5, "1", True])
def test_times_are_whole_microseconds(wrong: Any) -> None:
    assert refusal(asked(timeout=wrong)) == f"option timeout is {wrong!r}: give microseconds"


def test_too_many_values_are_refused_before_they_are_read() -> None:
    many = Tensor("text_input", DataType.BYTES, (1, 8_000_000), b"")
    with pytest.raises(InvalidRequest, match="text_input has more than 100000 values"):
        RequestReader(RULES).read(request_of(1, 0, {}, (), (many,)))
