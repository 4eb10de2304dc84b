"""Endpoints of `/api/v1`: responses and refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dragoman_client import DeadlineExceeded, InvalidRequest, ServerUnavailable
from dragoman_client.testing.answers import INFORMATION
from dragoman_gateway.core.errors import GatewayError
from dragoman_options.table import TRANSLATE

from tests.exchanges import Answer, multipart
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.own.described import check_described

BASE = "/api/v1"


def ask(app: Application, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """The response to a request, checked against the OpenAPI document."""
    answer = app.send(method, BASE + path, body, **headers)
    document = app.send("GET", f"{BASE}/openapi.json").json
    check_described(document, method, BASE + path, answer.status, answer.headers, answer.body)
    return answer


def error_of(answer: Answer) -> tuple[int, str, str]:
    """Status, code and message of a refusal."""
    error = answer.json["error"]
    assert answer.json["request_id"]
    return answer.status, error["code"], error["message"]


def invalid(app: Application, path: str, body: Any) -> str:
    """The message of a refusal of invalid input."""
    status, code, text = error_of(ask(app, "POST", path, body))
    assert (status, code) == (400, "invalid_input")
    return text


def test_a_text_and_several_texts_have_a_list_of_translations(app: Application) -> None:
    single = ask(app, "POST", "/translate", {"text": "Good morning."})
    assert single.json["translations"] == [
        {"text": "<GOOD MORNING.>", "finish_reason": "stop", "output_tokens": 13, "warnings": []}
    ]
    several = ask(app, "POST", "/translate", {"text": ["One.", "Two."], "target_language": "de"})
    assert [translation["text"] for translation in several.json["translations"]] == [
        "<ONE.>",
        "<TWO.>",
    ]
    assert ask(app, "POST", "/translate", {"text": []}).json["translations"] == []


def test_options_reach_the_server_and_add_to_the_answer(app: Application) -> None:
    body = {"text": "Tea.", "num_return_sequences": 3, "return_scores": True, "beam_width": 5}
    (translation,) = ask(app, "POST", "/translate", body).json["translations"]
    assert len(translation["alternatives"]) == 2
    assert "score" in translation
    assert app.requests[-1].inputs["beam_width"] == [5]


@pytest.mark.parametrize("source", ["en-GB", "auto"])
def test_answers_name_the_codes_that_stand_for_others(app: Application, source: str) -> None:
    body = {"text": "Good morning. Good night.", "target_language": "deu"}
    expected = ["deu=de"] if source == "auto" else ["en-GB=en", "deu=de"]
    for _ in range(2):  # the second answer is from the cache
        answer = ask(app, "POST", "/translate", {**body, "source_language": source})
        assert answer.json["translations"][0]["language_fallbacks"] == expected
    answer = ask(app, "POST", "/translate", {**body, "target_language": "DE"})
    assert "language_fallbacks" not in answer.json["translations"][0]


@pytest.mark.parametrize("source", [{}, {"source_language": "auto"}])
def test_a_text_may_name_its_target_language(app: Application, source: dict[str, str]) -> None:
    texts = [">>eng<< Guten Morgen. Gute Nacht.", "Good morning."]
    for _ in range(2):  # the second answer is from the cache
        answer = ask(app, "POST", "/translate", {"text": texts, **source})
        assert answer.status == 200
    sent = {
        (request.inputs["target_language"][0], text)
        for request in app.requests
        if request.model == TRANSLATE
        for text in request.inputs["text_input"]
    }
    assert {target for target, text in sent if "Nacht" in text} == {"en"}
    assert {target for target, text in sent if "Good" in text} == {"de"}


def test_alternatives_have_only_the_requested_fields(app: Application) -> None:
    body = {"text": "One answer of two.", "num_return_sequences": 2, "beam_width": 2}
    cases = ({"return_bundle": True}, "bundle"), ({"source_language": "auto"}, "detected_language")
    for options, name in cases:
        for given in (options, {}):
            (translation,) = ask(app, "POST", "/translate", {**body, **given}).json["translations"]
            for candidate in (translation, *translation["alternatives"]):
                assert (name in candidate) == bool(given)


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("html", "<p>Good <b>morning</b>.</p>", "<p>&lt;GOOD<b> MORNIN</b>G.&gt;</p>"),
        ("html", "<P CLASS=a>Yes<br>no & no", "<P CLASS=a>&lt;YE<br>S NO &amp; NO&gt;"),
        ("html", "<script>a < b</script><p>1</p>", "<script>a < b</script><p>1</p>"),
        ("html", "&lt;script&gt;", "&lt;&lt;SCRIPT&gt;&gt;"),
        ("html", "", ""),
        ("xml", "Tea <a x='1'/> now", "&lt;TE <a x='1'/> A NOW&gt;"),
        ("xml", "<a>One</a> <b>two</b>", "<a>&lt;ONE&gt;</a> <b>&lt;TWO&gt;</b>"),
        ("text", "<b>One</b>", "<<B>ONE</B>>"),
    ],
)
def test_only_the_words_of_a_text_with_tags_are_translated(
    app: Application, form: str, text: str, expected: str
) -> None:
    body = {"text": text, "format": form, "source_language": "en", "target_language": "de"}
    (translation,) = ask(app, "POST", "/translate", body).json["translations"]
    assert translation["text"] == expected
    assert translation["finish_reason"] == "stop"


def test_texts_with_tags_take_options(app: Application) -> None:
    texts = ["<p>Guten <i>Morgen</i>, meine lieben Freunde.</p>", "<p>This is a house.</p>", "<p>"]
    body = {"text": texts, "format": "html", "source_language": "auto", "beam_width": 2}
    body |= {"return_bundle": True, "glossary": {"house": "Haus"}}
    translations = ask(app, "POST", "/translate", body).json["translations"]
    assert [translation.get("detected_language") for translation in translations] == [
        "de",
        "en",
        None,
    ]
    assert translations[0]["bundle"] == "0" * 64
    assert translations[1]["text"] == "<p>&lt;THIS IS A HOUSE.&gt;</p>"
    inputs = {request.inputs["text_input"][0]: request.inputs for request in app.requests[-2:]}
    english = inputs["This is a house."]
    assert (english["source_language"], english["target_language"]) == (["en"], ["de"])
    assert (english["beam_width"], english["glossary"]) == ([2], ['{"house": "Haus"}'])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"format": "pdf"}, "format is 'pdf': give text, html or xml"),
        ({"format": 1}, "format is a whole number: give a text"),
        ({"text": ["a", "<a>\n<b></a>"]}, "text 1 is not valid markup: line 2, column 6"),
        ({"markup": {"codes": []}}, "markup: not with format xml; leave it out"),
        ({"num_return_sequences": 2}, "num_return_sequences: not with format xml"),
        ({"prefix": "a"}, "prefix: not with format xml"),
        ({"return_scores": True}, "return_scores: not with format xml"),
        ({"return_alignments": "hard"}, "return_alignments: not with format xml"),
        ({"temperature": 0.5}, "temperature: not with format xml"),
    ],
)
def test_options_that_exclude_tags_are_named(app: Application, more: Any, message: str) -> None:
    body = {"text": "<b>a</b>", "format": "xml", **more}
    assert invalid(app, "/translate", body).startswith(message)


def test_a_refused_text_with_tags_is_named_by_its_own_number() -> None:
    def refuse(text: str) -> str:
        if text == "no":
            raise InvalidRequest("text 1 is too long", "too_large", text_index=1)
        return text

    with Application(refuse) as app:
        texts = ["<p>a</p><p>b</p>", "<p>c</p>", "<p>d</p><p>e</p><p>no</p>"]
        for source in ("auto", "en"):
            body = {"text": texts, "format": "html", "source_language": source}
            error = ask(app, "POST", "/translate", body).json["error"]
            assert error["message"] == "text 0 is too long"
            assert (error["kind"], error["text_index"]) == ("too_large", 0)


def test_answers_must_not_be_cached_by_proxies(app: Application) -> None:
    assert ask(app, "POST", "/translate", {"text": "a"}).headers["cache-control"] == "no-store"


def test_a_request_can_bypass_the_cache(app: Application) -> None:
    for times in (1, 2):
        before = len(app.requests)
        ask(app, "POST", "/translate", {"text": "A text that is not kept.", "store": False})
        assert len(app.requests) == before + 1, times


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "text is missing"),
        ({"text": None}, "text is missing"),
        ({"text": 1}, "text is a whole number: give a text or a list"),
        ({"text": ["a", 1]}, "text[1] is a whole number: give a text"),
        ({"text": {"a": 1}}, "text is an object: give a text or a list"),
        ({"text": "a", "store": 1}, "store is a whole number: give true or false"),
        ({"text": "a", "glossary_ids": "x"}, "glossary_ids is a text: give a list"),
        ({"text": "a", "target_langage": "de"}, "did you mean target_language?"),
        ({"text": "a", "target": "de"}, "did you mean target_language?"),
        ({"text": "a", "source": "de"}, "did you mean source_language?"),
        ({"text": "a", "source_lang": "de"}, "did you mean source_language?"),
        ({"text": "a", "target_lang": "de"}, "did you mean target_language?"),
        ({"q": "a"}, "did you mean text?"),
        (
            {"text": "a", "x": 1},
            "unknown field 'x': give format, glossary_ids, memory_id, store, text, and the",
        ),
        ({"text": "a", "beam_width": 9}, "beam_width is 9: give 1 to 8"),
        ({"text": "a", "beam_width": "4"}, "beam_width is '4': give a whole number"),
        ({"text": "a", "beam_width": True}, "beam_width is true: give a whole number"),
        ({"text": "a", "seed": 1, "beam_width": 4}, "give beam_width 1 or none"),
        ({"text": "a", "glossary": {"a": 1}}, "glossary is {'a': 1}: give terms"),
        ({"text": "a", "glossary": "x"}, 'give an object such as {"tea": "Tee"}'),
        ({"text": "a", "return_alignments": "x"}, "give hard or soft"),
        ({"text": "a", "return_alignments": True}, "return_alignments is true: give hard or soft"),
        ({"text": "a", "prefix": [None]}, "prefix is [null]: give text"),
        ([None], "the body is [null]: send a JSON object"),
        ([], "the body is []: send a JSON object"),
        ("a", "the body is 'a': send a JSON object"),
    ],
)
def test_invalid_requests_name_the_error(app: Application, body: Any, message: str) -> None:
    assert message in invalid(app, "/translate", body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "name is missing"),
        ({"name": ""}, "name: expected a text of length >= 1"),
        ({"name": "a", "dictionaries": [{}]}, "dictionaries[0].source_language is missing"),
        ({"name": "a", "entries": {}}, "unknown field 'entries'"),
    ],
)
def test_invalid_glossaries_are_refused(app: Application, body: Any, message: str) -> None:
    assert message in invalid(app, "/glossaries", body)


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{", b'{"text": "\xff"}', b'{"text": "a"} x', b"[" * 100_000, b"\0"]
)
def test_bodies_without_valid_json_are_refused(app: Application, body: bytes) -> None:
    kind = {"content-type": "application/json"}
    answer = app.call("POST", f"{BASE}/translate", body, kind)
    assert error_of(answer)[:2] == (400, "invalid_input")


@pytest.mark.parametrize("body", [rb'{"text": "\ud800"}', rb'{"text": "\ud800a"}'])
def test_half_a_character_is_not_called_truncated(app: Application, body: bytes) -> None:
    answer = app.call("POST", f"{BASE}/translate", body, {"content-type": "application/json"})
    assert error_of(answer)[2] == r"the body is not valid JSON in UTF-8: an invalid \u escape"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_json_must_be_declared(app: Application, kind: str) -> None:
    """Otherwise a page of another origin could send JSON without a preflight request."""
    answer = app.call("POST", f"{BASE}/translate", b'{"text": "a"}', {"content-type": kind})
    status, code, message = error_of(answer)
    assert (status, code) == (415, "wrong_media_type")
    assert "send the header 'Content-Type: application/json'" in message


def test_wrong_paths_and_methods_are_refused(app: Application) -> None:
    assert error_of(app.send("GET", f"{BASE}/nothing"))[:2] == (404, "not_found")
    answer = app.send("PUT", f"{BASE}/translate")
    assert error_of(answer)[:2] == (405, "wrong_method")
    assert answer.headers["allow"] == "OPTIONS, POST"
    answer = app.send("OPTIONS", f"{BASE}/languages")
    assert (answer.status, answer.headers["allow"], answer.body) == (204, "GET, HEAD, OPTIONS", b"")


def test_head_answers_like_get(app: Application) -> None:
    assert app.send("HEAD", f"{BASE}/languages").status == 200


def test_languages_have_names_and_targets(app: Application) -> None:
    listed = ask(app, "GET", "/languages").json
    assert listed["languages"] == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": ["en"]},
    ]
    assert listed["pairs"] == ask(app, "GET", "/info").json["pairs"] == INFORMATION["pairs"]


def test_languages_are_detected(app: Application) -> None:
    texts = ["Guten Morgen, wie geht es dir?", "Good morning, how are you?"]
    detections = ask(app, "POST", "/detect", {"text": texts}).json["detections"]
    assert [detection["language"] for detection in detections] == ["de", "en"]
    assert all(0.5 < detection["probability"] <= 1 for detection in detections)
    answer = ask(app, "POST", "/detect", {"text": ["a"] * 1001})
    assert error_of(answer)[:2] == (413, "too_large")


def test_info_lists_the_features(app: Application) -> None:
    info = ask(app, "GET", "/info").json
    assert info["product"] == "dragoman"
    assert "beam_width" in [option["name"] for option in info["options"]]
    assert info["features"]["document_formats"][:3] == [".txt", ".html", ".htm"]


def test_alternatives_differ_after_a_prefix(app: Application) -> None:
    body = {"text": "Tea.", "target_language": "de", "prefix": "Ich", "count": 2}
    assert len(ask(app, "POST", "/alternatives", body).json["alternatives"]) == 2
    inputs = app.requests[-1].inputs
    assert (inputs["prefix"], inputs["return_alternatives"]) == (["Ich"], [True])
    alternatives = ask(app, "POST", "/alternatives", {**body, "count": 1}).json["alternatives"]
    assert len(alternatives) == 1
    for count, message in ((0, "count is 0: give 1 to 8"), (9, "give 1 to 8")):
        answer = ask(app, "POST", "/alternatives", {**body, "count": count})
        assert message in error_of(answer)[2]
    answer = ask(app, "POST", "/alternatives", {**body, "text": ["Tea."]})
    assert error_of(answer)[2] == "text is a list: give one text"
    answer = ask(app, "POST", "/alternatives", {"text": "a"})
    assert error_of(answer)[2] == "target_language is missing"


def test_pairs_are_scored_and_aligned(app: Application) -> None:
    pairs = {"text": ["a", "b"], "target": ["c", "d"]}
    assert len(ask(app, "POST", "/score", pairs).json["scores"]) == 2
    assert len(ask(app, "POST", "/alignments", pairs).json["alignments"]) == 2
    for wrong, message in (
        ({"text": "a", "target": ["b"]}, "two texts, or two lists"),
        ({"text": ["a"], "target": []}, "text and target have 1 and 0 elements: give a"),
        ({"text": "a"}, "target is missing"),
        ({"text": "a", "target": "b", "beam_width": 2}, "not supported by the model score"),
    ):
        assert message in error_of(ask(app, "POST", "/score", wrong))[2]


def test_a_stream_sends_events(app: Application) -> None:
    answer = ask(app, "POST", "/translate/stream", {"text": "Tea."})
    events = [line for line in answer.body.decode().split("\n\n") if line]
    assert all(event.startswith("data: {") for event in events)
    assert '"text":"<TEA.>"' in events[-1]
    assert '"finish_reason":"stop"' in events[-1]
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_stream_that_cannot_begin_is_refused(app: Application) -> None:
    for body, message in (
        ({"text": ["a"]}, "text is a list: give one text"),
        ({"text": "a", "coverage_penalty": 0.1}, "not supported in a stream"),
        ({"text": "a", "format": "html"}, "format is 'html': a stream takes text; /translate"),
    ):
        assert message in error_of(ask(app, "POST", "/translate/stream", body))[2]


def test_glossaries_are_stored(app: Application) -> None:
    direction = {"source_language": "EN", "target_language": "de_DE"}
    body = {"name": "Drinks", "dictionaries": [{**direction, "entries": {"tea": "Tee"}}]}
    made = ask(app, "POST", "/glossaries", body)
    assert made.status == 201
    path = f"/glossaries/{made.json['id']}"
    assert made.headers["location"] == BASE + path
    assert made.json["dictionaries"] == [
        {"source_language": "en", "target_language": "de", "entry_count": 1}
    ]
    assert [glossary["name"] for glossary in ask(app, "GET", "/glossaries").json["glossaries"]] == [
        "Drinks"
    ]
    assert ask(app, "PATCH", path, {"name": "Hot"}).json["name"] == "Hot"
    terms = f"{path}/dictionaries/en/de"
    assert (
        ask(app, "PATCH", terms, {"coffee": "Kaffee"}).json["dictionaries"][0]["entry_count"] == 2
    )
    assert ask(app, "GET", terms).json == {"tea": "Tee", "coffee": "Kaffee"}
    assert ask(app, "PUT", terms, {"milk": "Milch"}).json["dictionaries"][0]["entry_count"] == 1
    assert ask(app, "GET", terms, accept="text/csv").body == b"milk,Milch\n"
    tabs = ask(app, "GET", terms, accept="text/html, text/tab-separated-values;q=0.9")
    assert tabs.body == b"milk\tMilch\n"
    assert ask(app, "DELETE", terms).status == 204
    assert error_of(ask(app, "GET", terms))[:2] == (404, "not_found")
    assert ask(app, "DELETE", path).status == 204
    assert error_of(ask(app, "GET", path))[:2] == (404, "not_found")


def test_terms_are_accepted_as_csv_and_tsv(app: Application) -> None:
    path = f"/glossaries/{ask(app, 'POST', '/glossaries', {'name': 'a'}).json['id']}"
    terms = f"{BASE}{path}/dictionaries/en/de"
    for kind, body in (("text/csv", b'"tea, hot",Tee\n'), ("text/tab-separated-values", b"b\tc\n")):
        assert app.call("PATCH", terms, body, {"content-type": kind}).status == 200
    assert ask(app, "GET", f"{path}/dictionaries/en/de").json == {"tea, hot": "Tee", "b": "c"}
    answer = app.call("PUT", terms, b"tea", {"content-type": "text/csv"})
    assert error_of(answer)[1] == "invalid_input"
    assert "line 1" in error_of(answer)[2]
    answer = app.call("PUT", terms, b"tea", {"content-type": "text/plain"})
    assert error_of(answer)[:2] == (415, "wrong_media_type")
    answer = ask(app, "PUT", f"{path}/dictionaries/en/de", ["x"])
    assert error_of(answer)[2] == 'the body: not an object of terms, such as {"tea": "Tee"}'
    answer = ask(app, "PUT", f"{path}/dictionaries/en/zz", {"a": "b"})
    assert "'zz' is not supported: give" in error_of(answer)[2]
    assert ask(app, "DELETE", path).status == 204


def test_documents_are_translated(app: Application) -> None:
    sent = multipart(
        ("file", "Good morning.", "letter.txt"),
        ("target_language", "de", None),
        ("beam_width", "2", None),
    )
    made = app.call("POST", f"{BASE}/documents", *sent)
    assert made.status == 202
    path = f"/documents/{made.json['id']}"
    assert made.headers["location"] == BASE + path
    done = ask(app, "GET", f"{path}?wait_s=20").json
    assert (done["state"], done["done"], done["file_name"]) == ("done", 1.0, "letter.txt")
    assert made.json["id"] in [
        document["id"] for document in ask(app, "GET", "/documents").json["documents"]
    ]
    result = ask(app, "GET", f"{path}/result")
    assert result.body == b"<GOOD MORNING.>"
    assert result.headers["content-disposition"] == "attachment; filename*=utf-8''letter.txt"
    assert ask(app, "DELETE", path).status == 204
    assert error_of(ask(app, "GET", path))[:2] == (404, "not_found")


def test_columns_of_tables_are_translated(app: Application) -> None:
    for name, delimiter in (("a.csv", ","), ("b.TSV", "\t")):
        rows = [["id", "name", "more"], ["one", "Good morning.", "A car."], ["two", "12", "x"]]
        table = "\n".join(delimiter.join(row) for row in rows)
        sent = multipart(
            ("file", table, name), ("target_language", "de", None), ("columns", "name, more", None)
        )
        made = app.call("POST", f"{BASE}/documents", *sent)
        assert made.status == 202
        path = f"/documents/{made.json['id']}"
        assert ask(app, "GET", f"{path}?wait_s=20").json["state"] == "done"
        rows[1:] = [["one", "<GOOD MORNING.>", "<A CAR.>"], ["two", "12", "<X>"]]
        expected = "\n".join(delimiter.join(row) for row in rows)
        assert ask(app, "GET", f"{path}/result").body.decode() == expected


@pytest.mark.parametrize(
    ("parts", "status", "message"),
    [
        ([], 400, "send one file"),
        ([("file", "a", None)], 400, "send one file"),
        ([("other", "a", "a.txt")], 400, "in the field 'file'"),
        ([("file", "a", "a.pdf")], 415, "convert it to DOCX"),
        ([("file", "a", "a.exe")], 415, "'.exe'"),
        ([("file", "a", "a.docx")], 400, "is not a ZIP archive"),
        ([("file", "a,b", "a.csv")], 415, "a table needs the field columns"),
        ([("file", "a,b", "a.csv"), ("columns", "b,c", None)], 400, "there is no column 'c'"),
        ([("file", "a", "a.txt"), ("columns", "b", None)], 415, "give .csv, .tsv"),
        ([("file", "a", "a.txt"), ("titles", "x", None)], 400, "titles is 'x': give true or"),
        ([("file", "a", "a.txt"), ("beam_width", "x", None)], 400, "beam_width is 'x'"),
        ([("file", "a", "a.txt"), ("repair", "x", None)], 400, "repair is 'x': give true or"),
        ([("file", "a", "a.txt"), ("target_lang", "de", None)], 400, "did you mean target_l"),
        (
            [("file", "a", "a.txt"), ("target_language", "xx", None)],
            400,
            "into 'xx': it translates",
        ),
    ],
)
def test_invalid_documents_are_refused(
    app: Application, parts: list[tuple[str, str, str | None]], status: int, message: str
) -> None:
    answer = app.call("POST", f"{BASE}/documents", *multipart(*parts))
    assert answer.status == status
    assert message in error_of(answer)[2]


TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Tea <ph/>time</seg>'
    '</tuv><tuv xml:lang="de"><seg>Zeit <ph/>für Tee</seg></tuv></tu><tu><tuv xml:lang="en"><seg>'
    'Good morning.</seg></tuv><tuv xml:lang="de"><seg>Moin.</seg></tuv></tu></body></tmx>'
)


def test_translation_memories_are_stored_and_used(app: Application) -> None:
    body = {"name": "mine", "source_language": "en", "target_language": "de"}
    made = ask(app, "POST", "/memories", body)
    assert made.status == 201
    path = f"/memories/{made.json['id']}"
    assert made.headers["location"] == BASE + path
    changed = app.call("POST", f"{BASE}{path}/import", *multipart(("file", TMX, "a.tmx")))
    assert (changed.status, changed.json["segment_count"]) == (200, 2)
    assert ask(app, "GET", path).json["segment_count"] == 2
    assert made.json["id"] in [m["id"] for m in ask(app, "GET", "/memories").json["memories"]]
    written = app.send("GET", f"{BASE}{path}/tmx")
    assert written.headers["content-type"] == "application/x-tmx+xml"
    assert written.body.count(b"<ph") == 2
    searched = ask(app, "POST", f"{path}/search", {"text": "Good morning!"}).json["matches"]
    assert [match["target"] for match in searched] == ["Moin."]
    assert 75 <= searched[0]["similarity"] < 100
    for similarity in (0, 101):
        wrong = {"text": "a", "min_similarity": similarity}
        assert error_of(ask(app, "POST", f"{path}/search", wrong))[0] == 400

    text = {"text": ["Good morning.", "Good night."], "memory_id": made.json["id"]}
    for source in ({}, {"source_language": "en"}, {"source_language": "auto"}):
        body = {**text, **source, "target_language": "de"}
        translations = ask(app, "POST", "/translate", body).json["translations"]
        assert [one["text"] for one in translations] == ["Moin.", "<GOOD NIGHT.>"]
    refused = ask(app, "POST", "/translate", {**text, "target_language": "en"})
    assert error_of(refused)[0] == 400
    refused = ask(app, "POST", "/translate", {**text, "return_confidence": True})
    assert "return_confidence" in error_of(refused)[2]
    stream = app.send("POST", f"{BASE}/translate/stream", {**text, "text": "Good morning."})
    assert b"Moin." in stream.body

    sent_memory = ("memory_id", made.json["id"], None)
    sent = multipart(
        ("file", "Good morning.\n\nGood night.\n", "letter.txt"),
        ("target_language", "de", None),
        sent_memory,
    )
    job = app.call("POST", f"{BASE}/documents", *sent).json["id"]
    assert ask(app, "GET", f"/documents/{job}?wait_s=20").json["state"] == "done"
    result = ask(app, "GET", f"/documents/{job}/result")
    assert result.body == b"Moin.\n\n<GOOD NIGHT.>\n"

    po = 'msgid "Good mornings."\nmsgstr ""\n'
    parts = ("file", po, "a.po"), ("target_language", "de", None), sent_memory
    job = app.call("POST", f"{BASE}/documents", *multipart(*parts)).json["id"]
    assert ask(app, "GET", f"/documents/{job}?wait_s=20").json["state"] == "done"
    lines = ask(app, "GET", f"/documents/{job}/result").body.decode().splitlines()
    assert lines == [
        '#. mine, 96 %: "Good morning." = "Moin."',
        "#, fuzzy",
        'msgid "Good mornings."',
        'msgstr "<GOOD MORNINGS.>"',
    ]

    assert ask(app, "DELETE", path).status == 204
    assert error_of(ask(app, "GET", path))[:2] == (404, "not_found")
    assert error_of(ask(app, "POST", "/translate", text))[:2] == (404, "not_found")
    assert error_of(app.call("POST", f"{BASE}/documents", *sent))[:2] == (404, "not_found")


def test_texts_with_and_without_elements_are_the_context_of_each_other(app: Application) -> None:
    """A text that occurs twice has the translation that it has beside the same text."""
    old, other = "An <hi>old</hi> file", "A <hi>new</hi> file"
    segments = ((old, old), ("Open", "Auf"), (other, other), ("Open", "Offen"))
    units = "".join(
        f'<tu><tuv xml:lang="en"><seg>{source}</seg></tuv><tuv xml:lang="de"><seg>{target}</seg>'
        "</tuv></tu>"
        for source, target in segments
    )
    content = f'<tmx version="1.4"><header srclang="en"/><body>{units}</body></tmx>'
    body = {"name": "mine", "source_language": "en", "target_language": "de"}
    memory = ask(app, "POST", "/memories", body).json["id"]
    app.call("POST", f"{BASE}/memories/{memory}/import", *multipart(("file", content, "a.tmx")))
    text = f"<p>{other}</p><p>Open</p><p>{old}</p><p>Open</p>".replace("hi>", "b>")
    for languages in ({}, {"source_language": "auto", "target_language": "de"}):
        body = {"text": text, "format": "html", "memory_id": memory, **languages}
        (translation,) = ask(app, "POST", "/translate", body).json["translations"]
        assert re.findall("<p>(\\w+)</p>", translation["text"]) == ["Offen", "Auf"]


def test_files_that_are_no_memory_are_refused(app: Application) -> None:
    body = {"name": "mine", "source_language": "en", "target_language": "de"}
    path = f"{BASE}/memories/{ask(app, 'POST', '/memories', body).json['id']}/import"
    for content, message in (
        ("<tmx", "line 1"),
        ("Good morning.", "line 1"),
        (TMX.replace('"de"', '"fr"'), "no translations from en to de"),
        ('<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]><tmx/>', "in another file"),
    ):
        status, _, text = error_of(app.call("POST", path, *multipart(("file", content, "a.tmx"))))
        assert (status, message in text) == (400, True), text
    for parts in ((), (("file", "a", None),), (("file", TMX, "a.tmx"), ("more", "b", None))):
        assert error_of(app.call("POST", path, *multipart(*parts)))[0] == 400
    assert error_of(app.send("POST", path, {}))[0] == 415
    body["target_language"] = "xx"
    assert error_of(ask(app, "POST", "/memories", body))[0] == 400


@pytest.mark.parametrize("seconds", ["x", "-1", "61", "nan", "inf"])
def test_the_time_to_wait_is_limited(app: Application, seconds: str) -> None:
    answer = ask(app, "GET", f"/documents/{'0' * 32}?wait_s={seconds}")
    assert "wait_s is" in error_of(answer)[2]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ServerUnavailable("busy", 2.1), 503, "unavailable"),
        (DeadlineExceeded("late"), 504, "deadline_exceeded"),
    ],
)
def test_errors_of_the_server_have_their_codes(
    app: Application, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    from dragoman_gateway.core.errors import of_client

    async def fail(*_: Any, **__: Any) -> Any:
        raise of_client(error)  # type: ignore[arg-type]

    monkeypatch.setattr(app.gateway.translations, "translate", fail)
    answer = ask(app, "POST", "/translate", {"text": "a"})
    assert error_of(answer)[:2] == (status, code)
    assert answer.headers.get("retry-after") == ("3" if status == 503 else None)
    assert answer.json["error"].get("retry_after_s") == (3 if status == 503 else None)


def test_errors_do_not_reveal_the_address_of_the_server() -> None:
    with Application(timeout_s=5) as away:
        away._server.close()
        answers = [
            ask(away, "GET", "/info"),
            ask(away, "POST", "/translate", {"text": "a"}),
            ask(away, "POST", "/translate/stream", {"text": "a"}),
            ask(away, "POST", "/score", {"text": "a", "target": "b"}),
        ]
    assert {error_of(answer) for answer in answers} == {
        (503, "unavailable", "no translation server is available: try again soon")
    }


def test_an_internal_error_does_not_reveal_the_text(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a secret text")

    monkeypatch.setattr(app.gateway.translations, "translate", fail)
    answer = ask(app, "POST", "/translate", {"text": "a"})
    assert error_of(answer)[:2] == (500, "internal")
    assert b"secret" not in answer.body


def test_every_error_has_its_own_code() -> None:
    kinds = GatewayError.__subclasses__()
    assert len({kind.code for kind in kinds}) == len(kinds)
