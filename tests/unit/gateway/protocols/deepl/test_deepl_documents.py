"""Documents: uploaded, waited for, downloaded once."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, get_args

import pytest
from dragoman_client import InvalidRequest
from dragoman_gateway.core.errors import InvalidInput
from dragoman_gateway.jobs.job import Job
from dragoman_gateway.jobs.job_files import State
from dragoman_gateway.protocols.deepl import deepl_documents, deepl_storing

from tests.deepl_openapi import faults
from tests.exchanges import Answer, file_form, multipart
from tests.unit.gateway.asgi import Application
from tests.unit.gateway.protocols.deepl.test_deepl_protocol import checked


def upload(
    app: Application, name: str = "a.txt", text: bytes = b"one two\n", **fields: str
) -> Answer:
    """Upload a document."""
    form = file_form(name, text, {"source_lang": "EN", "target_lang": "DE"} | fields)
    answer = app.call("POST", "/v2/document", *form)
    sent = (answer.status, answer.media_type, answer.body)
    assert faults("POST", "/v2/document", *sent) == []
    return answer


def test_a_document_is_downloaded_once(app: Application) -> None:
    handle = upload(app).json
    assert re.fullmatch("[0-9A-F]{32}", handle["document_id"])
    assert re.fullmatch("[0-9A-F]{64}", handle["document_key"])
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    status = checked(app, "POST", path, key)  # waits until the document is done
    assert status.json == {
        "document_id": handle["document_id"],
        "status": "done",
        "billed_characters": 8,
    }
    assert app.form(path, key).json == status.json
    result = checked(app, "POST", f"{path}/result", key)
    assert (result.status, result.body) == (200, b"<ONE TWO>\n")
    assert "filename*=utf-8''a.txt" in result.headers["content-disposition"]
    assert checked(app, "POST", f"{path}/result", key).status == 404
    assert checked(app, "POST", path, key).status == 404


def status_of(app: Application, handle: dict[str, str]) -> Any:
    """The status of a document, and the HTTP status of its result."""
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    status = checked(app, "POST", path, key).json
    return status, checked(app, "POST", f"{path}/result", key).status


def test_documents_in_progress(stuck: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deepl_storing, "_STATUS_WAIT_S", 0.1)
    handles = [upload(stuck).json for _ in range(3)]  # two are translated at the same time
    statuses = [status_of(stuck, handle) for handle in handles]
    states = ("translating", "translating", "queued")
    assert statuses == [
        ({"document_id": handle["document_id"], "status": state}, 503)
        for handle, state in zip(handles, states, strict=True)
    ]


def test_a_failed_document_reports_the_reason() -> None:
    def fail(_text: str) -> str:
        raise InvalidRequest("the option is refused")

    with Application(fail) as app:
        status, result = status_of(app, upload(app).json)
    assert (status.pop("status"), result) == ("error", 404)
    assert status.keys() == {"document_id", "error_message"}
    assert "refused" in status["error_message"]


@pytest.mark.parametrize("state", get_args(State))
def test_every_status_has_deepls_format(state: State) -> None:
    """The remaining time and the error are in the document's format too."""
    now = datetime.now(UTC)
    job = Job("a" * 32, "a.txt", state, 10, 0.5, now, now, 3.2, InvalidInput("no"))
    status = deepl_documents.written_status(job)
    body = json.dumps(status).encode()
    assert faults("POST", "/v2/document/A", 200, "application/json", body) == []
    assert (
        status.keys() - {"document_id", "status"}
        == {
            "queued": set(),
            "translating": {"seconds_remaining"},
            "done": {"billed_characters"},
            "error": {"error_message"},
        }[status["status"]]
    )


def test_a_page_is_returned_as_a_page(app: Application) -> None:
    page = b'<p title="one">two</p><script>two()</script>'
    handle = upload(app, "a.html", page, output_format="html").json
    path, key = f"/v2/document/{handle['document_id']}", {"document_key": handle["document_key"]}
    status = checked(app, "POST", path, key).json
    assert (status["status"], status["billed_characters"]) == ("done", len("onetwo"))
    result = checked(app, "POST", f"{path}/result", key)
    assert result.body == b'<p title="&lt;ONE&gt;">&lt;TWO&gt;</p><script>two()</script>'


def test_a_document_needs_its_key(app: Application) -> None:
    first, second = upload(app).json, upload(app).json
    path = f"/v2/document/{first['document_id']}"
    assert checked(app, "POST", path, {}).status == 400
    for key in ("", "\0", "ü", second["document_key"]):
        for url in (path, f"{path}/result"):
            assert checked(app, "POST", url, {"document_key": key}).status in (400, 404)


@pytest.mark.parametrize(
    ("fields", "status", "message"),
    [
        ({"name": "a.exe"}, 400, ".exe"),
        ({"name": "a.docx"}, 400, "is not a ZIP archive, as Office documents and books are"),
        ({"name": "a.pdf"}, 400, "convert it to DOCX"),
        ({"name": ""}, 400, ""),
        ({"text": b"\xff\xfe"}, 400, "UTF-8"),
        ({"name": "a.xlf", "text": b"<a>"}, 400, "the document is not valid XLIFF: line 1"),
        ({"name": "a.html", "output_format": "xml"}, 400, "is returned in its own format, html"),
        ({"target_lang": "EN-GB"}, 400, "Source and target language are equal."),
        ({"target_lang": "ZZ"}, 400, "Value for 'target_lang' not supported."),
        ({"formality": "less"}, 400, "doesn't support formality"),
        ({"output_format": "pdf"}, 400, "output_format: a document is returned in its own format"),
        ({"style_id": "a"}, 400, "style_id: style rules are not offered"),
        ({"glossary_id": "00000000-0000-0000-0000-000000000000"}, 404, "there is no glossary"),
    ],
)
def test_invalid_requests_name_the_error(
    app: Application, fields: dict[str, Any], status: int, message: str
) -> None:
    answer = upload(app, **fields)
    assert answer.status == status
    assert message in answer.json["message"]


def test_a_document_is_a_part_of_a_form(app: Application) -> None:
    assert checked(app, "POST", "/v2/document", {"file": "a"}).status == 400
    answer = app.call("POST", "/v2/document", *multipart(("file", "a", None)))
    assert answer.status == 400
    assert "send one file" in answer.json["message"]
