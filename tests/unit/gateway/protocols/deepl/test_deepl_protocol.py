"""DeepL's formats, codes and errors, with a stand-in that answers `<TEXT>`."""

from __future__ import annotations

from typing import Any

import pytest
from dragoman_gateway.core import errors

from tests.deepl_openapi import document, faults
from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.callers import nobody, one_key

ENGLISH, GERMAN = "Good morning, my friend.", "Guten Morgen, mein Freund."
DIRECTION = {"source_lang": "EN", "target_lang": "DE"}
OLDER_CALLS = {("GET", "/v2/translate"), ("POST", "/v2/languages"), ("POST", "/v2/usage")}
"""What only DeepL's older clients send; its document lacks them."""


def is_recorded(method: str, path: str) -> bool:
    """Whether the recorded part of DeepL's document has a call; it lacks those of memories."""
    return (method, path) not in OLDER_CALLS and "/translation_memories" not in path


def checked(app: Application, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """Send JSON, and check the response against DeepL's document."""
    answer = app.send(method, path, body, **headers)
    bare = path.partition("?")[0]
    assert faults(method, bare, answer.status, answer.media_type, answer.body) == []
    assert answer.headers["x-trace-id"]
    return answer


def translate(app: Application, **fields: Any) -> Any:
    """The translations of a successful request."""
    answer = checked(app, "POST", "/v2/translate", DIRECTION | fields)
    assert answer.status == 200, answer.body
    return answer.json["translations"]


def refused(app: Application, status: int = 400, **fields: Any) -> str:
    """The message of a refused request."""
    answer = checked(app, "POST", "/v2/translate", DIRECTION | {"text": ["a"]} | fields)
    assert answer.status == status
    message: str = answer.json["message"]
    return message


def test_texts_are_translated_in_their_order(app: Application) -> None:
    assert translate(app, text=["a", "b"]) == [
        {"detected_source_language": "EN", "text": "<A>"},
        {"detected_source_language": "EN", "text": "<B>"},
    ]
    assert translate(app, text="a") == translate(app, text=["a"])


def test_without_a_source_language_each_text_has_its_own(app: Application) -> None:
    texts = [ENGLISH, GERMAN]
    translations = translate(app, text=texts, source_lang=None, show_billed_characters=True)
    assert translations == [
        {
            "detected_source_language": "EN",
            "text": f"<{ENGLISH.upper()}>",
            "billed_characters": len(ENGLISH),
        },
        {
            "detected_source_language": "DE",
            "text": GERMAN,
            "billed_characters": len(GERMAN),
        },
    ]


def test_a_language_that_is_not_served_is_refused(app: Application) -> None:
    body = {"text": ["Buenos días, mi querido amigo."], "target_lang": "DE"}
    answer = app.post("/v2/translate", body)
    assert answer.status == 400
    assert answer.json["message"].endswith("into de (from: en); if this is wrong, give source_lang")


def test_forms_and_queries_are_read_like_json(app: Application) -> None:
    expected = translate(app, text=["a", "b"], show_billed_characters=True)
    form = DIRECTION | {"text": ["a", "b"], "show_billed_characters": "1"}
    for answer in (
        app.form("/v2/translate", form),
        app.call(
            "GET",
            "/v2/translate?text=a&text=b&show_billed_characters=true&source_lang=en&target_lang=de",
        ),
    ):
        assert answer.json["translations"] == expected


@pytest.mark.parametrize(("written", "code"), [("EN-GB", "en"), ("en-us", "en"), ("DE", "de")])
def test_target_codes_select_served_languages(app: Application, written: str, code: str) -> None:
    source = "DE" if code == "en" else "EN"
    translate(app, text=[f"A text in {written}."], source_lang=source, target_lang=written)
    assert app.requests[-1].inputs["target_language"] == [code]


def test_model_types_choose_the_beam(app: Application) -> None:
    for model_type, used, beam in (
        ("latency_optimized", "latency_optimized", [1]),
        ("quality_optimized", "quality_optimized", None),
        ("prefer_quality_optimized", "quality_optimized", None),
    ):
        (translation,) = translate(app, text=[f"a {model_type}"], model_type=model_type)
        assert translation["model_type_used"] == used
        assert app.requests[-1].inputs.get("beam_width") == beam


def test_sentences_are_split_as_requested(app: Application) -> None:
    (translation,) = translate(app, text=["one\ntwo"], split_sentences="1")
    assert translation["text"] == "<ONE>\n<TWO>"
    (translation,) = translate(app, text=["one two\nthree"], split_sentences="nonewlines")
    assert app.requests[-1].inputs["text_input"] == ["one two three"]
    assert translation["text"] == "<ONE TWO\nTHREE>"
    (translation,) = translate(app, text=["\n one\r\ntwo\n\n"], split_sentences="nonewlines")
    assert translation["text"] == "\n <ONE\r\nTWO>\n\n"
    (translation,) = translate(app, text=[" \n"], split_sentences="nonewlines")
    assert not translation["text"].strip()
    for written in ("0", 0, False):
        translate(app, text=[f"one {written!r}"], split_sentences=written)
        assert app.requests[-1].inputs["split_sentences"] == [False]
    assert refused(app, split_sentences="2") == "Value for 'split_sentences' not supported."


def test_line_breaks_of_xml_are_kept_as_requested(app: Application) -> None:
    def translated(text: str, **fields: Any) -> str:
        (translation,) = translate(
            app, text=[text], tag_handling="xml", ignore_tags=["x"], **fields
        )
        return str(translation["text"])

    assert translated("one\ntwo") == "<ONE>\n<TWO>".replace("<", "&lt;").replace(">", "&gt;")
    for text, sent in (
        ("one <b>two</b>\nthree", "one two\nthree"),
        ("one<br/>two", "one\u2028two"),
    ):
        translated(text)
        assert app.requests[-1].inputs["text_input"] == [sent]
    translated("one <b>two</b>\nthree", split_sentences="nonewlines")
    assert app.requests[-1].inputs["text_input"] == ["one two three"]
    assert translated("one two\nthree", split_sentences="nonewlines").count("\n") == 1
    assert translated('<?xml version="1.0"?><p>one</p>').startswith('<?xml version="1.0"?><p>')


def test_options_without_effect_are_accepted(app: Application) -> None:
    translate(
        app,
        text=["a"],
        context="about tea",
        preserve_formatting=True,
        formality="prefer_more",
        outline_detection=False,
        enable_beta_languages=True,
        tag_handling="",
        custom_instructions=[],
        ignore_tags=["x"],
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": None}, "Parameter 'text' not specified."),
        ({"text": []}, "Parameter 'text' not specified."),
        ({"text": {"a": 1}}, "text: give a text or a list of texts, not an object"),
        ({"text": ["a", None]}, "text: give a text or a list of texts, not null"),
        ({"target_lang": None}, "Parameter 'target_lang' not specified."),
        ({"target_lang": 5}, "target_lang: give a text, not a number"),
        ({"target_lang": "ZZ"}, "Value for 'target_lang' not supported."),
        ({"source_lang": "ZZ"}, "Value for 'source_lang' not supported."),
        ({"formality": "more"}, "Target language 'DE' doesn't support formality."),
        ({"formality": "rude"}, "Value for 'formality' not supported."),
        ({"tag_handling": "xml", "text": "<a>b"}, "text 0 is not valid markup: line 1, column 7"),
        ({"tag_handling_version": "v3"}, "Value for 'tag_handling_version' not supported."),
        ({"tag_handling": "md"}, "Value for 'tag_handling' not supported."),
        ({"model_type": "huge"}, "Value for 'model_type' not supported."),
        ({"style_id": "a"}, "style_id: style rules are not offered"),
        ({"translation_memory_threshold": 75}, "requires translation_memory_id"),
        (
            {"translation_memory_id": "a", "translation_memory_threshold": 101},
            "translation_memory_threshold: give 0 to 100",
        ),
        ({"custom_instructions": ["be nice"]}, "custom_instructions: a translation model does not"),
        ({"glossary_id": "a", "glossary_ids": ["b"]}, "cannot be used together"),
        ({"glossary_ids": list("abcdef")}, "give at most 5"),
        ({"show_billed_characters": "maybe"}, "show_billed_characters: give true or false"),
    ],
)
def test_unsupported_options_are_named(
    app: Application, fields: dict[str, Any], message: str
) -> None:
    assert message in refused(app, **fields)


def test_languages_as_deepl_writes_them(app: Application) -> None:
    source = [{"language": "EN", "name": "English"}, {"language": "DE", "name": "German"}]
    assert checked(app, "GET", "/v2/languages").json == source
    target = [
        {"language": "EN-GB", "name": "English (British)", "supports_formality": False},
        {"language": "EN-US", "name": "English (American)", "supports_formality": False},
        {"language": "DE", "name": "German", "supports_formality": False},
    ]
    assert checked(app, "GET", "/v2/languages?type=target").json == target
    assert app.form("/v2/languages", {"type": "target"}, method="GET").json == target
    assert checked(app, "GET", "/v2/languages?type=both").status == 400


def test_languages_of_the_third_version(app: Application) -> None:
    languages = checked(app, "GET", "/v3/languages?resource=translate_text").json
    sides = {
        language["lang"]: (language["usable_as_source"], language["usable_as_target"])
        for language in languages
    }
    assert sides == {
        "de": (True, True),
        "en": (True, False),
        "en-gb": (False, True),
        "en-us": (False, True),
    }
    languages = checked(app, "GET", "/v3/languages?resource=glossary").json
    assert {language["lang"] for language in languages} == {"de", "en"}
    assert checked(app, "GET", "/v3/languages?resource=voice").status == 400
    names = {resource["name"] for resource in checked(app, "GET", "/v3/languages/resources").json}
    assert names == {"translate_text", "translate_document", "glossary"}


def test_glossary_pairs(app: Application) -> None:
    pairs = checked(app, "GET", "/v2/glossary-language-pairs").json["supported_languages"]
    assert {"source_lang": "en", "target_lang": "de"} in pairs


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v2/write/rephrase", "Not offered here: rephrasing"),
        ("/v3/style_rules", "Not offered here: style rules"),
        ("/v2/nothing", "there is no /v2/nothing"),
    ],
)
def test_other_paths_are_refused_by_name(app: Application, path: str, message: str) -> None:
    answer = app.post(path, {})
    assert answer.status == 404
    assert message in answer.json["message"]
    assert answer.headers["x-trace-id"]


def test_usage_is_that_of_the_current_month(app: Application) -> None:
    before = checked(app, "GET", "/v2/usage").json
    assert before["character_limit"] == 1_000_000_000_000
    assert before["start_time"] < before["end_time"]
    translate(app, text=["twelve chars", ENGLISH], source_lang=None)
    after = app.form("/v2/usage", {}).json
    assert after["character_count"] == before["character_count"] + len("twelve chars" + ENGLISH)


def test_every_endpoint_is_in_the_document(app: Application) -> None:
    from dragoman_gateway.protocols.deepl.deepl_protocol import DeepLProtocol

    endpoints = DeepLProtocol(app.gateway).endpoints
    described = {
        (method.upper(), path) for path, methods in document().items() for method in methods
    }
    answered = {
        (endpoint.method, endpoint.path)
        for endpoint in endpoints
        if is_recorded(endpoint.method, endpoint.path)
    }
    assert answered == described - OLDER_CALLS


def test_keys_are_accepted_as_deepl_sends_them(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.gateway.access, "caller", one_key())
    for written in ("DeepL-Auth-Key right", "deepl-auth-key right:fx", "Bearer right"):
        assert checked(app, "GET", "/v2/languages", authorization=written).status == 200
    assert app.form("/v2/languages", {"auth_key": "right"}).status == 200
    assert app.call("GET", "/v2/languages?auth_key=right").status == 200
    for wrong in ("DeepL-Auth-Key wrong", "Basic right", ""):
        assert checked(app, "GET", "/v2/languages", authorization=wrong).status == 403


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.TooManyRequests("30 a minute", 3), 429),
        (errors.QuotaUsedUp("5 a month"), 456),
        (errors.Unavailable("no server"), 503),
    ],
)
def test_errors_have_the_statuses_that_clients_read(
    app: Application, monkeypatch: pytest.MonkeyPatch, error: errors.GatewayError, status: int
) -> None:
    monkeypatch.setattr(app.gateway.access, "caller", nobody(error))
    assert refused(app, status) == str(error)


def test_the_check_against_the_document_can_fail() -> None:
    def check(body: bytes, status: int = 200, path: str = "/v2/usage") -> list[str]:
        return faults("GET", path, status, "application/json", body)

    assert check(b'{"character_count": 1}') == []
    assert check(b'{"character_count": "1"}')
    assert check(b'{"characters": 1}')
    assert check(b'{"error": "x"}', 400)
    assert check(b'{"message": "x", "detail": ["y"]}', 400)
    assert check(b"{}", 201)
    assert check(b"{}", path="/v2/other")


def test_pages_of_other_origins_may_call_if_the_settings_allow_it(app: Application) -> None:
    asks = {
        "origin": "https://page.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    with Application(allowed_origins=("*",)) as open_app:
        preflight = open_app.call("OPTIONS", "/v2/translate", b"", asks)
        assert preflight.status in (200, 204)
        assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
        answer = open_app.call("GET", "/v2/languages", b"", asks)
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "*")
    refused = app.call("POST", "/v2/translate", b"", asks)
    assert (refused.status, list(refused.json)) == (403, ["message"])


def test_a_request_id_is_the_trace_id(app: Application) -> None:
    answer = checked(app, "GET", "/v2/languages")
    assert answer.headers["x-trace-id"] == answer.headers["x-request-id"]
