"""An option that is declared only in the table is known everywhere else."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, cast

import grpc
import pytest
from dragoman_client import AsyncTranslator, Translator
from dragoman_client.core.request import build_inputs
from dragoman_client.testing import FakeServer
from dragoman_client.transports.grpc_wire import infer_request, stream_request
from dragoman_load_test.requests.senders import open_senders
from dragoman_load_test.requests.target import Target
from dragoman_options.__main__ import option_table
from dragoman_options.table import OPTIONS, SCORE, STREAM, TRANSLATE
from tritonclient.grpc import service_pb2
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub

from dragoman.cli import main
from tests.gateways import RunningGateway, run_gateway
from tests.servers import WAIT_S, Served, processes_run_first, serving

NAME = "loudness"
RANGE = "loudness is 4: give 1 to 3"
ALONE = "loudness: not with patience"
FIELDS = ' {"kind":"invalid","option":"loudness"}'
DECLARATION = f"""
from dragoman_options.option import Option, Range
from dragoman_options.table import OPTIONS

OPTIONS["{NAME}"] = Option(
    "{NAME}", "whole number", "how loud", range=Range(1, 3), unset="as ever", scores=True,
    not_with=("patience",),
)
"""


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option in this process."""
    monkeypatch.setitem(cast(dict[str, Any], OPTIONS), NAME, None)  # removed at the end
    exec(DECLARATION, {})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose processes have the option."""
    folder = tmp_path_factory.mktemp("declared")
    with processes_run_first(DECLARATION, folder), serving() as running:
        yield running


def test_the_server_accepts_it_over_http(served: Served) -> None:
    texts = {TRANSLATE: {}, SCORE: {"target_input": "Guten Morgen."}}
    for model, more in texts.items():
        for value, right in ((3, True), (4, False)):
            body = {"text_input": "Good morning.", NAME: value, **more}
            status, answer = served.generate(body, model)
            assert status == (200 if right else 400)
            assert right or answer["error"] == RANGE + FIELDS
    status, answer = served.generate({"text_input": "a", NAME: 2, "patience": 2.0})
    assert (status, answer["error"]) == (400, ALONE + FIELDS)
    assert served.events(text_input="a", **{NAME: 2})[-1]["finish_reason"] == "stop"
    assert served.events(text_input="a", **{NAME: 4})[-1]["error"].endswith(RANGE + FIELDS)


@pytest.mark.usefixtures("declared")
def test_the_server_accepts_it_over_grpc(served: Served) -> None:
    with grpc.insecure_channel(served.server.grpc_url.removeprefix("grpc://")) as channel:
        service = GRPCInferenceServiceStub(channel)
        for model in (TRANSLATE, SCORE, STREAM):
            metadata = service.ModelMetadata(service_pb2.ModelMetadataRequest(name=model))
            assert (NAME, "INT32") in [(field.name, field.datatype) for field in metadata.inputs]
        for value, message in ((3, ""), (4, RANGE + FIELDS)):
            inputs = build_inputs(["Good morning."], {NAME: value})
            streamed = service.ModelStreamInfer(iter([stream_request(STREAM, inputs, 30.0)]))
            assert [response.error_message for response in streamed][-1].endswith(message)
            try:
                service.ModelInfer(infer_request(TRANSLATE, inputs, 30.0))
                refusal = ""
            except grpc.RpcError as error:
                refusal = error.details()
            assert refusal == message


@pytest.mark.usefixtures("declared")
def test_it_is_described(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    described = served.http.info().options[NAME]
    assert described["range"] == {"least": 1, "most": 3, "above": False}
    assert described["models"] == [TRANSLATE, STREAM, SCORE]
    with urllib.request.urlopen(f"{served.server.http_url}/v2/models/score", timeout=10) as answer:
        assert NAME in [field["name"] for field in json.load(answer)["inputs"]]
    (row,) = (line for line in option_table().splitlines() if NAME in line)
    assert (
        row
        == f"| `{NAME}` | whole number | as ever | 1 to 3 | all | how loud; not with `patience` |"
    )
    for command in ("translate", "score", "load-test"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert f"--{NAME}" in capsys.readouterr().out


Ask = Callable[[str, Any], Any]


CALLS = {
    "translate": ("a",),
    "translate_stream": ("a",),
    "translate_batches": (["a"],),
    "score": ("a", "b"),
}
"""Methods of both clients, and their arguments."""


def by_method(name: str) -> Ask:
    def ask(url: str, options: Any) -> None:
        with Translator(url) as translator:
            answer = getattr(translator, name)(*CALLS[name], **options)
            if name in ("translate_stream", "translate_batches"):
                list(answer)

    return ask


def by_method_in_tasks(name: str) -> Ask:
    def ask(url: str, options: Any) -> None:
        async def run() -> None:
            async with AsyncTranslator(url) as translator:
                answer = getattr(translator, name)(*CALLS[name], **options)
                if name in ("translate_stream", "translate_batches"):
                    assert [part async for part in answer]
                else:
                    await answer

        asyncio.run(run())

    return ask


def loaded(url: str, options: Any) -> None:
    async def send(streamed: bool) -> None:
        target = Target.of(url, options=options, streamed=streamed)
        async with open_senders(target, [["a"]]) as (only,):
            await only()

    for kind in (False, True):
        asyncio.run(send(kind))


def run(url: str, options: Any, *words: str) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        code = main([words[0], "--url", url, *flags, *words[1:]])
    if code:
        raise ValueError(stderr.getvalue())


def by_translate(url: str, options: Any) -> None:
    run(url, options, "translate", "a")


def by_score(url: str, options: Any) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as pairs:
        pairs.write("a\tb\n")
        pairs.flush()
        run(url, options, "score", "--tsv", pairs.name)


def by_load_test(url: str, options: Any) -> None:
    short = ("--concurrency=1", "--windows=1", "--window-s=0.2", "--warm-up-s=0.1")
    run(url, options, "load-test", "--metrics-url=none", *short)


CLIENTS: dict[str, Ask] = {
    **{name: by_method(name) for name in CALLS},
    **{f"{name}, asyncio": by_method_in_tasks(name) for name in CALLS},
    **{"dragoman translate": by_translate, "dragoman score": by_score},
}
LOAD_CLIENTS: dict[str, Ask] = {"load": loaded, "dragoman load-test": by_load_test}


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("client", [*CLIENTS, *LOAD_CLIENTS])
def test_it_is_sent_and_checked(client: str, protocol: str) -> None:
    ask = {**CLIENTS, **LOAD_CLIENTS}[client]
    with FakeServer() as server:
        url = server.grpc_url if protocol == "grpc" else server.http_url
        ask(url, {NAME: 2})
        assert server.requests
        assert all(request.inputs[NAME] == [2] for request in server.requests)
        before = len(server.requests)
        with pytest.raises(ValueError, match=RANGE):
            ask(url, {NAME: 4})
        assert len(server.requests) == before


@pytest.fixture(scope="module")
def gateway(served: Served) -> Iterator[RunningGateway]:
    """A gateway whose process has the option."""
    server = served.server
    with run_gateway(server.grpc_url, server.http_url, timeout_s=WAIT_S) as running:
        yield running


REFUSED = {"code": "invalid_input", "message": RANGE, "kind": "invalid", "option": NAME}


def test_the_own_api_accepts_it(gateway: RunningGateway) -> None:
    texts = {"translate": {"text": "Good morning."}}
    texts["score"] = {"text": "Good morning.", "target": "Guten Morgen."}
    for path, body in texts.items():
        languages = {"source_language": "en", "target_language": "de"}
        for value, status in ((3, 200), (4, 400)):
            answer = gateway.post(f"/api/v1/{path}", {**body, **languages, NAME: value})
            assert answer.status == status, answer.body
            assert status == 200 or answer.json["error"] == REFUSED
    for written, accepted in (("3", True), ("4", False)):
        fields = {"target_language": "de", NAME: written}
        answer = gateway.upload("/api/v1/documents", "a.html", "<p>Good morning.</p>", fields)
        assert answer.status == (202 if accepted else 400), answer.body
        assert accepted or answer.json["error"] == REFUSED


def test_the_own_api_describes_it(gateway: RunningGateway) -> None:
    (option,) = (
        option for option in gateway.get("/api/v1/info").json["options"] if option["name"] == NAME
    )
    assert option["range"] == {"least": 1, "most": 3, "above": False}
    shapes = gateway.get("/api/v1/openapi.json").json["components"]["schemas"]
    described = [
        shape["properties"][NAME]
        for shape in shapes.values()
        if NAME in shape.get("properties", {})
    ]
    assert len(described) >= 3
    assert all((schema["minimum"], schema["maximum"]) == (1, 3) for schema in described)


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("client", CLIENTS)
def test_clients_send_it_to_a_gateway(gateway: RunningGateway, client: str) -> None:
    CLIENTS[client](gateway.url, {NAME: 2, "source_language": "en", "target_language": "de"})
