"""Requests of browser extensions, after their code, with a stand-in that answers `<TEXT>`."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application

ENGLISH = "Good morning, my friend."
UPPER = f"<{ENGLISH.upper()}>"
PAGE = '<a href="x">Good</a> morning, my friend.'
PROTOBUF = {"content-type": "application/json+protobuf"}


def google(app: Application, path: str, *texts: str, by: str = "GET", **more: Any) -> Answer:
    """A request as to Google: languages in the query, and the texts there or in a form."""
    fields = {"client": "gtx", "sl": "auto", "tl": "de", "dt": "t", **more}
    q = [("q", text) for text in texts]
    if by == "GET":
        return app.call("GET", f"/translate_a/{path}?{urlencode([*fields.items(), *q])}")
    return app.form(f"/translate_a/{path}?{urlencode(fields)}", q)


def test_immersive_translate(app: Application) -> None:
    body = {"source_lang": "auto", "target_lang": "de", "text_list": [ENGLISH, "12:30"]}
    assert app.post("/immersive-translate", body).json == {
        "translations": [
            {"detected_source_lang": "en", "text": UPPER},
            {"detected_source_lang": "en", "text": "<12:30>"},
        ]
    }
    named = app.post("/immersive-translate", {**body, "source_lang": "en-US", "text_list": ["a"]})
    assert named.json["translations"] == [{"detected_source_lang": "en", "text": "<A>"}]


def test_kiss_translator(app: Application) -> None:
    body = {"texts": [ENGLISH, "a"], "from": "en", "to": "de"}
    translations = app.post("/kiss-translator", body).json
    assert translations == [{"text": UPPER, "src": "en"}, {"text": "<A>", "src": "en"}]
    single = app.post("/kiss-translator", {"text": ENGLISH, "from": "auto", "to": "de"})
    assert single.json == {"text": UPPER, "from": "en", "to": "de"}
    for name in ("text", "texts"):
        assert app.post("/kiss-translator", {name: [], "from": "en", "to": "de"}).json == []


@pytest.mark.parametrize("by", ["GET", "POST"])
def test_googles_single(app: Application, by: str) -> None:
    assert google(app, "single", ENGLISH, by=by).json == [[[UPPER, ENGLISH]], None, "en"]
    answer = google(app, "single", ENGLISH, by=by, dj="1").json
    assert answer == {"sentences": [{"trans": UPPER, "orig": ENGLISH}], "src": "en"}
    with_header = app.call(
        "GET", f"/translate_a/single?{urlencode({'q': 'a', 'tl': 'de', 'sl': 'en'})}", b"", PROTOBUF
    )
    assert with_header.json == [[["<A>", "a"]], None, "en"]


@pytest.mark.parametrize("by", ["GET", "POST"])
def test_googles_t(app: Application, by: str) -> None:
    assert google(app, "t", ENGLISH, by=by).json == [[UPPER, "en"]]
    assert google(app, "t", "a", "b", by=by, sl="en").json == ["<A>", "<B>"]
    (marked,) = google(app, "t", PAGE, by=by, sl="en", format="html").json
    assert marked.count('<a href="x">') == marked.count("</a>") == 1


def test_googles_html(app: Application) -> None:
    body = b'[[["Good morning.", "<i>Good morning, my friend.</i>"],"auto","de"],"wt_lib"]'
    texts, sources = app.call("POST", "/v1/translateHtml", body, PROTOBUF).json
    assert texts == ["&lt;GOOD MORNING.&gt;", f"<i>&lt;{ENGLISH.upper()}&gt;</i>"]
    assert sources == ["en", "en"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/immersive-translate", {}),
        ("/immersive-translate", {"text_list": [3], "target_lang": "de"}),
        ("/immersive-translate", {"text_list": ["a"]}),
        ("/immersive-translate", {"text_list": ["a"], "target_lang": "xx"}),
        ("/kiss-translator", {"texts": ["a"], "from": "xx", "to": "de"}),
        ("/kiss-translator", {"texts": {}, "to": "de"}),
        ("/translate_a/single", {"tl": "de"}),
        ("/translate_a/t", {"q": "a", "tl": "de", "format": "pdf"}),
        ("/v1/translateHtml", {}),
        ("/v1/translateHtml", [[["a"], "en"], "wt_lib"]),
        ("/v1/translateHtml", [[["a"], "en", "xx"], "wt_lib"]),
        ("/translate_a/l", {}),
    ],
)
def test_wrong_requests_have_googles_errors(app: Application, path: str, body: Any) -> None:
    answer = app.post(path, body)
    assert answer.status in (400, 404)
    (error,) = answer.json.values()
    assert error.keys() == {"code", "message", "status"}
    assert (error["code"], error["message"].count("\n")) == (answer.status, 0)


def test_an_extensions_origin_may_call(app: Application) -> None:
    body = {"text_list": ["a"], "target_lang": "de", "source_lang": "en"}
    foreign = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    for origin, status in (("moz-extension://8f1c", 200), ("https://evil.example", 403)):
        answer = app.post("/immersive-translate", body, origin=origin, **foreign)
        assert answer.status == status
    query = urlencode({"q": "a", "tl": "de"})
    read = app.call("GET", f"/translate_a/t?{query}", b"", {**foreign, "sec-fetch-mode": "no-cors"})
    assert read.status == 403


@pytest.mark.parametrize("place", ["bearer", "google", "query"])
def test_the_key_is_in_a_header_or_the_query(place: str) -> None:
    headers = {"bearer": {"authorization": "Bearer k"}, "google": {"x-goog-api-key": "k"}}
    path = "/immersive-translate" + ("?key=k" if place == "query" else "")
    body = {"text_list": ["a"], "target_lang": "de", "source_lang": "en"}
    with Application(address="192.0.2.1", allowed_hosts=("localhost",)) as app:
        assert app.post("/immersive-translate", body).status == 401
        assert app.post(path, body, **headers.get(place, {})).status == 403
