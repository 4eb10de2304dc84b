"""Conversion of options and texts to tensors, and of tensors to translations."""

import math
from typing import Any

import pytest
from dragoman_client import ServerError, Translation
from dragoman_client.core.request import build_inputs, read_outputs
from dragoman_client.core.tensors import input_tensor, option_values
from dragoman_options.frames import DataType
from dragoman_options.table import check


def outputs(*texts: str, **replaced: Any) -> dict[str, Any]:
    """A valid answer, with these outputs replaced."""
    answer = {
        "text_output": [text.encode() for text in texts],
        "output_tokens": list(range(1, len(texts) + 1)),
        "finish_reason": [b"stop"] * len(texts),
    }
    return {**answer, **replaced}


@pytest.mark.parametrize(
    ("error", "name", "value"),
    [
        (TypeError, "source_language", b"en"),
        (TypeError, "target_language", 1),
        (TypeError, "max_tokens", True),
        (TypeError, "max_tokens", 8.0),
        (TypeError, "max_tokens", "8"),
        (TypeError, "beam_width", False),
        (TypeError, "length_penalty", True),
        (TypeError, "length_penalty", "0.6"),
        (TypeError, "split_sentences", 1),
        (TypeError, "split_sentences", "yes"),
        (TypeError, "beam_widht", 4),
        (ValueError, "source_language", ""),
        (ValueError, "max_tokens", 0),
        (ValueError, "max_tokens", 2**31),
        (ValueError, "beam_width", -1),
        (ValueError, "length_penalty", math.nan),
        (ValueError, "length_penalty", math.inf),
        (ValueError, "length_penalty", 1e39),  # finite, but not in FP32
    ],
)
def test_an_invalid_option_is_refused_by_name(
    error: type[Exception], name: str, value: Any
) -> None:
    """True is not accepted as a number, or 1 as a bool; a misspelled name is not ignored."""
    with pytest.raises(error, match=name):
        check({name: value})


def test_texts_alone_make_one_tensor() -> None:
    """Options that were not given are not sent."""
    inputs = build_inputs(["Grüße", "", "a\0"], {})
    assert inputs == {"text_input": ["Grüße".encode(), b"", b"a\0"]}
    assert input_tensor("text_input", inputs["text_input"]).shape == (1, 3)


def test_each_option_has_its_datatype_and_shape() -> None:
    """Datatypes and shapes are those that the model's configuration declares."""
    options = {
        "source_language": "en",
        "target_language": "de",
        "max_tokens": 64,
        "beam_width": 4,
        "length_penalty": 1.0,
        "split_sentences": False,
    }
    inputs = build_inputs(["a", "b"], options)
    tensors = [input_tensor(name, values) for name, values in inputs.items()]
    assert [(t.name, DataType(t.datatype).name, t.shape, t.values) for t in tensors] == [
        ("text_input", "BYTES", (1, 2), [b"a", b"b"]),
        ("source_language", "BYTES", (1, 1), [b"en"]),
        ("target_language", "BYTES", (1, 1), [b"de"]),
        ("max_tokens", "INT32", (1, 1), [64]),
        ("beam_width", "INT32", (1, 1), [4]),
        ("length_penalty", "FP32", (1, 1), [1.0]),
        ("split_sentences", "BOOL", (1, 1), [False]),
    ]


def test_an_invalid_text_is_refused_with_its_index() -> None:
    """The message has the index among all texts of the caller, not within a batch."""
    with pytest.raises(TypeError, match="text 65 must be str, got bytes"):
        build_inputs(["a", b"b"], {}, first_index=64)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="text 1 contains half of a character"):
        build_inputs(["a", "ab\udcff"], {})


def test_an_answer_becomes_translations() -> None:
    """Translations contain plain Python values, in the order of the texts."""
    answer = outputs("Grüße", "b", finish_reason=[b"stop", b"length"])
    translations = read_outputs(answer, 2, 0.0)
    assert translations == [Translation("Grüße", 1, "stop"), Translation("b", 2, "length")]
    assert type(translations[0].output_tokens) is int


def test_alternatives_belong_to_their_text() -> None:
    """Alternatives of a text are adjacent in the answer, and have scores if requested."""
    answer = {
        "text_output": [b"a", b"b", b"c", b"d"],
        "output_tokens": [1, 2, 3, 4],
        "finish_reason": [b"stop", b"stop", b"length", b"stop"],
        "scores": [-0.5, -1.0, -0.25, -2.0],
    }
    options = {"num_return_sequences": 2, "return_scores": True}
    first, second = read_outputs(answer, 2, 0.0, options)
    assert (first.text, first.score) == ("a", -0.5)
    assert [(other.text, other.score) for other in first.alternatives] == [("b", -1.0)]
    assert (second.text, second.finish_reason) == ("c", "length")
    assert [other.text for other in second.alternatives] == ["d"]
    reasons = [b"stop", b"repeated", b"length", b"stop"]
    repeated = read_outputs({**answer, "finish_reason": reasons}, 2, 0.0, options)
    assert [len(translation.alternatives) for translation in repeated] == [0, 1]
    without = read_outputs(answer, 2, 0.0, {"num_return_sequences": 2})
    assert [translation.score for translation in without] == [None, None]
    with pytest.raises(ServerError, match="has 4 elements: expected 3"):
        read_outputs(answer, 1, 0.0, {"num_return_sequences": 3})
    with pytest.raises(ServerError, match="lacks scores"):
        read_outputs({**answer, "scores": None}, 4, 0.0, {"return_scores": True})


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (outputs("a", "b", output_tokens=None), "lacks output_tokens"),
        (outputs("a"), "text_output has 1 elements: expected 2"),
        (outputs("a", "b", output_tokens=[1, 1, 1]), "output_tokens has 3 elements"),
        (outputs("a", "b", text_output=[b"a", b"\xff"]), "not UTF-8"),
    ],
)
def test_an_invalid_answer_is_an_error(answer: dict[str, Any], message: str) -> None:
    """The client never returns fewer translations than texts."""
    with pytest.raises(ServerError, match=message):
        read_outputs(answer, 2, 0.0)


def test_checked_options_are_cached_by_their_types_too() -> None:
    for _ in range(2):  # the second time from the cache
        assert check({"beam_width": 1, "length_penalty": 1}) == {
            "beam_width": 1,
            "length_penalty": 1.0,
        }
        assert type(check({"temperature": 1})["temperature"]) is float
        for given in ({"beam_width": True}, {"beam_width": 1.0}, {"return_scores": 1}):
            with pytest.raises(TypeError, match="give"):
                check(given)
        with pytest.raises(ValueError, match="give 1 to 4"):
            check({"beam_width": 5}, limits={"max_beam_width": 4})
        assert check({"beam_width": 5}, limits={"max_beam_width": 8}) == {"beam_width": 5}


def test_cached_options_and_values_belong_to_their_caller() -> None:
    options = {"beam_width": 2, "target_language": "de"}
    checked = check(options)
    checked["beam_width"] = 7
    assert check(options) == options
    values = option_values(options)
    assert values == {"beam_width": (2,), "target_language": (b"de",)}
    del values["beam_width"]
    assert option_values(options).keys() == options.keys()
    assert input_tensor("seed", option_values({"seed": 1})["seed"]).datatype == DataType.INT64
