"""Information about a server, and compression of requests."""

import json
from collections.abc import Callable
from copy import copy
from dataclasses import asdict
from typing import Any

import pytest
from dragoman_client import (
    AsyncTranslator,
    Health,
    InvalidRequest,
    ServerError,
    ServerInfo,
    ServerUnavailable,
    TranslationError,
    Translator,
    testing,
)
from dragoman_client.core.errors import IncompleteAnswer
from dragoman_client.testing import answers
from dragoman_client.version import __version__, work_together
from dragoman_options.table import OPTIONS
from server_fixtures import Either
from stand_ins import HEADERS, FakeTransport, translated


async def test_the_languages_of_a_server_are_returned(either: Either, url: str) -> None:
    async with either(url) as client:
        assert await client.languages() == ("en", "de")


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"\xff", b"", b"{" * 9])
def test_invalid_information_about_a_server_is_an_error(answer: bytes) -> None:
    outputs = {"info": [answer]}
    for wrong in (outputs, {"info": None}, {}):
        with pytest.raises(ServerError, match="does not say what it is"):
            ServerInfo.of(wrong)


def test_pairs_of_an_older_server_have_no_models(url: str) -> None:
    """Pairs of languages are made from the directions if a server sends no pairs."""
    with Translator(url) as translator:
        info = translator.info()
    fields = asdict(info) | {"options": list(info.options.values())}
    del fields["pairs"]
    older = ServerInfo.of({"info": [json.dumps(fields).encode()]})
    assert [(pair.source, pair.target) for pair in older.pairs] == list(info.directions)
    assert {(pair.models, pair.via) for pair in older.pairs} == {((), None)}


def test_the_options_of_a_server_are_returned_by_name(url: str) -> None:
    with Translator(url) as translator:
        info = translator.info()
    assert list(info.options) == list(OPTIONS)
    assert ("en", "de") in info.directions


async def test_health_has_the_reason_for_a_failure(
    either: Either, url: str, free_port: int
) -> None:
    """No exception is raised if a server cannot be reached or its model is not ready."""
    async with either(url) as client:
        assert await client.health() == Health(True)
        assert await client.is_ready()
    async with either(f"{url.partition(':')[0]}://127.0.0.1:{free_port}") as client:
        health = await client.health()
        assert not health
        assert not await client.is_ready()
        assert health.reason


def test_a_model_that_is_not_ready_is_named() -> None:
    class Starting(FakeTransport):
        def is_ready(self) -> bool:
            return False

    with Translator(transport=Starting()) as translator:
        assert translator.health() == Health(False, "the model is not ready")


@pytest.mark.parametrize("compression", ["gzip", "deflate"])
async def test_requests_are_compressed_over_grpc(
    either: Either, grpc_url: str, compression: str
) -> None:
    """Requests and streams return the same translations as without compression."""
    texts = ["Grüße " * 100, "a"]
    async with either(grpc_url, compression=compression) as client:
        answers = await client.translate(texts)
        assert [answer.text for answer in answers] == [translated(text) for text in texts]
        assert (await client.parts("abc"))[-1].text == translated("abc")


@pytest.mark.parametrize("client", [Translator, AsyncTranslator])
def test_compression_is_refused_over_http(client: type) -> None:
    """Triton does not accept compressed JSON."""
    with pytest.raises(ValueError, match="compression is 'gzip': only grpc"):
        client("http://localhost", compression="gzip")


async def test_compressed_answers_are_not_requested(either: Either, http_url: str) -> None:
    """aiohttp and http.client would otherwise request compressed answers."""
    HEADERS.clear()
    async with either(http_url) as client:
        await client.translate("a")
    assert {seen.get("accept-encoding", "identity") for seen in HEADERS} == {"identity"}


@pytest.mark.parametrize("compression", ["zip", "", True])
def test_an_unknown_compression_is_refused(compression: Any) -> None:
    """The compression is checked when a translator is created."""
    with pytest.raises(ValueError, match="compression is"):
        Translator(compression=compression)


def test_translations_have_their_elapsed_time(url: str) -> None:
    """Each part of a stream has an elapsed time, which comparisons of translations ignore."""
    with Translator(url) as translator:
        first, second = translator.translate("abc"), translator.translate("abc")
        assert first == second
        assert 0 < first.elapsed_s < 30
        times = [part.elapsed_s for part in translator.translate_stream("abc")]
        assert times == sorted(times)
        assert times[0] > 0


def test_languages_of_an_unreachable_server_are_an_error(free_port: int) -> None:
    for scheme in ("grpc", "http"):
        with (
            Translator(f"{scheme}://127.0.0.1:{free_port}") as translator,
            pytest.raises(ServerUnavailable),
        ):
            translator.languages()


@pytest.mark.parametrize(
    ("version", "other", "fit"),
    [
        ("0.1.0", "0.1.7", True),
        ("0.1.0", "0.2.0", False),
        ("0.1.0", "0.10.0", False),
        ("1.2.0", "1.9.4", True),
        ("1.2.0", "2.2.0", False),
        ("0.1.0", "1.1.0", False),
    ],
)
def test_compatible_versions(version: str, other: str, fit: bool) -> None:
    """Before version 1.0 the first two numbers must be equal, later only the first."""
    assert work_together(version, other) is work_together(other, version) is fit


UNKNOWN = "unknown option 'made_up'"
OF_TRITON = "unexpected inference input 'made_up' for model 'translate'"
LACKS = "the answer lacks token_scores: is this a Dragoman server?"


@pytest.mark.parametrize(
    "error",
    [InvalidRequest(UNKNOWN, "unknown_option"), InvalidRequest(OF_TRITON), IncompleteAnswer(LACKS)],
)
async def test_an_error_names_incompatible_versions(
    error: TranslationError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors of requests, of streams and of the asynchronous client name incompatible versions."""
    with (
        Translator(transport=testing.FakeTransport(refuse(error))) as translator,
        pytest.raises(type(error)) as fitting,
    ):
        translator.translate("a")
    assert str(fitting.value) == str(error)
    monkeypatch.setitem(answers.INFORMATION, "version", "0.2.3")
    expected = (
        f"{error}; the server is dragoman 0.2.3 and this client {__version__}: "
        "pip install 'dragoman-client==0.2.*'"
    )
    with Translator(transport=testing.FakeTransport(refuse(error))) as translator:
        with pytest.raises(type(error)) as caught:
            translator.translate("a")
        assert str(caught.value) == expected
        with pytest.raises(type(error), match="this client"):
            list(translator.translate_stream("a"))
    async with AsyncTranslator(transport=testing.AsyncFakeTransport(refuse(error))) as client:
        with pytest.raises(type(error), match="this client"):
            await client.translate("a")


def test_an_error_of_the_text_does_not_query_the_version() -> None:
    """The version is not queried for an error of the text, because that would cost a request."""
    transport = testing.FakeTransport(refuse(InvalidRequest("text 0 has 300 tokens")))
    with Translator(transport=transport) as translator, pytest.raises(InvalidRequest):
        translator.translate("a")
    assert [request.model for request in transport.requests] == ["translate"]


def refuse(error: TranslationError) -> Callable[[str], str]:
    """A translation function that refuses every text."""

    def fail(_: str) -> str:
        raise copy(error)

    return fail
