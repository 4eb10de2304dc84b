"""The outputs of the table: their codecs, and what other parts rely on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
from typing import Any, get_type_hints

import numpy as np
import pytest
from dragoman_client import PairScore, ServerError, Translation
from dragoman_client.core.request import read_outputs
from dragoman_client.files.line_formats import answer_as_json
from dragoman_client.transports.own_wire import read_answers
from dragoman_options.assessment import SoftAlignment, TokenScores, WordAlignment
from dragoman_options.markup import Markup, PlacedCodes
from dragoman_options.option import Option
from dragoman_options.output import Output
from dragoman_options.table import OPTIONS, OUTPUTS, SCORE, STREAM, TRANSLATE, check

EACH = pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS.keys())


def some_value(output: Output, chance: random.Random) -> Any:
    """A value of an output's field; None: its class has a test of its own."""
    text = "".join(chance.choices('aé\U0001f600"\\', k=chance.randint(1, 6)))
    number = float(np.float32(chance.uniform(-9, 9)))
    kinds = {
        str: text,
        int: chance.randint(0, 99),
        float: number,
        list[str]: tuple(chance.sample(("a", "b-c", "zh-CN=cmn_Hans"), chance.randint(1, 3))),
        TokenScores: TokenScores((text, "</s>"), (number, -1.0)),
        str | SoftAlignment: chance.choice(
            (WordAlignment(((0, 1), (12, 0))), SoftAlignment((text,), ("b",), ((0.5,),)))
        ),
        PlacedCodes: PlacedCodes(((0, chance.randint(0, 9)), (2, 2)), uncertain=1),
    }
    return kinds.get(output.codec.json_type)


@EACH
def test_a_value_passes_through_tensors_and_json(output: Output) -> None:
    chance = random.Random(output.name)
    for _ in range(20):
        if (value := some_value(output, chance)) is None:
            assert output.name == "attention"
            continue
        codec = output.codec
        form = "soft" if isinstance(value, SoftAlignment) else "hard"
        (element,) = codec.elements([value])
        assert isinstance(element, str) == (codec.datatype == "BYTES")
        options = {"return_alignments": form}
        assert codec.parse(element, options) == value
        written = json.loads(json.dumps(codec.as_json(value)))
        assert codec.parse(codec.element(written), options) == value


@EACH
@pytest.mark.parametrize(
    "wrong",
    [None, b"\xff", b"{}", b"[" * 100_000, b"[[[]]]", 3.5, float("inf"), 10**400, [], {"a": 1}],
    ids=lambda wrong: repr(wrong)[:12],
)
def test_a_malformed_answer_is_an_error_of_the_server(output: Output, wrong: Any) -> None:
    options = {option.name: True for option in OPTIONS.values() if option.output == output.name}
    options |= {"source_language": "auto"} if output.detected else {}
    good = {"text_output": b"a", "output_tokens": 1, "finish_reason": b"stop"}
    others = {"detected_language": b"en", "detected_probability": 0.5} if output.detected else {}
    outputs = {name: [value] for name, value in {**good, **others, output.name: wrong}.items()}
    with contextlib.suppress(ServerError):
        (translation,) = read_outputs(outputs, 1, 0.0, options)
        # Any UTF-8 is a text, and any number is a number.
        assert isinstance(
            getattr(translation, output.field), str | int | float | tuple | WordAlignment
        )


@pytest.mark.parametrize("wrong", [None, 3, [3], {"a": "b"}, [[["a"]]], True])
@EACH
def test_a_malformed_answer_of_a_gateway_is_an_error_of_the_server(
    output: Output, wrong: Any
) -> None:
    options = {option.name: "hard" for option in OPTIONS.values() if option.output == output.name}
    good = {"text": "a", "output_tokens": 1, "finish_reason": "stop"}
    body = json.dumps({"translations": [{**good, output.field: wrong}]}).encode()
    with contextlib.suppress(ServerError):
        outputs = read_answers("here", "translations", 1, 200, None, body)
        read_outputs(outputs, 1, 0.0, options)


@EACH
def test_an_output_says_when_it_is_sent(output: Output) -> None:
    requested = [option for option in OPTIONS.values() if option.output == output.name]
    assert requested or output.always or output.if_any or output.detected
    assert set(output.always) <= set(output.models)
    # What nobody requests must not be lost when the gateway splits a text.
    assert not output.if_any or output.join
    assert output.only_with in ("", *OUTPUTS)
    for option in requested:
        models = {TRANSLATE: True, STREAM: option.streams, SCORE: option.scores}
        assert {name for name, takes in models.items() if takes} == set(output.models)


def test_each_class_has_the_fields_of_its_model() -> None:
    fields = {field.name for field in dataclasses.fields(PairScore)} - {"elapsed_s"}
    assert fields == {output.field for output in OUTPUTS.values() if SCORE in output.models}
    others = set(get_type_hints(Translation)) - {output.field for output in OUTPUTS.values()}
    assert others == {"alternatives", "elapsed_s"}


def test_files_have_no_probability_of_no_language() -> None:
    empty = Translation("", 0, "stop", detected_probability=0.0)
    assert answer_as_json(empty) == {"translation": "", "output_tokens": 0, "finish_reason": "stop"}
    members = answer_as_json(dataclasses.replace(empty, detected_language="en"))
    assert (members["detected_language"], members["detected_probability"]) == ("en", 0.0)


def test_checked_markup_is_not_written_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway, its client and the engine each check the options of a request."""
    option: Option = OPTIONS["markup"]
    given = ['{"codes": [[0, 1]]}', "", {"codes": [[0, 2]], "keep": [[0, 1]]}, Markup()]
    checked = check({"markup": given})["markup"]
    counts = [markup if markup is None else len(markup.codes) for markup in checked]
    assert counts == [1, None, 1, 0]
    elements = option.elements(checked)
    assert elements[1] == ""
    assert check({"markup": elements})["markup"] == checked
    for name in ("parse", "of", "__str__"):
        monkeypatch.delattr(Markup, name)
    assert check({"markup": checked})["markup"] == checked
