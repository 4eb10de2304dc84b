"""What is served where the relay in C was not compiled: the one in Python."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from dragoman_serving.launch.processes import children

from tests.integration.conftest import Served, serving, wait_for

TEXT = "I would like a cup of coffee, but my brother does not want to go there."


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """The shipped model, behind the relay in Python."""
    with serving("python") as served:
        yield served


def test_the_relay_is_pythons(served: Served) -> None:
    assert children(served.server.pid), "Triton runs no model in Python"


def test_both_protocols_translate_alike(served: Served, shipped: Served) -> None:
    texts = [f"I have {number} apples." for number in range(40)]
    right = shipped.grpc.translate(texts)
    assert served.grpc.translate(texts) == right
    assert served.http.translate(texts) == right


def test_a_stream_grows_to_the_whole_translation(served: Served) -> None:
    texts = [event["text_output"] for event in served.events(text_input=TEXT, beam_width=1)]
    _, whole = served.generate({"text_input": TEXT, "beam_width": 1})
    assert texts[-1] == whole["text_output"]
    assert all(texts[-1].startswith(text) for text in texts)


def test_bad_requests_fail_alone(served: Served) -> None:
    status, answer = served.generate({"text_input": "a", "beam_width": 99})
    assert (status, answer["error"]) == (400, "beam_width is 99: give 1 to 8")
    status, answer = served.generate({"text_input": "a", "timeout": 1.5})
    assert (status, answer["error"]) == (400, "option timeout is 1.5: give microseconds")
    (only,) = served.events(text_input=["a", "b"])
    assert only["error"] == "INVALID_ARGUMENT: text_input has 2 texts: give one"
    assert served.generate({"text_input": "I'm hungry."})[0] == 200


def test_scores_pass_too(served: Served) -> None:
    body = {"text_input": "I'm hungry.", "num_return_sequences": 2, "return_scores": True}
    status, answer = served.generate(body)
    assert status == 200
    assert len(answer["text_output"]) == len(answer["scores"]) == 2
    assert answer["scores"][0] > answer["scores"][1]


def test_what_the_model_thinks_passes_too(served: Served) -> None:
    body = {"text_input": "Good night.", "return_token_scores": True, "return_alignments": "soft"}
    status, answer = served.generate(body)
    assert status == 200
    assert json.loads(answer["token_scores"])["tokens"][-1] == "</s>"
    assert json.loads(answer["alignments"])["weights"]
    given = {"text_input": ["Good night."] * 2, "target_input": ["Gute Nacht.", "Nein."]}
    status, answer = served.generate(given, model="score")
    assert status == 200
    assert answer["scores"][0] > answer["scores"][1]
    assert served.grpc.score("Good night.", "Gute Nacht.").confidence < 0


def test_a_cancelled_request_frees_its_rows(served: Served) -> None:
    served.cancel_under_way()


def test_metrics_follow_the_work(served: Served) -> None:
    before = served.metric("sentences_total")
    served.grpc.translate(["I'm hungry.", "Good morning."])
    wait_for(lambda: served.metric("sentences_total") >= before + 2)
    assert served.metric("rows_limit") > 0
