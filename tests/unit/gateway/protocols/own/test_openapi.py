"""The OpenAPI document, and the page generated from it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from dragoman_gateway.protocols.own import protocol
from dragoman_gateway.protocols.own.openapi import error_table, openapi_document
from dragoman_gateway.protocols.own.operation import PREFIX
from dragoman_gateway.protocols.own.protocol import OwnProtocol
from dragoman_options.table import OPTIONS, SCORE, STREAM, TRANSLATE, takes
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.conftest import REPOSITORY
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.own.described import check_schema


@pytest.fixture(scope="module")
def document(app: Application) -> dict[str, Any]:
    description: dict[str, Any] = app.send("GET", f"{PREFIX}/openapi.json").json
    return description


@pytest.fixture(scope="module")
def page(app: Application) -> str:
    return app.send("GET", f"{PREFIX}/docs").body.decode()


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert not list(OpenAPIV31SpecValidator(document).iter_errors())


def test_it_describes_every_endpoint(app: Application, document: dict[str, Any]) -> None:
    described = {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }
    endpoints = OwnProtocol(app.gateway).endpoints
    elsewhere = ("POST", f"{PREFIX}/attention")  # in the page's package
    assert app.send("PUT", elsewhere[1]).status == 405
    assert described == {elsewhere, *((endpoint.method, endpoint.path) for endpoint in endpoints)}
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    ]


@pytest.mark.parametrize(
    ("shape", "model"),
    [("TranslateRequest", TRANSLATE), ("StreamRequest", STREAM), ("ScoreRequest", SCORE)],
)
def test_requests_have_the_options_of_the_table(
    document: dict[str, Any], shape: str, model: str
) -> None:
    schema = document["components"]["schemas"][shape]
    assert schema["additionalProperties"] is False
    for name, option in OPTIONS.items():
        assert (name in schema["properties"]) == takes(model, option)
        if name in schema["properties"]:
            assert option.help in schema["properties"][name]["description"]


def test_numbers_have_the_bounds_of_the_model(document: dict[str, Any]) -> None:
    properties = document["components"]["schemas"]["TranslateRequest"]["properties"]
    assert {"type": "integer", "minimum": 1, "maximum": 8}.items() <= properties[
        "beam_width"
    ].items()
    assert properties["top_p"]["exclusiveMinimum"] == 0
    assert properties["patience"]["default"] == 1.0


def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    for _, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content:
            check_schema(document, content["schema"], content["example"])


def test_an_invalid_example_is_detected(document: dict[str, Any]) -> None:
    schema = {"$ref": "#/components/schemas/TranslateRequest"}
    for wrong in ({"text": 1}, {"text": "a", "x": 1}, {"text": "a", "beam_width": 9}):
        with pytest.raises(AssertionError):
            check_schema(document, schema, wrong)


def test_the_docs_have_its_table_of_errors() -> None:
    text = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
    assert error_table() in text
    assert error_table() > ""


class Page(HTMLParser):
    """What a page links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        attributes = dict(attrs)
        self.ids += [str(value) for name, value in attrs if name == "id"]
        self.links += [str(value) for name, value in attrs if name == "href"]
        assert not {"src", "style", "onclick", "onload"} & attributes.keys()


def test_the_page_needs_nothing_else(app: Application, page: str) -> None:
    parsed = Page(page)
    assert not {"script", "img", "link", "iframe", "form"} & parsed.tags
    assert len(set(parsed.ids)) == len(parsed.ids)
    for link in parsed.links:
        assert link == "openapi.json" or link.removeprefix("#") in parsed.ids, link
    policy = app.send("GET", f"{PREFIX}/docs").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_the_page_has_every_operation(document: dict[str, Any], page: str) -> None:
    ids = Page(page).ids
    for path, operation in operations(document):
        assert operation["operationId"] in ids
        assert path in page
    assert all(name in ids for name in document["components"]["schemas"])
    assert len(re.findall("<pre", page)) == 3 * len(operations(document))


def test_the_host_of_a_request_stays_text(app: Application) -> None:
    answer = app.call("GET", f"{PREFIX}/docs", headers={"host": "a<script>b"})
    assert answer.status == 403
    assert answer.headers["content-type"] == "application/json"


def test_descriptions_are_made_once_and_name_the_requested_url(
    app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client chooses the host in each request, without a key."""
    made = []

    def make(*operations: Any, **given: Any) -> dict[str, Any]:
        made.append(given)
        return openapi_document(*operations, **given)

    monkeypatch.setattr(protocol, "openapi_document", make)
    for number in range(3):
        for path in ("/api/v1/openapi.json", "/api/v1/docs"):
            body = app.call("GET", path, headers={"host": f"10.0.0.{number}:80"}).body
            assert f"http://10.0.0.{number}".encode() in body
            assert b"gateway.invalid" not in body
            assert b"path-of-the-gateway" not in body
    assert len(made) <= 1
