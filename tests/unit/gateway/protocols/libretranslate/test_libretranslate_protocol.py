"""LibreTranslate's formats, codes and errors, with a stand-in that answers `<TEXT>`."""

from __future__ import annotations

from typing import Any

import pytest
from dragoman_gateway.core import errors
from dragoman_gateway.core.caller import Limits
from openapi_spec_validator import validate

from tests.exchanges import multipart
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.callers import nobody, one_key

DIRECTION = {"source": "en", "target": "de"}
ENGLISH, GERMAN = "Good morning, my friend.", "Guten Morgen, mein Freund."
FRENCH = "Bonjour mes amis, comment allez-vous aujourd'hui ?"


def test_a_text_has_one_translation_and_a_list_has_a_list(app: Application) -> None:
    single = app.post("/translate", {"q": ENGLISH, **DIRECTION})
    assert (single.status, single.json) == (200, {"translatedText": f"<{ENGLISH.upper()}>"})
    several = app.post("/translate", {"q": [ENGLISH, "a"], **DIRECTION})
    assert several.json == {"translatedText": [f"<{ENGLISH.upper()}>", "<A>"]}
    assert app.post("/translate", {"q": ["a"], **DIRECTION}).json == {"translatedText": ["<A>"]}


def test_a_form_and_the_query_are_read_like_json(app: Application) -> None:
    expected = {"translatedText": "<A B>"}
    assert app.form("/translate", {"q": "a b", **DIRECTION}).json == expected
    assert app.call("POST", "/translate?q=a%20b&source=en&target=de").json == expected
    assert app.form("/translate?source=en&target=de", {"q": "a b"}).json == expected
    assert app.post("/translate?source=en&target=de", {"q": "a b"}).json == expected
    path = "/translate?source=en&target=de"
    assert app.call("POST", path, *multipart(("q", "a b", None))).json == expected


def test_line_breaks_in_browser_forms_are_treated_as_in_json(app: Application) -> None:
    answer = app.form("/translate", {"q": "a\r\nb", **DIRECTION})
    assert answer.json == {"translatedText": "<A>\n<B>"}


def test_auto_detects_each_text_and_returns_those_in_the_target_language(app: Application) -> None:
    answer = app.post(
        "/translate", {"q": [ENGLISH, GERMAN, "12:30"], "source": "auto", "target": "de"}
    ).json
    assert answer["translatedText"] == [f"<{ENGLISH.upper()}>", GERMAN, "12:30"]
    english, german, number = answer["detectedLanguage"]
    assert (english["language"], german["language"]) == ("en", "de")
    assert 50 < english["confidence"] <= 100
    assert number == {"confidence": 0.0, "language": "en"}
    alone = app.post("/translate", {"q": ENGLISH, "source": "auto", "target": "de"}).json
    assert alone["detectedLanguage"] == english
    assert "detectedLanguage" not in app.post("/translate", {"q": ENGLISH, **DIRECTION}).json


def test_auto_refuses_a_language_that_is_not_served(app: Application) -> None:
    answer = app.post("/translate", {"q": FRENCH, "source": "auto", "target": "de"})
    assert answer.status == 400
    assert answer.json["error"] == (
        "Invalid request: text 0 seems to be in 'fr', which is not translated into de (from: en); "
        "if this is wrong, give source"
    )


def test_equal_languages_return_the_text(app: Application) -> None:
    answer = app.post("/translate", {"q": "a", "source": "de", "target": "DE"})
    assert answer.json == {"translatedText": "a"}


@pytest.mark.parametrize("source", ["EN", "en-US", "en_GB"])
def test_codes_are_accepted_in_any_spelling(app: Application, source: str) -> None:
    assert app.post("/translate", {"q": "a", "source": source, "target": "de"}).status == 200


def test_alternatives_are_searched_for_by_sentence(app: Application) -> None:
    body = {"q": f"{ENGLISH} How are you?\n\n- 12", **DIRECTION, "alternatives": 3}
    of_zotero = {"format": "text", "api_key": ""}
    answer = app.post("/translate", body | of_zotero).json
    assert answer["translatedText"] == f"<{ENGLISH.upper()}> <HOW ARE YOU?>\n\n- <12>"
    assert answer["alternatives"] == []  # the stand-in knows one translation
    inputs = app.requests[-1].inputs
    assert inputs["num_return_sequences"] == [4]
    assert inputs["text_input"] == [ENGLISH, "How are you?", "12"]


def test_alternatives_in_a_form_are_a_number_as_text(app: Application) -> None:
    answer = app.form("/translate", {"q": "a", **DIRECTION, "alternatives": "0"}).json
    assert "alternatives" not in answer
    assert (
        app.form("/translate", {"q": "a", **DIRECTION, "alternatives": "2"}).json["alternatives"]
        == []
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": "a", "target": "de"}, "Invalid request: missing source parameter"),
        ({"q": "a", "source": "en"}, "Invalid request: missing target parameter"),
        ({"q": "a", "source": "zz", "target": "de"}, "zz is not supported"),
        ({"q": "a", "source": "en", "target": "auto"}, "auto is not supported"),
        ({"q": "a", **DIRECTION, "alternatives": 8}, "alternatives parameter must be <= 7"),
        ({"q": "a", **DIRECTION, "alternatives": "x"}, "give a whole number, not 'x'"),
        ({"q": "a", **DIRECTION, "format": "pdf"}, "pdf format is not supported"),
        ({"q": "<b>a</b>", **DIRECTION, "format": "md"}, "md format is not supported"),
        ({"q": {"a": 1}, **DIRECTION}, "q: give a text or a list of texts, not an object"),
        ({"q": ["a", 1], **DIRECTION}, "q: give a text or a list of texts, not a number"),
        ({"q": "a", "source": ["en"], "target": "de"}, "a language is a text"),
        ({"q": "a", **DIRECTION, "api_key": 5}, "api_key: give a text, not a number"),
    ],
)
def test_invalid_requests_name_the_error(
    app: Application, body: dict[str, Any], message: str
) -> None:
    answer = app.post("/translate", body)
    assert answer.status == 400
    assert list(answer.json) == ["error"]
    assert message in answer.json["error"]


def test_deeplx_requests_are_recognized_by_their_field(app: Application) -> None:
    body = {"text": "a b", "source_lang": "EN", "target_lang": "DE"}
    assert app.post("/translate", body).json == {
        "code": 200,
        "data": "<A B>",
        "source_lang": "EN",
        "target_lang": "DE",
    }
    detected = app.post("/translate", {"text": ENGLISH, "source_lang": "auto", "target_lang": "DE"})
    assert detected.json["source_lang"] == "EN"
    wrong = app.post("/translate", {"text": "a", "target_lang": "ZZ"})
    assert (wrong.status, wrong.json) == (400, {"code": 400, "message": "ZZ is not supported"})


def test_a_language_is_detected(app: Application) -> None:
    (detection,) = app.form("/detect", {"q": GERMAN}).json
    assert detection["language"] == "de"
    assert 50 < detection["confidence"] <= 100
    (other,) = app.post("/detect", {"q": FRENCH}).json  # the most similar served language
    assert other["language"] in ("en", "de")
    assert other["confidence"] < 50
    assert app.post("/detect", {"q": "12"}).json == [{"confidence": 0.0, "language": "en"}]
    assert app.post("/detect", {}).json == {"error": "Invalid request: missing q parameter"}


def test_languages_have_their_targets_and_need_no_field(app: Application) -> None:
    expected = [
        {"code": "en", "name": "English", "targets": ["de", "en"]},
        {"code": "de", "name": "German", "targets": ["de", "en"]},
    ]
    assert app.call("GET", "/languages").json == expected
    assert app.form("/languages", {"api_key": "k"}, method="GET").json == expected
    wrong = app.call("POST", "/languages")
    assert wrong.status == 405
    assert wrong.headers["allow"] == "GET"
    assert list(wrong.json) == ["error"]


def test_pages_get_their_settings(app: Application) -> None:
    settings = app.call("GET", "/frontend/settings").json
    assert settings["charLimit"] == -1
    assert settings["keyRequired"] is False
    assert settings["supportedFilesFormat"][0] == ".txt"
    assert settings["language"]["source"] == {"code": "auto", "name": "Auto Detect"}


def test_pages_can_see_that_a_key_is_required() -> None:
    with Application(address="192.0.2.1") as app:
        settings = app.call("GET", "/frontend/settings").json
        assert (settings["apiKeys"], settings["keyRequired"]) == (True, True)
    with Application(address="192.0.2.1", anonymous=True) as app:
        settings = app.call("GET", "/frontend/settings").json
        assert (settings["apiKeys"], settings["keyRequired"]) == (True, False)


def test_suggestions_are_refused(app: Application) -> None:
    answer = app.post("/suggest", {"q": "a", "s": "b", **DIRECTION})
    assert answer.status == 403
    assert answer.json == {"error": "Suggestions are disabled on this server."}


def test_health(app: Application) -> None:
    assert app.call("GET", "/health").json == {"status": "ok"}


def test_the_specification_is_valid_and_has_no_foreign_title() -> None:
    with Application() as app:
        document = app.call("GET", "/spec").json
        validate(document)
        assert document["info"]["title"] == "Dragoman"
    with Application(libretranslate_title=True) as app:
        assert app.call("GET", "/spec").json["info"]["title"] == "LibreTranslate"


def test_the_specification_has_every_endpoint(app: Application) -> None:
    from dragoman_gateway.protocols.libretranslate.libretranslate_protocol import (
        LibreTranslateProtocol,
    )

    paths = app.call("GET", "/spec").json["paths"]
    described = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    endpoints = LibreTranslateProtocol(app.gateway).endpoints
    assert described == {(endpoint.method, endpoint.path) for endpoint in endpoints}


def test_keys_are_accepted_in_the_body_the_query_or_as_a_token(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = one_key(Limits(characters_per_request=5))
    monkeypatch.setattr(app.gateway.access, "caller", caller)
    body = {"q": "a", **DIRECTION}
    assert app.post("/translate", body | {"api_key": "right"}).status == 200
    assert app.form("/translate", body | {"api_key": "right"}).status == 200
    assert app.post("/translate?api_key=right", body).status == 200
    assert app.post("/translate", body, authorization="Bearer right").status == 200
    for missing in (body, body | {"api_key": ""}):
        answer = app.post("/translate", missing)
        assert answer.status == 400
        assert answer.json == {"error": "Please contact the server operator to get an API key"}
    wrong = app.post("/translate", body | {"api_key": "wrong"})
    assert wrong.status == 403
    assert wrong.json["error"].startswith("Invalid API key")
    assert app.post("/detect", {"q": "a"}).status == 400
    assert app.call("GET", "/languages").status == 200
    longer = app.post("/translate", body | {"api_key": "right", "q": "123456"})
    assert longer.json == {"error": "Invalid request: request (6) exceeds text limit (5)"}


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (errors.TooManyRequests("30 requests a minute", 7), 429, "Slowdown: 30 requests a minute"),
        (errors.QuotaUsedUp("5 characters a month"), 403, "5 characters a month"),
        (errors.Unavailable("no server", 7), 503, "no server"),
    ],
)
def test_limits_have_the_statuses_that_clients_read(
    app: Application,
    monkeypatch: pytest.MonkeyPatch,
    error: errors.GatewayError,
    status: int,
    message: str,
) -> None:
    monkeypatch.setattr(app.gateway.access, "caller", nobody(error))
    answer = app.post("/translate", {"q": "a", **DIRECTION})
    assert (answer.status, answer.json) == (status, {"error": message})
    assert answer.headers.get("retry-after") == ("7" if error.retry_after_s else None)
