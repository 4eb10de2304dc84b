"""An option that is only a line of the table is known everywhere else."""

from __future__ import annotations

import grpc
from dragoman_options.table import SCORE, STREAM, TRANSLATE
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from tests.gateways import RunningGateway
from tests.integration.made_up.conftest import Run
from tests.servers import Served

RANGE = "volume is 4: give 1 to 3"
FIELDS = ' {"kind":"invalid","option":"volume"}'
REFUSED = {"code": "invalid_input", "message": RANGE, "kind": "invalid", "option": "volume"}
DESCRIBED_RANGE = {"least": 1, "most": 3, "above": False}


def test_triton_accepts_it_in_its_range(served: Served) -> None:
    texts = {TRANSLATE: {}, SCORE: {"target_input": "Guten Morgen."}}
    for model, more in texts.items():
        body = {"text_input": "Good morning.", **more}
        assert served.generate({**body, "volume": 3}, model)[0] == 200
        status, answer = served.generate({**body, "volume": 4}, model)
        assert (status, answer["error"]) == (400, RANGE + FIELDS)
    status, answer = served.generate({"text_input": "a", "volume": 2, "patience": 2.0})
    assert (status, answer["error"]) == (400, "volume: not with patience" + FIELDS)
    assert served.events(text_input="a", volume=2)[-1]["finish_reason"] == "stop"
    assert served.events(text_input="a", volume=4)[-1]["error"].endswith(RANGE + FIELDS)


def test_triton_describes_it(served: Served) -> None:
    with grpc.insecure_channel(served.server.grpc_url.removeprefix("grpc://")) as channel:
        service = GRPCInferenceServiceStub(channel)
        for model in (TRANSLATE, SCORE, STREAM):
            metadata = service.ModelMetadata(service_pb2.ModelMetadataRequest(name=model))
            assert ("volume", "INT32") in [
                (field.name, field.datatype) for field in metadata.inputs
            ]
    described = served.http.info().options["volume"]
    assert described["range"] == DESCRIBED_RANGE
    assert described["models"] == [TRANSLATE, STREAM, SCORE]


CHECKS = """
import asyncio
from dragoman_client import AsyncTranslator, Translator
from dragoman_client.testing import FakeServer

CALLS = {
    "translate": ("a",),
    "translate_stream": ("a",),
    "translate_batches": (["a"],),
    "score": ("a", "b"),
}

def ask(url, name, volume):
    with Translator(url) as translator:
        answer = getattr(translator, name)(*CALLS[name], volume=volume)
        if name in ("translate_stream", "translate_batches"):
            list(answer)

async def ask_in_task(url, name, volume):
    async with AsyncTranslator(url) as translator:
        answer = getattr(translator, name)(*CALLS[name], volume=volume)
        if name in ("translate_stream", "translate_batches"):
            [part async for part in answer]
        else:
            await answer

for by in (ask, lambda *request: asyncio.run(ask_in_task(*request))):
    for name in CALLS:
        with FakeServer() as server:
            for url in (server.grpc_url, server.http_url, server.gateway_url):
                before = len(server.requests)
                by(url, name, 2)
                sent = [request for request in server.requests[before:] if request.model != "info"]
                assert sent and all(request.inputs["volume"] == [2] for request in sent)
                count = len(server.requests)
                try:
                    by(url, name, 4)
                except ValueError as error:
                    assert "volume is 4: give 1 to 3" in str(error)
                else:
                    raise AssertionError(name)
                assert len(server.requests) == count
"""


def test_every_method_of_the_clients_sends_and_checks_it(run: Run) -> None:
    run("-c", CHECKS)


def test_the_load_test_sends_and_checks_it(run: Run, served: Served) -> None:
    short = ("--concurrency=1", "--windows=1", "--window-s=0.2", "--warm-up-s=0.1")
    words = ("-m", "dragoman", "load-test", "--url", served.server.grpc_url, *short)
    for stream in ((), ("--stream",)):
        run(*words, "--metrics-url=none", "--volume=2", *stream)
        assert RANGE in run(*words, "--volume=4", *stream, code=2)


def test_the_own_api_accepts_it_in_its_range(gateway: RunningGateway) -> None:
    languages = {"source_language": "en", "target_language": "de"}
    texts = {"translate": {"text": "Good morning."}}
    texts["score"] = {"text": "Good morning.", "target": "Guten Morgen."}
    for path, body in texts.items():
        answer = gateway.post(f"/api/v1/{path}", {**body, **languages, "volume": 3})
        assert answer.status == 200, answer.body
        answer = gateway.post(f"/api/v1/{path}", {**body, **languages, "volume": 4})
        assert (answer.status, answer.json["error"]) == (400, REFUSED)
    for volume, status in (("3", 202), ("4", 400)):
        fields = {"target_language": "de", "volume": volume}
        answer = gateway.upload("/api/v1/documents", "a.html", "<p>Good morning.</p>", fields)
        assert answer.status == status, answer.body
        assert status == 202 or answer.json["error"] == REFUSED


def test_the_own_api_describes_it(gateway: RunningGateway) -> None:
    options = {option["name"]: option for option in gateway.get("/api/v1/info").json["options"]}
    assert options["volume"]["range"] == DESCRIBED_RANGE
    shapes = gateway.get("/api/v1/openapi.json").json["components"]["schemas"]
    properties = [shape.get("properties", {}) for shape in shapes.values()]
    described = [of["volume"] for of in properties if "volume" in of]
    assert len(described) >= 3
    assert all((schema["minimum"], schema["maximum"]) == (1, 3) for schema in described)
