"""KServe's protocol over HTTP and gRPC, with a stand-in for the server and the official client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import grpc
import numpy as np
import pytest
import tritonclient.grpc.aio as triton_grpc
import tritonclient.http as triton_http
from dragoman_client import AsyncTranslator, InvalidRequest
from dragoman_gateway.core.caller import Limits
from dragoman_gateway.protocols.kserve.kserve_protocol import NAME
from dragoman_gateway.protocols.kserve.kserve_service import SERVICE, KServeService
from dragoman_gateway.protocols.kserve.models import INPUTS
from dragoman_gateway.rpc import calls
from tritonclient.utils import InferenceServerException

from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application

INFER = "/v2/models/translate/infer"
TEXT = {"name": "text_input", "datatype": "BYTES", "shape": [1, 1], "data": ["Good morning."]}
_T = TypeVar("_T")


@pytest.fixture(scope="module")
def app() -> Iterator[Application]:
    with Application(body_bytes=100_000) as application:
        yield application


def infer(app: Application, *inputs: Any, **members: Any) -> Answer:
    return app.post(INFER, {"inputs": inputs or [TEXT], **members})


def tensor(name: str, datatype: str, *values: Any, shape: Any = None) -> dict[str, Any]:
    return {
        "name": name,
        "datatype": datatype,
        "shape": shape or [1, len(values)],
        "data": [*values],
    }


def official(module: Any, name: str, values: Any, datatype: str = "BYTES") -> Any:
    """An input of the official client."""
    kinds = {"BYTES": np.object_, "INT32": np.int32, "BOOL": np.bool_}
    array = np.array(values, kinds[datatype])
    made = module.InferInput(name, array.shape, datatype)
    made.set_data_from_numpy(array)
    return made


def over_grpc(
    app: Application, work: Callable[[triton_grpc.InferenceServerClient], Awaitable[_T]]
) -> _T:
    """The result of work with the official client for asyncio."""

    async def run() -> _T:
        async with (
            app.serving(NAME, KServeService) as port,
            triton_grpc.InferenceServerClient(f"127.0.0.1:{port}") as client,
        ):
            return await work(client)

    return app.run(asyncio.wait_for(run(), 60))


@contextmanager
def refused(code: str) -> Iterator[None]:
    """Check that the official client gets a status."""
    with pytest.raises(InferenceServerException) as caught:
        yield
    assert caught.value.status() == f"StatusCode.{code}"


def test_json_tensors(app: Application) -> None:
    texts = tensor("text_input", "BYTES", ["Good morning."], ["I see."], shape=[2, 1])
    answer = infer(app, texts, id="7", outputs=[{"name": "text_output"}]).json
    output = {"name": "text_output", "datatype": "BYTES", "shape": [2, 1]}
    assert answer == {
        "model_name": "translate",
        "model_version": "1",
        "id": "7",
        "outputs": [{**output, "data": ["<GOOD MORNING.>", "<I SEE.>"]}],
    }
    names = [output["name"] for output in infer(app).json["outputs"]]
    assert names == ["text_output", "output_tokens", "finish_reason"]


@pytest.mark.parametrize("requested", [None, [("text_output", True)], [("text_output", False)]])
def test_binary_tensors_of_the_official_client(app: Application, requested: Any) -> None:
    inputs = [
        official(triton_http, "text_input", [["Grüße.".encode(), b""]]),
        official(triton_http, "beam_width", [[2]], "INT32"),
    ]
    outputs = requested and [
        triton_http.InferRequestedOutput(name, binary_data=binary) for name, binary in requested
    ]
    body, size = triton_http.InferenceServerClient.generate_request_body(inputs, outputs)
    answer = app.call("POST", INFER, body, {"Inference-Header-Content-Length": str(size)})
    assert answer.status == 200, answer.body
    head = answer.headers.get("inference-header-content-length")
    assert (head is None) == (requested == [("text_output", False)])
    result = triton_http.InferResult.from_response_body(answer.body, header_length=head)
    texts = list(result.as_numpy("text_output").reshape(-1))
    assert [text if isinstance(text, str) else text.decode() for text in texts] == ["<GRÜSSE.>", ""]
    assert app.requests[-1].inputs["beam_width"] == [2]


def test_generate_and_its_stream(app: Application) -> None:
    body = {"text_input": "Good morning.", "target_language": "de", "beam_width": 1, "id": "a"}
    answer = app.post("/v2/models/translate/versions/1/generate", body).json
    assert (answer["text_output"], answer["id"]) == ("<GOOD MORNING.>", "a")
    two = app.post("/v2/models/translate/generate", {"text_input": ["A.", "B."]}).json
    assert two["text_output"] == ["<A.>", "<B.>"]
    stream = app.post("/v2/models/translate_stream/generate_stream", body).body.decode()
    events = [json.loads(line.removeprefix("data: ")) for line in stream.split("\n\n") if line]
    assert events[-1]["text_output"] == "<GOOD MORNING.>"
    assert "".join(event["delta"] for event in events) == "<GOOD MORNING.>"
    refused = app.post("/v2/models/translate_stream/generate", body)
    assert (refused.status, "generate_stream" in refused.json["error"]) == (400, True)


def test_alternatives_fill_the_requested_number(app: Application) -> None:
    number = tensor("num_return_sequences", "INT32", 3)
    answer = infer(app, tensor("text_input", "BYTES", "A.", "B."), number).json
    columns = {output["name"]: output for output in answer["outputs"]}
    assert columns["text_output"]["shape"] == [1, 6]
    assert len(columns["finish_reason"]["data"]) == 6
    assert columns["text_output"]["data"][::3] == ["<A.>", "<B.>"]


def test_scores_and_info(app: Application) -> None:
    answer = app.post(
        "/v2/models/score/infer",
        {"inputs": [TEXT, tensor("target_input", "BYTES", "Guten Morgen.")]},
    ).json
    assert [output["name"] for output in answer["outputs"]] == ["scores", "confidences"]
    info = json.loads(app.post("/v2/models/info/generate", {}).json["info"])
    assert info["languages"] == ["en", "de"]
    assert info["options"][0]["name"] == "source_language"


def test_a_model_is_described_with_the_options_table(app: Application) -> None:
    described = app.send("GET", "/v2/models/translate").json
    assert [tensor["name"] for tensor in described["inputs"]] == [*INPUTS["translate"]]
    assert described["inputs"][0] == {"name": "text_input", "datatype": "BYTES", "shape": [-1, -1]}
    assert app.send("GET", "/v2").json["name"] == "dragoman"
    for path in (
        "health/live",
        "health/ready",
        "models/score/ready",
        "models/info/versions/1/ready",
    ):
        assert app.send("GET", f"/v2/{path}").status == 200, path


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"inputs": []}, "text_input is missing"),
    ({"inputs": [TEXT | {"datatype": "INT32"}]}, "text_input has the type 'INT32': give BYTES"),
    ({"inputs": [TEXT | {"shape": [1, 2]}]}, "text_input has more or fewer values than its shape"),
    ({"inputs": [TEXT | {"shape": [2**62, 2**62]}]}, "give up to 100,000 values"),
    ({"inputs": [TEXT | {"shape": [2**62, 0], "data": []}]}, "give up to 100,000 values"),
    ({"inputs": [TEXT, TEXT]}, "an input is given twice"),
    ({"inputs": [TEXT] * 1000}, "1,000 inputs: translate has"),
    ({"inputs": [TEXT | {"shape": [-1, -1]}]}, "text_input has the shape [-1, -1]"),
    ({"inputs": [TEXT | {"shape": [1]}]}, "text_input has the shape [1]: give [-1, -1]"),
    ({"inputs": [TEXT | {"data": [7]}]}, "text 0 is 7: give a text"),
    ({"inputs": [TEXT | {"data": [["a"], "b"]}]}, "text_input: its data has lists beside values"),
    ({"inputs": [TEXT, tensor("beamwidth", "INT32", 1)]}, "did you mean beam_width?"),
    ({"inputs": [TEXT, tensor("beam_width", "INT32", 99)]}, "beam_width is 99"),
    ({"inputs": [TEXT, tensor("beam_width", "INT32", 1, 2)]}, "beam_width has 2 different values"),
    ({"inputs": [TEXT], "outputs": [{"name": "x"}]}, "translate has no output 'x'"),
    ({"inputs": [TEXT], "parameters": {"timeout": "x"}}, "timeout is 'x': give microseconds"),
    ({"inputs": [TEXT | {"parameters": {"binary_data_size": 9}}]}, "its binary_data_size"),
    (
        {"inputs": [TEXT | {"parameters": {"shared_memory_region": "a"}}]},
        "shared_memory_region is not offered",
    ),
    (
        {
            "inputs": [TEXT],
            "outputs": [{"name": "text_output", "parameters": {"classification": 0}}],
        },
        "classification is not offered",
    ),
]


@pytest.mark.parametrize(("body", "message"), WRONG)
def test_a_wrong_request_is_refused(app: Application, body: dict[str, Any], message: str) -> None:
    answer = app.post(INFER, body)
    assert answer.status == 400
    assert [*answer.json] == ["error"]
    assert message in answer.json["error"]


@pytest.mark.parametrize(
    ("sent", "size"), [(b"\5\0\0\0a", 5), (b"\1\0\0\0\xff", 5), (b"\1", 1), (b"\1\0\0\0a\0", 6)]
)
def test_damaged_binary_texts_are_refused(app: Application, sent: bytes, size: int) -> None:
    head = {**TEXT, "parameters": {"binary_data_size": size}}
    head.pop("data")
    written = json.dumps({"inputs": [head]}).encode()
    for length in (len(written), len(written) + 99, "x", "9" * 5000, ""):
        headers = {"Inference-Header-Content-Length": str(length)}
        assert app.call("POST", INFER, written + sent, headers).status == 400


def test_refusals_name_their_option(app: Application) -> None:
    answer = infer(app, TEXT, tensor("target_language", "BYTES", "")).json
    assert answer["error"].endswith('{"kind":"invalid","option":"target_language"}')


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/models/nothing", 404),
        ("GET", "/v2/models/translate/versions/2", 404),
        ("POST", "/v2/models/encoder/infer", 404),
        ("POST", "/v2/repository/index", 404),
        ("GET", "/v2/models/translate/config", 404),
        ("POST", "/v2/repository/models/translate/load", 404),
        ("GET", "/v2/systemsharedmemory/status", 404),
        ("GET", INFER, 405),
    ],
)
def test_what_is_not_offered(app: Application, method: str, path: str, status: int) -> None:
    answer = app.send(method, path)
    assert (answer.status, [*answer.json]) == (status, ["error"])


def test_a_body_may_be_larger_than_a_form() -> None:
    with Application() as app:
        for headers in ({}, {"content-type": "application/x-www-form-urlencoded"}):
            body = json.dumps({"text_input": "Good morning.", "id": 3_000_000 * "a"}).encode()
            path = "/v2/models/translate/generate"
            assert app.call("POST", path, body, headers).status == 200


def test_limits_of_keys_hold() -> None:
    with Application(address="0.0.0.0") as app:
        assert infer(app).status == 401
        key = app.new_key(limits=Limits(characters_per_request=13, requests_per_minute=5))
        bearer = {"Authorization": f"Bearer {key}"}
        stream = "/v2/models/translate_stream/generate_stream"
        pair = {"text_input": "Good morning.", "target_input": "Guten Morgen."}
        assert app.post(INFER, {"inputs": [TEXT]}, **bearer).status == 200
        longer = tensor("text_input", "BYTES", "Good ", "mornings.")
        assert app.post(INFER, {"inputs": [longer]}, **bearer).status == 413
        assert app.post("/v2/models/score/generate", pair, **bearer).status == 413
        assert app.post(stream, {"text_input": "Good mornings."}, **bearer).status == 413
        for _ in range(2):
            assert app.post("/v2/models/info/generate", {}, **bearer).status == 200
        refused = app.post(stream, {"text_input": "Hello."}, **bearer)
        assert (refused.status, [*refused.json]) == (429, ["error"])


def test_the_deadline_of_a_request_holds(app: Application) -> None:
    body = {"inputs": [TEXT | {"data": ["Another text."]}], "parameters": {"timeout": 1}}
    assert app.post(INFER, body).status == 504


def test_the_cache_and_stored_glossaries_apply(app: Application) -> None:
    text = TEXT | {"data": ["Only once."]}
    assert infer(app, text).json == infer(app, text).json
    # Requests of other tests, which were cancelled, may arrive in the meantime.
    sent = [request.inputs["text_input"] for request in app.requests]
    assert sent.count(["Only once."]) == 1
    terms = {"source_language": "en", "target_language": "de", "entries": {"tea": "Tee"}}
    body = {"name": "Drinks", "dictionaries": [terms]}
    kept = app.post("/api/v1/glossaries", body).json["id"]
    both = tensor("source_language", "BYTES", "en"), tensor("target_language", "BYTES", "de")
    infer(app, TEXT | {"data": ["A tea."]}, *both, parameters={"glossary_ids": kept})
    (sent,) = app.requests[-1].inputs["glossary"]
    assert json.loads(sent) == {"tea": "Tee"}


def test_the_official_client_over_grpc(app: Application) -> None:
    async def work(client: triton_grpc.InferenceServerClient) -> None:
        assert await client.is_server_live()
        assert await client.is_server_ready()
        assert await client.is_model_ready("translate")
        assert (await client.get_server_metadata()).name == "dragoman"
        metadata = await client.get_model_metadata("translate_stream", "1")
        assert metadata.inputs[0].shape == [-1]
        text = official(triton_grpc, "text_input", [[b"Good morning.", b"I see."]])
        result = await client.infer("translate", [text], request_id="5")
        assert result.as_numpy("text_output").tolist() == [[b"<GOOD MORNING.>", b"<I SEE.>"]]
        assert result.get_response().id == "5"
        for call, code in (
            (client.infer("nothing", [text]), "NOT_FOUND"),
            (client.infer("translate", []), "INVALID_ARGUMENT"),
            (client.get_model_config("translate"), "UNIMPLEMENTED"),
            (client.get_model_repository_index(), "UNIMPLEMENTED"),
        ):
            with refused(code):
                await call

    over_grpc(app, work)


def test_the_official_client_streams_over_grpc(app: Application) -> None:
    async def work(client: triton_grpc.InferenceServerClient) -> list[Any]:
        async def requests() -> Any:
            for text in (b"Good morning.", b"", b"\xff"):
                yield {
                    "model_name": "translate_stream",
                    "inputs": [official(triton_grpc, "text_input", [text])],
                    "request_id": str(len(text)),
                }
            yield {"model_name": "translate", "inputs": []}

        return [pair async for pair in client.stream_infer(requests())]

    answers = over_grpc(app, work)
    parts = [result.get_response() for result, _ in answers if result is not None]
    parts = [part for part in parts if part.id == "13"]
    marks = [part.parameters["triton_final_response"].bool_param for part in parts]
    assert (any(marks[:-1]), marks[-1]) == (False, True)
    assert b"<GOOD MORNING.>" in parts[-1].raw_output_contents[0]
    errors = [error.message() for _, error in answers if error is not None]
    assert [error.partition(" ")[0] for error in errors] == ["INVALID_ARGUMENT:"] * 2


def test_compressed_messages_are_not_read(app: Application) -> None:
    async def work(client: triton_grpc.InferenceServerClient) -> None:
        text = official(triton_grpc, "text_input", [["a" * 1_000_000]])
        with refused("UNIMPLEMENTED"):
            await client.infer("translate", [text], compression_algorithm="gzip")
        assert await client.is_server_live()

    over_grpc(app, work)


def test_an_open_gateway_behind_a_proxy_refuses_calls() -> None:
    async def work(client: triton_grpc.InferenceServerClient) -> None:
        text = official(triton_grpc, "text_input", [[b"Good morning."]])
        with refused("PERMISSION_DENIED"):
            await client.infer("translate", [text], headers={"x-forwarded-for": "10.0.0.1"})

    with Application() as app:
        over_grpc(app, work)


def test_refused_messages_count_for_the_limits_of_a_key() -> None:
    with Application(address="0.0.0.0") as app:
        key = app.new_key(limits=Limits(requests_per_minute=3))
        bearer = {"authorization": f"Bearer {key}"}

        async def work(client: triton_grpc.InferenceServerClient) -> list[str]:
            async def requests() -> Any:
                for _ in range(5):
                    yield {"model_name": "translate", "inputs": []}

            answers = client.stream_infer(requests(), headers=bearer)
            return [error.message().partition(":")[0] async for _, error in answers]

        assert over_grpc(app, work) == ["INVALID_ARGUMENT"] * 3 + ["RESOURCE_EXHAUSTED"] * 2


def test_our_client_over_grpc(app: Application) -> None:
    async def run() -> None:
        async with (
            app.serving(NAME, KServeService) as port,
            AsyncTranslator(f"grpc://127.0.0.1:{port}") as translator,
        ):
            assert await translator.health()
            assert (await translator.info()).languages == ("en", "de")
            assert (await translator.translate("Good morning.")).text == "<GOOD MORNING.>"
            parts = [part async for part in translator.translate_stream("Good morning.")]
            assert parts[-1].text == "<GOOD MORNING.>"
            with pytest.raises(InvalidRequest) as caught:
                await translator.translate("A.", beam_width=99)
            assert (caught.value.kind, caught.value.option) == ("invalid", "beam_width")

    app.run(asyncio.wait_for(run(), 60))


def test_a_waiting_stream_does_not_keep_the_gateway_from_stopping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "_STOPPING_S", 0.01)

    async def work(client: triton_grpc.InferenceServerClient, app: Application) -> None:
        begun = asyncio.Event()

        async def requests() -> Any:
            text = official(triton_grpc, "text_input", [[b"Good morning."]])
            yield {"model_name": "translate", "inputs": [text]}
            await begun.wait()

        answers = client.stream_infer(requests())
        assert (await anext(aiter(answers)))[0] is not None
        app.gateway.stopping = True
        assert [answer async for answer in answers] == []

    with Application() as app:
        over_grpc(app, lambda client: work(client, app))


def test_no_message_of_a_call_is_read_without_a_key() -> None:
    async def work(client: triton_grpc.InferenceServerClient) -> None:
        text = official(triton_grpc, "text_input", [[b"Good morning."]])
        with refused("UNAUTHENTICATED"):
            await client.infer("translate", [text])
        assert await client.is_server_ready()

        async def requests() -> Any:
            yield {"model_name": "translate", "inputs": [text]}

        with pytest.raises(grpc.RpcError) as ended:
            await anext(aiter(client.stream_infer(requests())))
        assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED

    with Application(address="0.0.0.0") as app:
        over_grpc(app, work)
        assert not app.requests


@pytest.mark.parametrize("call", ["ModelInfer", "ModelStreamInfer", "ModelMetadata", "Nothing"])
def test_rubbish_messages_end_with_a_status(app: Application, call: str) -> None:
    async def run() -> grpc.StatusCode:
        async with (
            app.serving(NAME, KServeService) as port,
            grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await channel.unary_unary(f"/{SERVICE}/{call}")(b"\xff\xff")
        return caught.value.code()

    code = app.run(asyncio.wait_for(run(), 60))
    expected = (
        grpc.StatusCode.UNIMPLEMENTED if call == "Nothing" else grpc.StatusCode.INVALID_ARGUMENT
    )
    assert code == expected
