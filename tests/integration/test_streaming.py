"""`translate_stream` over both protocols: the text grows, and ends like the unary response."""

from __future__ import annotations

import itertools
import queue
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from dragoman_client import InvalidRequest

from tests.servers import Served, wait_for

TEXT = "I would like a cup of coffee, but my brother does not want to go there."
TWO = "I would like a cup of coffee. My brother does not want to go there."


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (TEXT, {"beam_width": 1}),
        (TEXT, {"beam_width": 4}),
        (TWO, {"beam_width": 1, "split_sentences": True}),
        (TEXT, {"beam_width": 2, "max_tokens": 3}),
        ("Ich habe Hunger. 🙂", {"target_language": "en"}),
    ],
)
def test_the_stream_grows_to_the_unary_answer(
    shipped: Served, text: str, options: dict[str, Any]
) -> None:
    messages = shipped.events(text_input=text, **options)
    texts = [message["text_output"] for message in messages]
    assert all(longer.startswith(text) for text, longer in itertools.pairwise(texts))
    assert [message["finish_reason"] for message in messages[:-1]] == [""] * (len(messages) - 1)
    _, whole = shipped.generate({"text_input": text, **options})
    for name in ("text_output", "output_tokens", "finish_reason"):
        assert messages[-1][name] == whole[name]


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize(
    "options",
    [
        {"return_token_scores": True, "return_alignments": "hard", "return_confidence": True},
        {"return_alignments": "soft"},
        {"return_scores": True, "split_sentences": False},
    ],
)
def test_the_last_event_has_the_other_requested_outputs(
    shipped: Served, width: int, options: dict[str, Any]
) -> None:
    body = {"text_input": TWO, "beam_width": width, **options}
    _, whole = shipped.generate({**body, "repair": False})  # as streams are
    *messages, last = shipped.events(**body)
    names = {"token_scores", "alignments", "confidences", "scores"} & whole.keys()
    assert names
    for name in names:
        assert last[name] == whole[name]
        assert not any(name in message for message in messages)


def test_greedy_search_is_streamed_token_by_token(shipped: Served) -> None:
    """A slow reader gets fewer updates, so this is a text that the model continues to the limit."""
    text = "Tom and Mary and John " * 20
    messages = shipped.events(text_input=text, beam_width=1, max_tokens=320)
    assert len(messages) > 3


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"beam_width": 99}, "INVALID_ARGUMENT: beam_width is 99: give 1 to 8"),
        ({"text_input": ["a", "b"]}, "text_input has 2 texts: give one"),
        ({"num_return_sequences": 2}, "num_return_sequences: not supported"),
        ({"coverage_penalty": 0.1}, "coverage_penalty: not supported in a stream"),
        ({"return_attention": True}, "return_attention: not supported in a stream"),
        ({"colour": 1}, "unknown option 'colour'"),
    ],
)
def test_errors_end_the_stream(shipped: Served, body: dict[str, Any], message: str) -> None:
    (only,) = shipped.events(**{"text_input": "a", **body})
    assert message in only["error"]


def test_events_have_the_new_text(shipped: Served) -> None:
    """The first event is sent before anything is translated, and can be followed by an error."""
    first, *events = shipped.events(text_input=f"{TEXT} " * 200, beam_width=1)
    assert (first["text_output"], first["delta"], first["output_tokens"]) == ("", "", 0)
    assert "".join(event["delta"] for event in events) == events[-1]["text_output"]
    tokens = [event["output_tokens"] for event in events]
    assert tokens == sorted(tokens)
    assert 0 < tokens[0] < tokens[-1]
    *_, last = shipped.events(text_input=TEXT, timeout=1)
    assert "CANCELLED: the deadline passed" in last["error"]


def test_grpc_streams_and_many_at_once(shipped: Served) -> None:
    def stream(number: int) -> str:
        answers: queue.Queue[Any] = queue.Queue()
        with triton_grpc.InferenceServerClient(
            shipped.server.grpc_url.removeprefix("grpc://")
        ) as client:
            client.start_stream(callback=lambda result, error: answers.put(error or result))
            tensor = triton_grpc.InferInput("text_input", [1], "BYTES")
            text = f"I have {number} apples. {TEXT}"
            tensor.set_data_from_numpy(np.array([text.encode()], dtype=np.object_))
            client.async_stream_infer("translate_stream", [tensor])
            while True:
                answer = answers.get(timeout=60)
                assert not isinstance(answer, Exception), answer
                if answer.as_numpy("finish_reason")[0]:
                    return str(answer.as_numpy("text_output")[0].decode())

    with ThreadPoolExecutor(16) as pool:
        streamed = list(pool.map(stream, range(16)))
    texts = [f"I have {number} apples. {TEXT}" for number in range(16)]
    assert streamed == [translation.text for translation in shipped.grpc.translate(texts)]


def test_refused_streams_do_not_end_the_server(shipped: Served) -> None:
    """In Triton's strict mode, a few dozen refused streams end the server."""
    for _ in range(100):
        with pytest.raises(InvalidRequest, match=r"^beam_width is 99"):
            list(shipped.grpc.translate_stream(TEXT, beam_width=99))
        assert list(shipped.grpc.translate_stream("Hello."))[-1].text


def test_a_reader_that_disconnects_cancels_the_request(shipped: Served) -> None:
    """Only over HTTP: a gRPC client keeps reading, since a cancelled stream can crash Triton."""
    text = " ".join(shipped.long_work())
    before = shipped.metric("sentences_cancelled_total")
    parts = shipped.http.translate_stream(text, split_sentences=True, beam_width=4)
    assert next(parts).text
    parts.close()  # type: ignore[attr-defined]
    wait_for(lambda: shipped.metric("sentences_cancelled_total") > before)
    wait_for(lambda: shipped.metric("rows") == shipped.metric("waiting") == 0)
