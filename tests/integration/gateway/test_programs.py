"""Requests in the form that programs send them, and invalid ones, with real gateway and server.

Sources: https://github.com/windingwind/zotero-pdf-translate, https://github.com/WeblateOrg/weblate,
https://github.com/mastodon/mastodon, https://github.com/discourse/discourse-translator
"""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from tests.gateways import RunningGateway

_ENGLISH, _GERMAN = "Good morning. How are you?", "Guten Morgen. Wie geht es dir?"
_DIRECTION = {"source": "en", "target": "de"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_KEY = {"Authorization": "DeepL-Auth-Key 00000000-0000-0000-0000-000000000000"}


def test_weblate_through_deepl(gateway: RunningGateway) -> None:
    for kind in ("source", "target"):
        path = f"/v2/languages?type={kind}&enable_beta_languages=true"
        languages = gateway.get(path, headers=_KEY).json
        assert "DE" in {language["language"] for language in languages}
    body = {
        "text": ['Hello <x id="7"></x>, I like red cars.', "A &lt;b&gt; house."],
        "source_lang": "EN",
        "target_lang": "DE",
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
    }
    answer = gateway.post("/v2/translate", body, headers=_KEY)
    assert answer.status == 200
    first, second = [translation["text"] for translation in answer.json["translations"]]
    assert first.count('<x id="7"></x>') == 1
    assert "rote Autos" in first
    assert "<" not in second.replace("&lt;", "")
    wrong = gateway.post("/v2/translate", body | {"text": ["a <b> c"]}, headers=_KEY)
    assert wrong.status == 400
    assert wrong.json["message"].startswith("text 0 is not valid markup: line 1, column")


def test_mastodon(gateway: RunningGateway) -> None:
    assert all("targets" in language for language in gateway.get("/languages").json)
    begin = '<a href="https://example.com/?a=1&amp;b=2">'
    post = f"<p>I like {begin}red cars</a>.<br />Good morning!</p>"
    body = {"q": [post, "<p>A house.</p>", "<p></p>"], "source": "auto", "target": "de"}
    answer = gateway.post("/translate", body | {"format": "html", "api_key": None})
    assert answer.status == 200
    texts = answer.json["translatedText"]
    assert texts[0] == f"<p>Ich mag {begin}rote Autos</a>.<br />Guten Morgen!</p>"
    assert texts[2] == "<p></p>"
    assert [detected["language"] for detected in answer.json["detectedLanguage"]][:2] == [
        "en",
        "en",
    ]


def test_discourse(gateway: RunningGateway) -> None:
    text = "<p>Guten Morgen, meine <strong>Freunde</strong>.</p>"
    detected = gateway.post("/detect", urlencode({"q": text}).encode(), headers=_FORM).json
    assert detected[0]["language"] == "de"
    text += "<pre><code>a &lt; b</code></pre>"
    fields = {"q": text, "source": "de", "target": "en", "format": "html"}
    answer = gateway.post("/translate", urlencode(fields).encode(), headers=_FORM)
    translated = answer.json["translatedText"]
    assert "<strong>friends</strong>" in translated
    assert translated.endswith("<pre><code>a &lt; b</code></pre>")


def test_escaped_text_stays_escaped(gateway: RunningGateway) -> None:
    """LibreTranslate's own server turns escaped text into tags."""
    body = {"q": "<p>Write &lt;script&gt;alert(1)&lt;/script&gt; here.</p>", "format": "html"}
    translated = gateway.post("/translate", {**body, **_DIRECTION}).json["translatedText"]
    assert "<script" not in translated
    assert "&lt;script&gt;" in translated


@pytest.mark.parametrize("split", ["1", "nonewlines", "0"])
def test_a_text_too_long_for_a_sentence_is_translated(gateway: RunningGateway, split: str) -> None:
    text = " ".join([_ENGLISH] * 60)
    body = {"text": [text], "source_lang": "EN", "target_lang": "DE", "split_sentences": split}
    (translation,) = gateway.post("/v2/translate", body, headers=_KEY).json["translations"]
    assert translation["text"] == " ".join([_GERMAN] * 60)
