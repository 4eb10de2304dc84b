"""NVIDIA's own client for Riva, unchanged, against the gateway."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from riva.client import Auth, NeuralMachineTranslationClient
from riva.client.proto import riva_common_pb2, riva_nmt_pb2

from tests.gateways import RunningGateway, StartGateway
from tests.integration.gateway.test_official_clients import table
from tests.integration.gateway.test_operations import metric
from tests.servers import WAIT_S, Served, wait_for

REFUSED_CALLS: dict[str, Callable[[NeuralMachineTranslationClient], object]] = {
    "streaming_s2t_response_generator": lambda it: list(
        it.streaming_s2t_response_generator(
            [b""], riva_nmt_pb2.StreamingTranslateSpeechToTextConfig()
        )
    ),
    "streaming_s2s_response_generator": lambda it: list(
        it.streaming_s2s_response_generator(
            [b""], riva_nmt_pb2.StreamingTranslateSpeechToSpeechConfig()
        )
    ),
}


@pytest.fixture(scope="module")
def riva(start_gateway: StartGateway) -> Iterator[RunningGateway]:
    with start_gateway(
        riva_port=0, body_bytes=100_000, access_log=True, timeout_s=WAIT_S
    ) as running:
        yield running


@pytest.fixture(scope="module")
def client(riva: RunningGateway) -> NeuralMachineTranslationClient:
    return NeuralMachineTranslationClient(Auth(uri=riva.riva))


def status_of(call: object) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call()  # type: ignore[operator]
    return caught.value.code(), caught.value.details()


def test_translate(client: NeuralMachineTranslationClient, shipped: Served) -> None:
    texts = ["Good morning.", "I have two books."]
    expected = shipped.grpc.translate(texts, source_language="en", target_language="de")
    for source, target in (("en", "de"), ("en-US", "de-DE"), ("", "DE")):
        response = client.translate(texts, "", source, target)
        assert [translation.text for translation in response.translations] == [
            translation.text for translation in expected
        ]
        assert {translation.language for translation in response.translations} == {target}
    under_way = client.translate(texts, "", "en", "de", future=True, max_len_variation="150")
    assert under_way.result().translations[0].text == "Guten Morgen."


def test_the_id_of_a_request_is_returned(client: NeuralMachineTranslationClient) -> None:
    request = riva_nmt_pb2.TranslateTextRequest(
        texts=["Hello."], source_language="en", target_language="de"
    )
    assert not client.stub.TranslateText(request).HasField("id")
    request.id.CopyFrom(riva_common_pb2.RequestId(value="my own"))
    assert client.stub.TranslateText(request).id.value == "my own"


def test_phrases_are_kept_or_translated_as_given(
    client: NeuralMachineTranslationClient,
) -> None:
    text = "The weather in Berlin is very nice."
    (translation,) = client.translate(
        [text], "", "en", "de", dnt_phrases_dict={"weather": "Klima", "nice": ""}
    ).translations
    assert "Klima" in translation.text
    assert "nice" in translation.text
    (translation,) = client.translate(
        ["I like the <dnt>weather</dnt>."], "", "en", "de"
    ).translations
    assert "weather" in translation.text
    assert "dnt" not in translation.text


def test_the_table_has_every_call_of_nvidias_client() -> None:
    public = inspect.getmembers(NeuralMachineTranslationClient, inspect.isroutine)
    answers = table()["nvidia-riva-client"]
    assert {name for name, _ in public if name[0] != "_"} == answers.keys()
    assert answers.keys() == {"translate", "get_config"} | REFUSED_CALLS.keys()


@pytest.mark.parametrize("call", REFUSED_CALLS)
def test_an_unsupported_call_is_refused_by_name(
    call: str, client: NeuralMachineTranslationClient
) -> None:
    code, details = status_of(lambda: REFUSED_CALLS[call](client))
    assert code == grpc.StatusCode.UNIMPLEMENTED
    assert details.startswith(table()["nvidia-riva-client"][call].removeprefix("refused: "))


def test_languages(client: NeuralMachineTranslationClient, shipped: Served) -> None:
    pairs = client.get_config("").languages
    directions = {
        (src, tgt)
        for pair in pairs.values()
        for src in pair.src_lang
        for tgt in pair.tgt_lang
        if src != tgt
    }
    assert directions == set(shipped.grpc.info().directions)
    for model, pair in pairs.items():
        assert client.get_config(model, future=True).result().languages == {model: pair}
        targets = [target for target in pair.tgt_lang if target != pair.src_lang[0]]
        assert client.translate(["A."], model, pair.src_lang[0], targets[0]).translations


def test_wrong_requests_are_named(client: NeuralMachineTranslationClient) -> None:
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    for arguments, message in (
        ((["A."], "", "en", "xx"), "target_language 'xx' is not supported: give "),
        ((["A."], "", "xx", "de"), "source_language 'xx' is not supported: give "),
        ((["A."], "", "en", ""), "target_language: give one of "),
        ((["A."], "megatron", "en", "de"), "there is no model 'megatron': give dragoman"),
        (([], "", "en", "de"), "texts: give at least one"),
    ):
        code, details = status_of(lambda given=arguments: client.translate(*given))
        assert (code, details.startswith(message)) == (invalid, True), details
    for wrong in ("many", "9" * 10_000):
        code, details = status_of(
            lambda given=wrong: client.translate(["A."], "", "en", "de", max_len_variation=given)
        )
        assert (code, f"max_len_variation '{wrong[:20]}'" in details) == (invalid, True)
    code, _ = status_of(lambda: client.translate(["A. " * 50_000], "", "en", "de"))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert client.translate(["Hello."], "", "en", "de").translations[0].text == "Hallo."


def test_a_cancelled_call_ends_in_the_engine(
    client: NeuralMachineTranslationClient, shipped: Served
) -> None:
    texts = shipped.long_work()
    shipped.cancel(
        lambda: client.translate(texts, "", "en", "de", future=True),
        lambda call: call.cancel(),
    )


def test_a_deadline_holds(client: NeuralMachineTranslationClient, shipped: Served) -> None:
    request = riva_nmt_pb2.TranslateTextRequest(
        texts=shipped.long_work(), source_language="en", target_language="de"
    )
    code, _ = status_of(lambda: client.stub.TranslateText(request, timeout=0.1))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED


def test_health(riva: RunningGateway) -> None:
    with grpc.insecure_channel(riva.riva) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for service in ("", "nvidia.riva.nmt.RivaTranslation"):
            request = health_pb2.HealthCheckRequest(service=service)
            assert stub.Check(request).status == health_pb2.HealthCheckResponse.SERVING
            watched = stub.Watch(request, timeout=WAIT_S)
            assert next(watched).status == health_pb2.HealthCheckResponse.SERVING
            watched.cancel()
        request = health_pb2.HealthCheckRequest(service="none")
        assert status_of(lambda: stub.Check(request))[0] == grpc.StatusCode.NOT_FOUND


def test_calls_are_counted_and_logged(
    riva: RunningGateway, client: NeuralMachineTranslationClient
) -> None:
    labels = '{endpoint="translate",protocol="riva",status="2xx"}'
    before = metric(riva, f"requests_total{labels}")
    assert client.translate(["Hello."], "", "en", "de").translations
    assert metric(riva, f"requests_total{labels}") == before + 1
    wait_for(lambda: '"protocol":"riva"' in riva.log[-1] and "Hello" not in riva.log[-1])


def test_calls_finish_before_the_end(start_gateway: StartGateway, shipped: Served) -> None:
    with start_gateway(riva_port=0, timeout_s=WAIT_S) as gateway, ThreadPoolExecutor(1) as pool:
        client = NeuralMachineTranslationClient(Auth(uri=gateway.riva))
        assert client.translate(["Hello."], "", "en", "de").translations
        texts = shipped.long_work(least=1, long_s=2.0)
        under_way = pool.submit(client.translate, texts, "", "en", "de")
        wait_for(lambda: metric(gateway, "requests_in_flight") > 1)  # besides this one
        assert not under_way.done()
        assert gateway.stop() == 0
        assert len(under_way.result(WAIT_S).translations) == len(texts)


def test_a_port_in_use_is_named(riva: RunningGateway, start_gateway: StartGateway) -> None:
    port = riva.riva.rpartition(":")[2]
    with pytest.raises(pytest.fail.Exception) as caught, start_gateway(riva_port=port):
        pass
    assert f"--riva-port {port}: Address already in use" in str(caught.value)
    assert "Traceback" not in str(caught.value)
