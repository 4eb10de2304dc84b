"""Requests of browser extensions, recorded, against the real gateway and engine."""

from __future__ import annotations

from urllib.parse import urlencode

from tests.gateways import RunningGateway

ENGLISH, GERMAN = "Good morning. How are you?", "Guten Morgen. Wie geht es dir?"


def test_a_page_in_several_languages(gateway: RunningGateway) -> None:
    texts = [ENGLISH, "Guten Tag, meine Damen und Herren.", "12:30", "<b0></b0> The cat sleeps."]
    body = {"source_lang": "auto", "target_lang": "de", "text_list": texts}
    translations = gateway.post("/immersive-translate", body).json["translations"]
    assert [translation["detected_source_lang"] for translation in translations] == [
        "en",
        "de",
        "en",
        "en",
    ]
    assert [translation["text"] for translation in translations[:3]] == [GERMAN, *texts[1:3]]
    assert translations[3]["text"].startswith("<b0></b0>")
    kiss = {"texts": [ENGLISH, texts[1]], "from": "auto", "to": "de"}
    assert gateway.post("/kiss-translator", kiss).json == [
        {"text": GERMAN, "src": "en"},
        {"text": texts[1], "src": "de"},
    ]


def test_googles_texts_and_html(gateway: RunningGateway) -> None:
    fields = {"client": "gtx", "sl": "auto", "tl": "de", "dt": "t", "q": ENGLISH}
    assert gateway.get(f"/translate_a/single?{urlencode(fields)}").json[0][0][0] == GERMAN
    page = '<p class="x">I like <b>red</b> cars.</p>'
    html = urlencode({**fields, "q": page, "format": "html"})
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    ((text, source),) = gateway.post("/translate_a/t", html.encode(), headers=form).json
    assert (text, source) == ('<p class="x">Ich mag <b>rote</b> Autos.</p>', "en")
    json = [[[page], "en", "de"], "wt_lib"]
    assert gateway.post("/v1/translateHtml", json).json == [[text], ["en"]]
