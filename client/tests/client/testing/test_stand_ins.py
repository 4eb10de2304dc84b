"""The public fakes: they answer like the recorded server, and record their requests."""

import json

import pytest
from dragoman_client import (
    AccessDenied,
    AsyncTranslator,
    DeadlineExceeded,
    InvalidRequest,
    ServerError,
    ServerUnavailable,
    Translation,
    TranslationError,
    Translator,
)
from dragoman_client.testing import AsyncFakeTransport, FakeServer, FakeTransport, translated
from recorded_answers import CASES, RECORDING, WITHOUT_ENGINE, Case, answer


@pytest.mark.parametrize("case", [*CASES, *WITHOUT_ENGINE], ids=lambda case: case.name)
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_fake_server_answers_like_the_recorded_one(case: Case, protocol: str) -> None:
    """Statuses, messages, and names, types and shapes of outputs are equal."""

    def translate(text: str) -> str:
        if case.refusal is not None:
            raise case.refusal
        return translated(text)

    recorded = json.loads(RECORDING.read_text(encoding="utf-8"))[case.name][protocol]
    with FakeServer(translate) as server:
        assert answer(case, server.grpc_url if protocol == "grpc" else server.http_url) == recorded


def test_every_recorded_answer_is_compared() -> None:
    """The recording contains the cases above and no others."""
    recorded = json.loads(RECORDING.read_text(encoding="utf-8"))
    assert set(recorded) == {case.name for case in (*CASES, *WITHOUT_ENGINE)}
    assert recorded["a deadline"]["http"]["status"] == 400
    assert recorded["a deadline"]["grpc"]["status"] == "CANCELLED"


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("no"),
        AccessDenied("no"),
        ServerUnavailable("no"),
        DeadlineExceeded("no"),
        ServerError("no"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_errors_of_the_function_reach_the_client(error: TranslationError, protocol: str) -> None:
    """Class and message of an error are kept, also at the end of a stream."""

    def refuse(_text: str) -> str:
        raise error

    with (
        FakeServer(refuse) as server,
        Translator(getattr(server, f"{protocol}_url"), retries=0) as translator,
    ):
        for ask in (translator.translate, lambda text: list(translator.translate_stream(text))):
            with pytest.raises(type(error)) as caught:
                ask("a")
            assert (type(caught.value), str(caught.value)) == (type(error), "no")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_busy_server_determines_the_pause(protocol: str) -> None:
    """As in Dragoman, the message of a busy server contains the pause."""
    busy = [ServerUnavailable("busy", retry_after_s=0.25), None]

    def translate(text: str) -> str:
        if (error := busy.pop(0)) is not None:
            raise error
        return translated(text)

    with (
        FakeServer(translate) as server,
        Translator(getattr(server, f"{protocol}_url")) as translator,
    ):
        translation = translator.translate("a")
        assert translation.text == "<A>"
        assert translation.elapsed_s > 0.25
        assert [request.inputs for request in server.requests] == [{"text_input": ["a"]}] * 2


def test_a_server_records_its_requests() -> None:
    """The record of a request has its headers, options and deadline."""
    with FakeServer() as server:
        for url in (server.grpc_url, server.http_url):
            with Translator(url, token="secret", timeout_s=3) as translator:
                translator.translate(["a", "b"], beam_width=2)
        for request in server.requests:
            assert (request.model, request.headers["authorization"]) == (
                "translate",
                "Bearer secret",
            )
            assert request.inputs == {"text_input": ["a", "b"], "beam_width": [2]}
            assert request.timeout_s == pytest.approx(3, abs=0.5)
        assert len(server.requests) == 2


def test_a_transport_answers_without_a_server() -> None:
    """The function of a transport returns either a text or a whole `Translation`."""
    translation = Translation("Guten Tag.", 3, "length", score=-1.5)
    transport = FakeTransport({"Good day.": translation, "Hello.": "Hallo."}.__getitem__)
    with Translator(transport=transport) as translator:
        translations = translator.translate(["Good day.", "Hello."], return_scores=True)
        assert translations == [translation, Translation("Hallo.", 6, "stop", score=-6.0)]
        assert list(translator.translate_stream("Hello."))[-1].text == "Hallo."
        assert translator.languages() == ("en", "de")
        assert translator.is_ready()
        empty = Translation("", 0, "stop", score=0.0)
        assert translator.translate(["Hello.", " "], return_scores=True)[1] == empty
        with pytest.raises(InvalidRequest, match="target 1 is empty, but its text is not"):
            translator.score(["", "Hello."], ["", " "])
    assert transport.closed
    assert [request.model for request in transport.requests] == [
        *("translate", "translate_stream", "info", "translate", "score")
    ]


async def test_an_asynchronous_transport_answers_without_a_server() -> None:
    """Information, scores, streams and batches need no server."""
    transport = AsyncFakeTransport()
    async with AsyncTranslator(transport=transport) as translator:
        assert await translator.is_ready()
        assert await translator.languages() == ("en", "de")
        assert (await translator.score("a", "bc")).score == -2
        parts = [part.text async for part in translator.translate_stream("ab")]
        batches = translator.translate_batches(["c", "d", "e"], batch_size=2)
        assert [parts[-1], *[translation.text async for translation in batches]] == [
            "<AB>",
            "<C>",
            "<D>",
            "<E>",
        ]
    assert transport.closed
    assert len(transport.requests) == 5
