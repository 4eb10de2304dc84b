"""Translation memories in DeepL's form, and the client's way of importing and exporting them."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.protocols.deepl import deepl_memories

from tests.exchanges import Answer
from tests.unit.gateway.asgi import Application

MEMORIES = "/v3/translation_memories"
UNKNOWN = "00000000-0000-0000-0000-000000000000"
TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>Good morning.</seg></tuv><tuv xml:lang="de"><seg>Moin.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Tea time</seg></tuv><tuv xml:lang="de"><seg>Teestunde</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Only English</seg></tuv></tu></body></tmx>"""


def path_of(url: str) -> str:
    """The path of a URL of the gateway."""
    return "/" + url.split("/", 3)[3]


def imported(app: Application, content: str = TMX, name: str = "mine") -> dict[str, Any]:
    """The result of an import that has ended."""
    body = {
        "source_file": {"file_name": "a.tmx", "content_length": len(content.encode())},
        "parameters": {"display_name": name},
    }
    made = app.send("POST", f"{MEMORIES}/import", body)
    assert made.status == 202
    path = f"{MEMORIES}/jobs/{made.json['job_id']}"
    assert app.send("GET", path).json["results"][0]["status"] == "awaiting_input"
    kind = {"content-type": "application/xml"}
    sent = app.call("PUT", path_of(made.json["upload_url"]), content.encode(), kind)
    assert sent.status == 200
    again = app.call("PUT", path_of(made.json["upload_url"]), content.encode(), kind)
    assert again.status == 400
    app.run(wait_for_imports(app))
    job = app.send("GET", path).json
    assert (job["operation"], job["product"]) == ("import", "translation_memory")
    result: dict[str, Any] = job["results"][0]
    assert result["status"] in ("completed", "failed")
    return result


def upload_path(app: Application, **headers: str) -> str:
    """The path to which the file of a new import is sent."""
    body = {"source_file": {"file_name": "a.tmx", "content_length": len(TMX)}}
    made = app.send("POST", f"{MEMORIES}/import", body, **headers)
    assert made.status == 202, made.body
    return path_of(made.json["upload_url"])


def message_of(answer: Answer) -> str:
    message: str = answer.json["message"]
    return message


def test_a_memory_is_imported_listed_read_exported_and_deleted(app: Application) -> None:
    result = imported(app)
    assert result["skipped_segment_count"] == 1
    path = f"{MEMORIES}/{result['translation_memory_id']}"
    memory = app.send("GET", path).json
    assert (memory["name"], memory["segment_count"]) == ("mine", 2)
    assert (memory["source_language"], memory["target_languages"]) == ("en", ["de"])
    assert memory in app.send("GET", f"{MEMORIES}?page_size=25").json["translation_memories"]

    page = app.send("GET", f"{path}/segments?page_size=1").json
    assert page["segments"][0]["source_text"] == "Good morning."
    assert page["segment_count"] == 2
    rest = app.send("GET", f"{path}/segments?page_cursor={page['next_page_cursor']}").json
    assert [segment["targets"][0]["target_text"] for segment in rest["segments"]] == ["Teestunde"]
    assert "next_page_cursor" not in rest
    segments = app.send("GET", f"{path}/segments?filter_text=teest").json["segments"]
    assert len(segments) == 1
    query = f"{path}/segments?filter_text=teest&filter_case_sensitive=true"
    assert app.send("GET", query).json["segments"] == []

    export = app.send("POST", f"{path}/export")
    assert export.status == 202
    job = app.send("GET", f"{MEMORIES}/jobs/{export.json['job_id']}").json
    assert job["results"][0]["status"] == "completed"
    file = app.send("GET", path_of(job["results"][0]["download_url"]))
    assert file.body.count(b"<tu>") == 2
    assert imported(app, file.body.decode())["skipped_segment_count"] == 0

    assert app.send("DELETE", path).status == 204
    assert app.send("GET", path).status == 404


def test_texts_take_their_translations_from_a_memory(app: Application) -> None:
    memory_id = imported(app)["translation_memory_id"]
    body = {
        "text": ["Good morning.", "Good night."],
        "source_lang": "EN",
        "target_lang": "DE",
        "translation_memory_id": memory_id,
        "translation_memory_threshold": 75,
    }
    translations = app.send("POST", "/v2/translate", body).json["translations"]
    assert [translation["text"] for translation in translations] == ["Moin.", "<GOOD NIGHT.>"]
    html = {**body, "text": ["<p>Good <b>morning.</b></p><p>Tea time</p>"], "tag_handling": "html"}
    (translation,) = app.send("POST", "/v2/translate", html).json["translations"]
    assert translation["text"].endswith("<p>Teestunde</p>")
    assert "Moin" not in translation["text"]
    answer = app.send("POST", "/v2/translate", {**body, "translation_memory_id": UNKNOWN})
    assert answer.status == 404
    other = {**body, "source_lang": "DE", "target_lang": "EN-GB"}
    assert "from en to de" in message_of(app.send("POST", "/v2/translate", other))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<tmx", "line 1"),
        ("<html/>", "give TMX, XLIFF, Qt ts or PO"),
        (TMX.replace('"de"', '"xx"'), "xx"),
        ('<tmx><header srclang="en"/><body/></tmx>', ""),
    ],
)
def test_a_file_that_cannot_be_imported_fails_with_the_reason(
    app: Application, content: str, message: str
) -> None:
    before = app.send("GET", f"{MEMORIES}?page_size=25").json["total_count"]
    result = imported(app, content)
    assert result["status"] == "failed"
    assert message in result["error"]["message"]
    assert app.send("GET", f"{MEMORIES}?page_size=25").json["total_count"] == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/import", {}, 400),
        ("POST", "/import", {"source_file": {"file_name": "a", "content_length": 0}}, 400),
        ("POST", "/import", {"source_file": {"file_name": "a", "content_length": 1 << 40}}, 400),
        ("POST", "/import", {"source_file": "a"}, 400),
        ("GET", f"/{UNKNOWN}", None, 404),
        ("DELETE", f"/{UNKNOWN}", None, 404),
        ("GET", f"/{UNKNOWN}/segments", None, 404),
        ("GET", f"/{UNKNOWN}/segments?page_size=101", None, 400),
        ("GET", f"/{UNKNOWN}/segments?filter_text=a", None, 400),
        ("POST", f"/{UNKNOWN}/export", None, 404),
        ("GET", "/jobs/none", None, 404),
        ("GET", "/files/none", None, 404),
        ("PUT", "/files/none", {}, 404),
        ("GET", "?page_size=26", None, 400),
        ("GET", "?page=-1", None, 400),
    ],
)
def test_invalid_requests_are_refused(
    app: Application, method: str, path: str, body: Any, status: int
) -> None:
    answer = app.send(method, MEMORIES + path, body)
    assert answer.status == status
    assert message_of(answer)
    assert "\n" not in message_of(answer)


def test_the_imports_of_a_key_that_wait_are_limited(tmp_path: Path) -> None:
    with Application(folder=tmp_path) as app:
        keys = [{"authorization": f"DeepL-Auth-Key {app.new_key()}"} for _ in range(5)]
        (tmp_path / "other.tmx").write_text(TMX, "utf-8")
        other = app.gateway.readers.pairs(tmp_path / "other.tmx", len(TMX), (None, None))
        app.run(other.__aenter__())
        paths = [upload_path(app, **keys[0]) for _ in range(3)]
        answers = [app.call("PUT", path, TMX.encode()).status for path in paths]
        assert answers == [200, 200, 429]
        body = {"source_file": {"file_name": "a.tmx", "content_length": len(TMX)}}
        assert app.send("POST", f"{MEMORIES}/import", body, **keys[0]).status == 429
        for key in keys[1:4]:
            for _ in range(2):
                assert app.call("PUT", upload_path(app, **key), TMX.encode()).status == 200
        assert app.send("POST", f"{MEMORIES}/import", body, **keys[4]).status == 503

        app.run(other.__aexit__(None, None, None))
        app.run(wait_for_imports(app))
        assert app.call("PUT", paths[2], TMX.encode()).status == 200
        app.run(wait_for_imports(app))
        listed = app.send("GET", MEMORIES, **keys[0]).json["translation_memories"]
        assert [memory["segment_count"] for memory in listed] == [2, 2, 2]
        assert not [*(tmp_path / "documents").glob("*/*")]


async def wait_for_imports(app: Application) -> None:
    if tasks := {*app.gateway.importing}:
        await asyncio.wait(tasks, timeout=30)


def test_the_gateway_stops_without_the_imports_that_wait(tmp_path: Path) -> None:
    with Application(folder=tmp_path) as app:
        app.run(app.gateway.readers._importing.acquire())
        for _ in range(3):
            assert app.call("PUT", upload_path(app), TMX.encode()).status == 200
        assert [*(tmp_path / "documents").glob("*/*")]
    assert not [*(tmp_path / "documents").glob("*/*")]
    assert not [*tmp_path.glob("memories/*")]


def test_a_file_is_sent_once_at_a_time_and_again_after_an_error(app: Application) -> None:
    path = upload_path(app)

    async def main() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()
        messages = [{"type": "http.request", "body": b"<tmx", "more_body": True}]

        async def receive() -> MutableMapping[str, Any]:
            if messages:
                return messages.pop()
            arrived.set()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(_message: MutableMapping[str, Any]) -> None:
            pass

        scope = app.scope("PUT", path, {"content-length": str(len(TMX))})
        first = asyncio.create_task(app._application(scope, receive, send))
        async with asyncio.timeout(30):
            await arrived.wait()
            second = await app._call("PUT", path, TMX.encode(), {})
            assert second.status == 400
            assert "is being sent" in message_of(second)
            left.set()
            await asyncio.wait([first])

    app.run(main())
    assert app.call("PUT", path, TMX.encode()).status == 200


def test_the_urls_of_files_expire(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_id = imported(app)["translation_memory_id"]
    job = app.send("POST", f"{MEMORIES}/{memory_id}/export").json["job_id"]
    result = app.send("GET", f"{MEMORIES}/jobs/{job}").json["results"][0]
    upload = upload_path(app)
    monkeypatch.setattr(deepl_memories, "_EXPIRY_S", 0.0)
    for method, path in (
        ("GET", f"{MEMORIES}/jobs/{job}"),
        ("GET", path_of(result["download_url"])),
        ("PUT", upload),
    ):
        assert app.call(method, path, b"").status == 404
