"""Requests of the load test to a gateway, in each of its protocols."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dragoman_client import InvalidRequest, ServerError, ServerUnavailable, TranslationError
from dragoman_client.core.access import Access
from dragoman_load_test.requests.http_apis import http_api
from dragoman_load_test.requests.target import Target
from load_requests import send
from stand_ins import KINDS, LATE

GERMAN: Any = {"target_language": "de"}


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_of_a_gateway_is_counted(gateway_url: str, streamed: bool) -> None:
    target = Target.of(gateway_url, options=GERMAN, streamed=streamed, api="own")
    answer = send(target, "abc")
    assert (answer.sentences, answer.tokens) == (1, 3)
    assert (answer.first_s is not None) == streamed
    assert target.protocol == "own API" + ", streamed" * streamed
    assert target.notices_cancellation


def test_several_texts_are_sent_in_one_request(gateway_url: str) -> None:
    assert send(Target.of(gateway_url, api="own"), "abc", "d").sentences == 2


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_a_refusal_of_a_gateway_raises_the_clients_error(
    gateway_url: str, text: str, kind: type[TranslationError], streamed: bool
) -> None:
    target = Target.of(gateway_url, streamed=streamed, api="own")
    with pytest.raises(kind) as caught:
        send(target, text)
    assert type(caught.value) is kind


def test_a_late_answer_of_a_gateway_is_an_error(gateway_url: str) -> None:
    with pytest.raises(TranslationError, match="in time"):
        send(Target.of(gateway_url, api="own", timeout_s=0.1), LATE)


def test_requests_of_libretranslate() -> None:
    """A single text is sent as a string, and the key is part of the body."""
    options = {"source_language": "en", "target_language": "de"}
    api = http_api("libretranslate", Access(token="key"), options)
    assert json.loads(api.write(["a"], options, 1.0, False)) == {
        "q": "a",
        "source": "en",
        "target": "de",
        "format": "text",
        "api_key": "key",
    }
    assert json.loads(api.write(["a", "b"], options, 1.0, False))["q"] == ["a", "b"]
    assert "authorization" not in api.headers
    assert api.read(b'{"translatedText": "x"}').texts == ("x",)
    assert api.read(b'{"translatedText": ["x", "y"]}').texts == ("x", "y")
    with pytest.raises(ValueError, match="not an answer of LibreTranslate"):
        api.read(b'{"translated": "x"}')
    with pytest.raises(ServerUnavailable, match="Slowdown") as caught:
        api.check(429, "3", b'{"error": "Slowdown: too fast"}')
    assert caught.value.retry_after_s == 3


def test_requests_of_deepl() -> None:
    """The beam width determines the type of model."""
    options = {"target_language": "de", "beam_width": 1}
    api = http_api("deepl", Access(token="key"), options)
    assert json.loads(api.write(["a"], options, 1.0, False)) == {
        "text": ["a"],
        "target_lang": "de",
        "model_type": "latency_optimized",
    }
    assert api.headers["authorization"] == "DeepL-Auth-Key key"
    assert api.read(b'{"translations": [{"text": "x"}, {"text": "y"}]}').texts == ("x", "y")
    with pytest.raises(ValueError, match="not an answer of DeepL"):
        api.read(b"[]")
    with pytest.raises(InvalidRequest, match="Value for"):
        api.check(400, None, b'{"message": "Value for x"}')
    with pytest.raises(ServerError):
        api.check(456, None, b'{"message": "Quota exceeded"}')
    with pytest.raises(ServerUnavailable):
        api.check(503, None, b"<html>")


@pytest.mark.parametrize(
    ("api", "options", "streamed", "message"),
    [
        ("libretranslate", {}, False, "target_language: LibreTranslate's protocol needs one"),
        ("libretranslate", {**GERMAN, "beam_width": 1}, False, "has no such option"),
        ("deepl", {**GERMAN, "beam_width": 3}, False, "DeepL's protocol has only 1 and 4"),
        ("deepl", GERMAN, True, "no streams"),
    ],
)
def test_options_that_a_protocol_lacks_are_refused(
    api: Any, options: Any, streamed: bool, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Target.of("http://localhost:5000", options=options, streamed=streamed, api=api)


def test_a_gateway_has_no_grpc() -> None:
    with pytest.raises(ValueError, match="the protocol own is for http:// and https://"):
        Target.of("grpc://localhost:8001", api="own")
