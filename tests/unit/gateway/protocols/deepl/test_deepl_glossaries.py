"""Glossaries of both API versions in one store."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.deepl.test_deepl_protocol import checked, translate

ENTRIES = {"source_lang": "en", "target_lang": "de", "entries": "tea\tTee", "entries_format": "tsv"}
FAST = "latency_optimized"
UNKNOWN = "00000000-0000-0000-0000-000000000000"


def single(app: Application, **fields: Any) -> Any:
    """A new glossary of the second version."""
    answer = checked(app, "POST", "/v2/glossaries", {"name": "a", **ENTRIES} | fields)
    assert answer.status == 201
    return answer.json


def test_a_glossary_of_one_direction(app: Application) -> None:
    made = single(
        app, source_lang="EN", target_lang="DE", entries="tea,Tee\ncup,Tasse", entries_format="csv"
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", made["creation_time"])
    assert made["ready"] is True
    assert (made["source_lang"], made["target_lang"], made["entry_count"]) == ("en", "de", 2)
    path = f"/v2/glossaries/{made['glossary_id']}"
    assert checked(app, "GET", path).json == made
    assert made in checked(app, "GET", "/v2/glossaries").json["glossaries"]
    entries = checked(app, "GET", f"{path}/entries", accept="text/tab-separated-values")
    assert entries.body == b"tea\tTee\ncup\tTasse"
    assert checked(app, "GET", f"{path}/entries", accept="application/json").status == 415
    assert checked(app, "DELETE", path).status == 204
    assert checked(app, "GET", path).status == 404


def test_a_glossary_of_several_directions(app: Application) -> None:
    other = ENTRIES | {"source_lang": "de", "target_lang": "en", "entries": "Tee\ttea"}
    body = {"name": "b", "dictionaries": [ENTRIES, other]}
    made = checked(app, "POST", "/v3/glossaries", body).json
    path = f"/v3/glossaries/{made['glossary_id']}"
    assert {dictionary["source_lang"] for dictionary in made["dictionaries"]} == {"en", "de"}
    assert checked(app, "GET", path).json == made
    assert made in checked(app, "GET", "/v3/glossaries").json["glossaries"]
    assert checked(app, "GET", f"/v2/glossaries/{made['glossary_id']}").status == 404
    assert made["glossary_id"] not in str(checked(app, "GET", "/v2/glossaries").json)

    renamed = checked(app, "PATCH", path, {"name": "c"}).json
    assert renamed["name"] == "c"
    more = ENTRIES | {"entries": "cup\tTasse"}
    merged = checked(app, "PATCH", path, {"dictionaries": [more]}).json
    assert {"source_lang": "en", "target_lang": "de", "entry_count": 2} in merged["dictionaries"]
    query = "?source_lang=EN&target_lang=DE"
    (dictionary,) = checked(app, "GET", f"{path}/entries{query}").json["dictionaries"]
    assert dictionary["entries"] == "tea\tTee\ncup\tTasse"
    replaced = checked(app, "PUT", f"{path}/dictionaries", more).json
    assert replaced == {"source_lang": "en", "target_lang": "de", "entry_count": 1}
    assert checked(app, "DELETE", f"{path}/dictionaries{query}").status == 204
    assert checked(app, "GET", f"{path}/entries{query}").status == 404
    assert checked(app, "DELETE", path).status == 204
    assert checked(app, "DELETE", path).status == 404


def test_forms_have_dictionaries_with_dots(app: Application) -> None:
    form = {f"dictionaries[0].{name}": value for name, value in ENTRIES.items()} | {"name": "d"}
    made = app.form("/v3/glossaries", form)
    assert made.status == 201
    assert made.json["dictionaries"][0]["entry_count"] == 1


def test_terms_of_glossaries_are_used(app: Application) -> None:
    first, second = single(app), single(app, entries="tea\tKamillentee\ncup\tBecher")
    both = [first["glossary_id"], second["glossary_id"]]
    translate(app, text=["Some tea in a cup, please."], glossary_ids=both)
    assert app.requests[-1].inputs["glossary"] == ['{"tea": "Tee", "cup": "Becher"}']
    form = {"text": "Green tea.", "source_lang": "EN", "target_lang": "DE"}
    app.form("/v2/translate", form | {"glossary_ids": ",".join(both)})
    assert app.requests[-1].inputs["glossary"] == ['{"tea": "Tee"}']
    translate(
        app,
        text=["This text in English has tea.", "Dieser Text ist auf Deutsch."],
        source_lang=None,
        glossary_id=first["glossary_id"],
    )
    assert app.requests[-1].inputs["glossary"] == ['{"tea": "Tee"}']


def test_the_last_entry_of_a_large_glossary_is_used(app: Application) -> None:
    others = "".join(f"part {number}\tTeil {number}\n" for number in range(11_999))
    glossary = single(app, entries=f"{others}tea\tTee")
    assert glossary["entry_count"] == 12_000
    translate(app, text=["Black tea."], glossary_id=glossary["glossary_id"])
    assert app.requests[-1].inputs["glossary"] == ['{"tea": "Tee"}']


def test_a_glossary_can_be_used_with_the_fast_model(app: Application) -> None:
    glossary = single(app)["glossary_id"]
    (translation,) = translate(
        app, text=["Red tea."], glossary_id=glossary, model_type="latency_optimized"
    )
    assert translation["model_type_used"] == FAST
    assert app.requests[-1].inputs["beam_width"] == [1]
    assert "glossary" in app.requests[-1].inputs


def test_a_glossary_that_does_not_fit_is_refused(app: Application) -> None:
    glossary = single(app)["glossary_id"]
    body = {"text": ["Tee"], "source_lang": "DE", "target_lang": "EN-GB"}
    wrong = checked(app, "POST", "/v2/translate", body | {"glossary_id": glossary})
    assert wrong.status == 400
    assert "no dictionary from de into en" in wrong.json["message"]
    assert checked(app, "POST", "/v2/translate", body | {"glossary_id": UNKNOWN}).status == 404


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": None}, "Parameter 'name' not specified."),
        ({"entries": None}, "Parameter 'entries' not specified."),
        ({"entries": "tea"}, "Invalid glossary entries provided: line 1"),
        ({"entries": "a\tb\na\tc"}, "Invalid glossary entries provided"),
        ({"entries": "\n"}, "Invalid glossary entries provided: there are none"),
        ({"entries": 5}, "entries: give a text, not a number"),
        ({"entries_format": "json"}, "Value for 'entries_format' not supported."),
        ({"source_lang": "ZZ"}, "Value for 'source_lang' not supported."),
    ],
)
def test_invalid_requests_name_the_error(
    app: Application, fields: dict[str, Any], message: str
) -> None:
    answer = checked(app, "POST", "/v2/glossaries", {"name": "a", **ENTRIES} | fields)
    assert answer.status == 400
    assert message in answer.json["message"]
    if "name" not in fields:
        body = {"name": "a", "dictionaries": [ENTRIES | fields]}
        assert message in checked(app, "POST", "/v3/glossaries", body).json["message"]


@pytest.mark.parametrize("dictionaries", [None, [], "a", [1], {"a": 1}])
def test_dictionaries_are_a_list_of_objects(app: Application, dictionaries: Any) -> None:
    body = {"name": "a", "dictionaries": dictionaries}
    assert checked(app, "POST", "/v3/glossaries", body).status == 400
