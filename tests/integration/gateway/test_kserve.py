"""NVIDIA's own clients for Triton, unchanged, against the gateway, compared with Triton."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
import tritonclient.grpc.aio as triton_grpc_aio
import tritonclient.http as triton_http
import tritonclient.http.aio as triton_http_aio
from dragoman_client.core.request import build_inputs
from dragoman_client.core.tensors import input_tensor
from dragoman_options.frames import DataType
from dragoman_options.table import OPTIONS
from tritonclient.utils import InferenceServerException, np_to_triton_dtype, triton_to_np_dtype

from tests.gateways import RunningGateway, StartGateway
from tests.servers import WAIT_S, Served

TEXTS = ["I have two books.", "The weather is nice, and Anna reads <b>a book</b>."]
CASES: list[dict[str, Any]] = [
    {},
    {"source_language": "auto", "return_bundle": True, "return_confidence": True},
    {"num_return_sequences": 3, "beam_width": 4, "return_scores": True},
    {"return_token_scores": True, "return_alignments": "hard"},
    {"return_alignments": "soft", "return_scores": True},
    {"glossary": '{"books": "Kochbücher"}', "target_language": "de"},
    {"return_attention": True},
    {"markup": ['{"codes": [[2, 6, null]]}', ""]},
]


@pytest.fixture(scope="module")
def kserve(start_gateway: StartGateway) -> Iterator[RunningGateway]:
    with start_gateway(kserve_port=0, access_log=True, timeout_s=WAIT_S) as running:
        yield running


def tensors(texts: list[str], **options: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs by name, of the shape [1, N]."""
    given = {name: OPTIONS[name].read(value, {}) for name, value in options.items()}
    return {name: array_of(name, values) for name, values in build_inputs(texts, given).items()}


def array_of(name: str, values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """An input, of the shape [1, N]."""
    datatype = DataType(input_tensor(name, values).datatype).name
    return np.array([values], triton_to_np_dtype(datatype))


def inputs_of(module: Any, arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[Any]:
    """Inputs of the official client."""
    inputs = []
    for name, array in arrays.items():
        made = module.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        made.set_data_from_numpy(array)
        inputs.append(made)
    return inputs


def outputs_of(result: Any) -> dict[str, Any]:
    """Outputs by name: type, shape and values; texts in JSON are parsed."""
    response = result.get_response()
    described = response["outputs"] if isinstance(response, dict) else response.outputs
    names = [each["name"] if isinstance(each, dict) else each.name for each in described]
    return {name: _plain(result.as_numpy(name)) for name in names}


def _plain(array: np.ndarray[Any, Any]) -> Any:
    values = [value.decode() if isinstance(value, bytes) else value for value in array.reshape(-1)]
    parsed = [
        json.loads(value) if isinstance(value, str) and value.startswith("{") else value
        for value in values
    ]
    return array.dtype, array.shape, parsed


def ask(module: Any, address: str, model: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    with module.InferenceServerClient(address) as client:
        return outputs_of(client.infer(model, inputs_of(module, arrays)))


async def ask_aio(module: Any, address: str, model: str, arrays: Mapping[str, Any]) -> Any:
    async with module.InferenceServerClient(address) as client:
        return outputs_of(await client.infer(model, inputs_of(module, arrays)))


@pytest.mark.parametrize("options", CASES, ids=str)
def test_every_output_is_that_of_triton(
    kserve: RunningGateway, shipped: Served, options: dict[str, Any]
) -> None:
    arrays = tensors(TEXTS, **{"source_language": "en", "target_language": "de", **options})
    triton = shipped.server.grpc_url.removeprefix("grpc://")
    expected = ask(triton_grpc, triton, "translate", arrays)
    address = f"127.0.0.1:{kserve.port}"
    assert ask(triton_grpc, kserve.kserve, "translate", arrays) == expected
    assert ask(triton_http, address, "translate", arrays) == expected
    assert asyncio.run(ask_aio(triton_grpc_aio, kserve.kserve, "translate", arrays)) == expected
    assert asyncio.run(ask_aio(triton_http_aio, address, "translate", arrays)) == expected


def test_scores_are_those_of_triton(kserve: RunningGateway, shipped: Served) -> None:
    arrays = tensors(TEXTS, target_language="de", return_alignments="hard")
    arrays["target_input"] = array_of(
        "target_input",
        [text.encode() for text in ("Ich habe zwei Bücher.", "Das Wetter ist schön.")],
    )
    triton = shipped.server.grpc_url.removeprefix("grpc://")
    expected = ask(triton_grpc, triton, "score", arrays)
    assert ask(triton_grpc, kserve.kserve, "score", arrays) == expected
    assert ask(triton_http, f"127.0.0.1:{kserve.port}", "score", arrays) == expected


def stream(address: str, arrays: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a stream, by the official client over gRPC, up to the one marked as the last."""
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
    parts: list[dict[str, Any]] = []
    with triton_grpc.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put(error or result))
        inputs = inputs_of(triton_grpc, {name: array[0] for name, array in arrays.items()})
        client.async_stream_infer("translate_stream", inputs, enable_empty_final_response=True)
        while True:
            part = answers.get(timeout=WAIT_S)
            assert isinstance(part, triton_grpc.InferResult), part
            parts.append(outputs_of(part))
            if part.get_response().parameters["triton_final_response"].bool_param:
                break
        client.stop_stream()
    return parts


def test_a_stream_is_that_of_triton(kserve: RunningGateway, shipped: Served) -> None:
    arrays = tensors(TEXTS[:1], source_language="en", target_language="de", beam_width=1)
    *_, expected = stream(shipped.server.grpc_url.removeprefix("grpc://"), arrays)
    parts = stream(kserve.kserve, arrays)
    expected.pop("delta")
    assert {name: value for name, value in parts[-1].items() if name != "delta"} == expected
    deltas = "".join(part["delta"][2][0] for part in parts)
    assert [deltas] == expected["text_output"][2]


def test_metadata_is_that_of_triton(kserve: RunningGateway, shipped: Served) -> None:
    with (
        triton_http.InferenceServerClient(f"127.0.0.1:{kserve.port}") as ours,
        triton_http.InferenceServerClient(shipped.server.http_url.partition("//")[2]) as theirs,
    ):
        for model in ("translate", "translate_stream", "score", "info"):
            assert ours.get_model_metadata(model) == theirs.get_model_metadata(model)
        assert ours.is_server_live()
        assert ours.is_server_ready()
        assert ours.is_model_ready("translate")
        assert ours.get_server_metadata()["name"] == "dragoman"
        with pytest.raises(InferenceServerException, match="there is no /v2/repository"):
            ours.get_model_repository_index()


def test_a_cancelled_stream_ends_in_the_engine(kserve: RunningGateway, shipped: Served) -> None:
    arrays = tensors([" ".join(shipped.long_work())], source_language="en", target_language="de")
    inputs = inputs_of(triton_grpc, {name: array[0] for name, array in arrays.items()})
    with triton_grpc.InferenceServerClient(kserve.kserve) as client:
        client.start_stream(lambda **_: None)
        shipped.cancel(
            lambda: client.async_stream_infer("translate_stream", inputs),
            lambda _: client.stop_stream(cancel_requests=True),
        )


def test_concurrent_calls(kserve: RunningGateway) -> None:
    """Over one connection, as the official client makes them."""
    done = threading.Semaphore(0)
    errors: list[Any] = []

    def ended(**answer: Any) -> None:
        errors.append(answer["error"])
        done.release()

    with triton_grpc.InferenceServerClient(kserve.kserve) as client:
        for number in range(50):
            arrays = tensors([f"I have {number} books."], source_language="en")
            client.async_infer("translate", inputs_of(triton_grpc, arrays), callback=ended)
        for _ in range(50):
            assert done.acquire(timeout=WAIT_S)
    assert errors == [None] * 50
