"""Scores, alignments and attention of translations: answers and objects."""

import json
import math
from typing import Any

import numpy as np
import pytest
from dragoman_client import (
    AsyncTranslator,
    InvalidRequest,
    ServerError,
    SoftAlignment,
    TokenScores,
    Translator,
    WordAlignment,
)
from dragoman_client.core.request import read_outputs
from dragoman_client.files.line_formats import PlainLinesToJson
from dragoman_client.testing import FakeTransport
from dragoman_options.assessment import Attention
from dragoman_options.table import STREAM, check

ALL = {"return_token_scores": True, "return_alignments": "hard", "return_confidence": True}
SOFT = {"return_alignments": "soft"}


def answer(**replaced: Any) -> dict[str, Any]:
    """The answer to one text, with these outputs replaced."""
    outputs = {
        "text_output": b"Guten Tag.",
        "finish_reason": b"stop",
        "token_scores": '{"tokens": ["▁Guten", "</s>"], "log_probs": [-0.5, -1]}'.encode(),
        "alignments": b"0-0 1-1",
        **replaced,
    }
    numbers = {
        "output_tokens": [2],
        "confidences": [-0.75],
    }
    return {**{name: [v] for name, v in outputs.items()}, **numbers}


def test_assessments_become_objects() -> None:
    (translation,) = read_outputs(answer(), 1, 0.0, ALL)
    assert translation.token_scores == TokenScores(("▁Guten", "</s>"), (-0.5, -1.0))
    assert translation.alignments == WordAlignment(((0, 0), (1, 1)))
    assert str(translation.alignments) == "0-0 1-1"
    assert translation.confidence == -0.75
    (plain,) = read_outputs(answer(), 1, 0.0)
    assert (plain.token_scores, plain.alignments, plain.confidence) == (None, None, None)


def test_soft_alignments_are_tokens_with_weights() -> None:
    soft = b'{"source": ["a", "b"], "target": ["c"], "weights": [[0.25, 0.5]]}'
    (translation,) = read_outputs(answer(alignments=soft), 1, 0.0, SOFT)
    assert translation.alignments == SoftAlignment(("a", "b"), ("c",), ((0.25, 0.5),))
    line = json.loads(PlainLinesToJson().write("x", translation))
    assert line["alignments"] == json.loads(soft)


def test_lines_of_json_contain_assessments() -> None:
    (translation,) = read_outputs(answer(), 1, 0.0, ALL)
    line = json.loads(PlainLinesToJson().write("x", translation))
    assert line["confidence"] == -0.75
    assert line["token_scores"] == {"tokens": ["▁Guten", "</s>"], "log_probs": [-0.5, -1.0]}
    assert line["alignments"] == "0-0 1-1"


def test_an_empty_alignment_has_no_links() -> None:
    (translation,) = read_outputs(answer(alignments=b""), 1, 0.0, ALL)
    assert translation.alignments == WordAlignment(())


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"tokens": ["a"], "log_probs": []}',
        b'{"tokens": [1], "log_probs": [0]}',
        b'{"tokens": "a", "log_probs": [0]}',
        b'{"tokens": ["a"], "log_probs": "0"}',
        b'{"tokens": ["a"], "log_probs": [null]}',
        b'{"tokens": ["a"], "log_probs": [true]}',
        b'{"tokens": ["a"], "log_probs": [NaN]}',
        b'{"tokens": ["a"], "log_probs": [1' + b"0" * 400 + b"]}",
        b"[" * 100_000,
    ],
    ids=lambda wrong: repr(wrong[:40]),
)
def test_token_scores_of_a_faulty_server(wrong: bytes) -> None:
    with pytest.raises(ServerError):
        read_outputs(answer(token_scores=wrong), 1, 0.0, ALL)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (ALL, b"0-0 "),
        (ALL, b"0-0-0"),
        (ALL, b"0--1"),
        (ALL, b"{}"),
        (ALL, "²-0".encode()),
        (SOFT, b"0-0"),
        (SOFT, b'{"source": ["a"], "target": ["b"], "weights": [[0.5, 0.5]]}'),
        (SOFT, b'{"source": ["a"], "target": ["b"], "weights": []}'),
        (SOFT, b'{"source": ["a"], "target": ["b"], "weights": {}}'),
        (SOFT, b'{"source": ["a"], "target": ["b"], "weights": [3]}'),
        (SOFT, b'{"source": ["a"], "weights": [[0.5]]}'),
    ],
    ids=repr,
)
def test_alignments_of_a_faulty_server(options: dict[str, Any], wrong: bytes) -> None:
    with pytest.raises(ServerError):
        read_outputs(answer(alignments=wrong), 1, 0.0, options)


@pytest.mark.parametrize("name", ["token_scores", "alignments", "confidences"])
def test_an_answer_must_have_the_requested_outputs(name: str) -> None:
    with pytest.raises(ServerError, match=f"the answer lacks {name}"):
        read_outputs({**answer(), name: None}, 1, 0.0, ALL)


async def test_given_translations_are_scored_over_both_protocols(
    grpc_url: str, http_url: str
) -> None:
    for url in (grpc_url, http_url):
        with Translator(url) as translator:
            scored = translator.score(["a", "b"], ["cde", "f"], return_alignments="hard")
            alone = translator.score("a", "cde")
            assert translator.score([], []) == []
            with pytest.raises(InvalidRequest, match="does not support return_attention=True"):
                translator.score("a", "b", return_attention=True)
        assert [pair.score for pair in scored] == [-3.0, -1.0]
        assert scored[1].perplexity == pytest.approx(math.exp(0.1))
        assert scored[0].alignments == WordAlignment(((0, 0),))
        assert (alone.score, alone.alignments) == (-3.0, None)
        async with AsyncTranslator(url) as translator:
            assert (
                await translator.score(["a", "b"], ["cde", "f"], return_alignments="hard") == scored
            )


def test_missing_token_scores_are_an_error() -> None:
    class Forgetful(FakeTransport):
        def infer(self, *values: Any, **more: Any) -> dict[str, Any]:
            outputs = dict(super().infer(*values, **more))
            outputs.pop("token_scores", None)
            return outputs

    with (
        Translator(transport=Forgetful()) as translator,
        pytest.raises(ServerError, match="the answer lacks token_scores"),
    ):
        translator.score("a", "b", return_token_scores=True)


@pytest.mark.parametrize(
    ("texts", "targets", "options", "error"),
    [
        (["a", "b"], ["c"], {}, ValueError),
        ("a", ["b"], {}, TypeError),
        (b"a", "b", {}, TypeError),
        ("a", 3, {}, TypeError),
        (["a"], [3], {}, TypeError),
        ("a", "\ud800", {}, ValueError),
        ("a", "b", {"beam_width": 4}, ValueError),
        ("a", "b", {"beam_widht": 4}, TypeError),
        ("a", "b", {"length_penalty": math.nan}, ValueError),
    ],
)
def test_pairs_are_checked_before_they_are_sent(
    texts: Any, targets: Any, options: Any, error: type[Exception]
) -> None:
    with Translator("http://localhost:1") as translator, pytest.raises(error):
        translator.score(texts, targets, **options)


def test_options_are_checked_before_they_are_sent() -> None:
    with pytest.raises(ValueError, match="return_alignments is 'both'"):
        check({"return_alignments": "both"})
    with pytest.raises(TypeError, match="return_alignments"):
        check({"return_alignments": True})
    with pytest.raises(TypeError, match="return_confidence"):
        check({"return_confidence": 1})
    with pytest.raises(ValueError, match="return_attention: not supported in a stream"):
        check({**ALL, "return_attention": True}, STREAM)


ATTENTION: dict[str, Any] = {
    "source": ["<2de>", "</s>"],
    "read": ["<s>", "▁Ja"],
    "said": ["▁Ja", "</s>"],
    "encoder": [[[[0.5, 0.5], [0.25, 0.75]]]],
    "decoder": [[[[1, 0], [0.5, 0.5]]]],
    "cross": [[[[0, 1], [1, 0]]]],
    "alignment_heads": [[0, 0]],
    "aligns_when_read": True,
}


def attention(**replaced: Any) -> dict[str, Any]:
    return answer(attention=json.dumps({**ATTENTION, **replaced}).encode())


def test_attention_becomes_weights_by_layer_and_head() -> None:
    (translation,) = read_outputs(attention(), 1, 0.0, {"return_attention": True})
    assert translation.attention is not None
    assert translation.attention.said == ("▁Ja", "</s>")
    assert translation.attention.read == ("<s>", "▁Ja")
    assert translation.attention.encoder.shape == (1, 1, 2, 2)
    assert translation.attention.encoder.dtype == np.float32
    assert translation.attention.decoder[0, 0].tolist() == [[1, 0], [0.5, 0.5]]
    assert translation.attention.alignment_heads == ((0, 0),)
    assert translation.attention.aligns_when_read
    assert json.loads(PlainLinesToJson().write("x", translation))["attention"] == ATTENTION
    (plain,) = read_outputs(attention(), 1, 0.0)
    assert plain.attention is None


def test_a_server_of_version_0_1_names_no_alignment_heads() -> None:
    new = ("alignment_heads", "aligns_when_read")
    parsed = Attention.parse(json.dumps({k: v for k, v in ATTENTION.items() if k not in new}))
    assert parsed.alignment_heads == ()
    assert not parsed.aligns_when_read


def test_a_recurrent_decoder_has_no_self_attention() -> None:
    recurrent = {**ATTENTION, "decoder": []}
    parsed = Attention.parse(json.dumps(recurrent))
    assert parsed.decoder.shape == (0, 0, 2, 2)
    assert parsed.as_json()["decoder"] == []
    empty = {name: [] for name in ("source", "read", "said", "decoder")}
    assert Attention.parse(
        json.dumps({**recurrent, **empty, "encoder": [[[]]], "cross": [[[]]]})
    ).decoder.shape == (0, 0, 0, 0)


def test_attention_is_compared_by_its_weights() -> None:
    first, same = (Attention.parse(json.dumps(ATTENTION)) for _ in range(2))
    other = Attention.parse(json.dumps({**ATTENTION, "encoder": [[[[0.5, 0.5], [1, 0]]]]}))
    assert first == same
    assert hash(first) == hash(same)
    assert first != other
    assert first != ATTENTION


@pytest.mark.parametrize(
    "wrong",
    [
        {"cross": None},
        {"cross": []},
        {"cross": [[[[0, 1]]]]},
        {"cross": [[[["a", 1], [1, 0]]]]},
        {"cross": [[[[0, 1], [1]]]]},
        {"encoder": [[[[float("nan"), 1], [1, 0]]]]},
        {"said": ["▁Ja"]},
        {"said": [1, 2]},
        {"source": "ab"},
        {"alignment_heads": None},
        {"alignment_heads": [[0]]},
        {"alignment_heads": [["a", 0]]},
        {"alignment_heads": [[0, 1]]},
        {"aligns_when_read": 1},
    ],
)
def test_invalid_attention_raises_server_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(ServerError):
        read_outputs(attention(**wrong), 1, 0.0, {"return_attention": True})
