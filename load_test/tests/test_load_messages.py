"""Requests and answers of the load test, as bytes."""

import json
from typing import Any

import pytest
from dragoman_client import DeadlineExceeded, ServerError
from dragoman_client.core.access import Access
from dragoman_client.transports import http_wire
from dragoman_load_test.requests import messages
from dragoman_load_test.requests.http_apis import http_api
from dragoman_load_test.requests.messages import Answer
from tritonclient.grpc import service_pb2

OPTIONS: dict[str, Any] = {
    "target_language": "de",
    "beam_width": 4,
    "length_penalty": 0.5,
    "split_sentences": True,
}

NO_ANSWER = "not an answer of (?:Triton|a translation server)"


def answer(*texts: str, tokens: int, reason: str | None = None) -> Any:
    """A response as Triton writes it, with `tokens` tokens for each text."""
    response = service_pb2.ModelInferResponse()
    columns = {
        "text_output": ("BYTES", strings(*texts)),
        "output_tokens": ("INT32", tokens.to_bytes(4, "little") * len(texts)),
    }
    if reason is not None:
        columns["finish_reason"] = ("BYTES", strings(reason))
    for name, (datatype, raw) in columns.items():
        response.outputs.add(name=name, datatype=datatype, shape=[1, len(texts)])
        response.raw_output_contents.append(raw)
    return response


def strings(*texts: str) -> bytes:
    """A tensor of strings."""
    encoded = [text.encode() for text in texts]
    return b"".join(len(string).to_bytes(4, "little") + string for string in encoded)


def test_a_request_can_be_read_by_triton() -> None:
    """Texts are a tensor [1, N], options are tensors [1, 1], and the deadline is a parameter."""
    written = messages.grpc_request(["Grüße", "a"], OPTIONS, timeout_s=1.5)
    request = service_pb2.ModelInferRequest.FromString(written)
    assert request.model_name == "translate"
    assert [(tensor.name, tensor.datatype, list(tensor.shape)) for tensor in request.inputs] == [
        ("text_input", "BYTES", [1, 2]),
        ("target_language", "BYTES", [1, 1]),
        ("beam_width", "INT32", [1, 1]),
        ("length_penalty", "FP32", [1, 1]),
        ("split_sentences", "BOOL", [1, 1]),
    ]
    raws = [strings("Grüße", "a"), strings("de"), b"\x04\0\0\0", b"\0\0\0\x3f", b"\x01"]
    assert list(request.raw_input_contents) == raws
    assert [output.name for output in request.outputs] == ["text_output", "output_tokens"]
    assert request.parameters["timeout"].int64_param == 1_500_000


def test_a_request_for_a_stream_has_one_dimension_less() -> None:
    """A request for a stream also requests the finish reason."""
    written = messages.grpc_request(["a"], {"beam_width": 1}, 1.5, streamed=True)
    request = service_pb2.ModelInferRequest.FromString(written)
    assert request.model_name == "translate_stream"
    assert [list(tensor.shape) for tensor in request.inputs] == [[1], [1]]
    assert "finish_reason" in [output.name for output in request.outputs]


def test_the_body_over_http_has_the_same_values() -> None:
    """In JSON, one text is a string and several are a list."""
    body = messages.generate_request(["Grüße", "a"], OPTIONS, 1.5)
    assert json.loads(body) == {"text_input": ["Grüße", "a"], **OPTIONS, "timeout": 1_500_000}
    assert json.loads(messages.generate_request(["a"], {}, 1.5))["text_input"] == "a"


def test_answers_are_read() -> None:
    """Complete answers, parts of streams over gRPC, and events of streams over HTTP."""
    whole = answer("Gruß", "", "ja", tokens=300)
    assert messages.read_grpc_answer(whole.SerializeToString()) == Answer(("Gruß", "", "ja"), 900)
    for reason, last in (("", False), ("stop", True), ("length", True)):
        part = service_pb2.ModelStreamInferResponse(
            infer_response=answer("Gr", tokens=2, reason=reason)
        )
        read = messages.read_grpc_part(part.SerializeToString())
        assert read == Answer(("Gr",), 2, last)
        event = {"text_output": "Gr", "output_tokens": 2, "finish_reason": reason}
        over_http = http_wire.event_part(b"data: " + json.dumps(event).encode())
        assert over_http is not None
        assert messages.answer_of(over_http) == read


def test_errors_in_streams_keep_their_kind() -> None:
    """Triton sends an error in a stream as a message."""
    said = "CANCELLED: the deadline passed"
    part = service_pb2.ModelStreamInferResponse(error_message=said)
    with pytest.raises(DeadlineExceeded, match=r"^the deadline passed$"):
        messages.read_grpc_part(part.SerializeToString())


@pytest.mark.parametrize("message", [b"\xff", b"", answer("a", tokens=1).SerializeToString()[:-3]])
def test_invalid_answers_are_refused(message: bytes) -> None:
    """The invalid answers are damaged, or come from another server."""
    with pytest.raises((ValueError, ServerError), match=NO_ANSWER):
        messages.read_grpc_answer(message)
    with pytest.raises((ValueError, ServerError), match=NO_ANSWER):
        messages.read_grpc_part(message)
    read = http_api("triton", Access(), {}).read
    with pytest.raises(ServerError, match="not an answer of Triton"):
        read(message)
    with pytest.raises(ValueError, match="not an answer of a translation server"):
        read(b'{"text_output": "a"}')


def test_a_truncated_string_is_refused() -> None:
    """The length of the string exceeds the number of bytes that follow."""
    whole = answer("Gruß", tokens=1)
    whole.raw_output_contents[0] = whole.raw_output_contents[0][:-2]
    with pytest.raises(ServerError, match="not an answer of Triton"):
        messages.read_grpc_answer(whole.SerializeToString())
