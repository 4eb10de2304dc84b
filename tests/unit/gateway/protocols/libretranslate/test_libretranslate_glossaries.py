"""Glossaries stored by the gateway, in LibreTranslate's protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.libretranslate.test_libretranslate_files import upload
from tests.unit.gateway.protocols.libretranslate.test_libretranslate_protocol import DIRECTION


@pytest.fixture(scope="module")
def glossary(app: Application) -> str:
    """A glossary from English into German."""
    terms = {"source_language": "en", "target_language": "de", "entries": {"tea": "Tee"}}
    body = {"name": "Drinks", "dictionaries": [terms]}
    glossary_id: str = app.post("/api/v1/glossaries", body).json["id"]
    return glossary_id


def terms_of(app: Application) -> list[str | None]:
    """Glossaries of the requests so far."""
    return [request.inputs.get("glossary", [None])[0] for request in app.requests]


@pytest.mark.parametrize(
    "given",
    [
        *({}, {"alternatives": 2}, {"format": "html"}, {"source": "auto"}),
        {"source": "auto", "alternatives": 2},
    ],
)
def test_terms_that_occur_are_sent(app: Application, glossary: str, given: dict[str, Any]) -> None:
    body = {**DIRECTION, **given, "q": f"My old friends drink tea with {' and '.join(given)}."}
    before = len(app.requests)
    assert app.post("/translate", {**body, "glossary_ids": [glossary]}).status == 200
    assert list(map(json.loads, filter(None, terms_of(app)[before:]))) == [{"tea": "Tee"}]


def test_ids_in_a_form_are_separated_by_commas(app: Application, glossary: str) -> None:
    before = len(app.requests)
    given = {"q": "Tea in a form.", "glossary_ids": f"{glossary}, {glossary}"}
    assert app.form("/translate", {**DIRECTION, **given}).status == 200
    assert terms_of(app)[before:] not in ([], [None])


def test_texts_with_a_detected_language_use_matching_glossaries(
    app: Application, glossary: str
) -> None:
    body = {"q": "Ich trinke jeden Tag Tee.", "target": "en", "glossary_ids": [glossary]}
    assert app.post("/translate", {**body, "source": "auto"}).status == 200
    refused = app.post("/translate", {**body, "source": "de"})
    assert refused.status == 400
    assert "has no dictionary from de into en" in refused.json["error"]


def test_a_document_uses_glossaries(app: Application, glossary: str) -> None:
    for source in ("en", "auto"):
        before = len(app.requests)
        text = f"This document is about tea, {source}.".encode()
        assert upload(app, "a.txt", text, source=source, glossary_ids=glossary).status == 200
        assert terms_of(app)[before:] not in ([], [None])


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"glossary_ids": ["none"]}, 404, "there is no glossary 'none'"),
        ({"glossary_ids": "none", "source": "auto"}, 404, "there is no glossary 'none'"),
        ({"glossary_ids": [1]}, 400, "glossary_ids: give a text or a list of texts"),
        ({"glossary_ids": ["a"] * 21}, 400, "21 ids: give at most 20"),
    ],
)
def test_an_invalid_glossary_id_is_refused(
    app: Application, given: dict[str, Any], status: int, message: str
) -> None:
    answer = app.post("/translate", {"q": "I drink tea.", **DIRECTION, **given})
    assert (answer.status, list(answer.json)) == (status, ["error"])
    assert message in answer.json["error"]


def test_a_document_with_an_invalid_glossary_id_is_refused(app: Application, glossary: str) -> None:
    answer = upload(app, "a.txt", glossary_ids="none")
    assert (answer.status, answer.json) == (404, {"error": "there is no glossary 'none'"})
    answer = upload(app, "a.txt", source="de", target="en", glossary_ids=glossary)
    assert answer.status == 400
    assert "has no dictionary from de into en" in answer.json["error"]
