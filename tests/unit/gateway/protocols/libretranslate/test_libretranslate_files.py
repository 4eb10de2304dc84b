"""Files: translated while the client waits, downloaded by anyone with the link."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import pytest
from dragoman_gateway.access.access import no_key
from dragoman_gateway.core.caller import ANONYMOUS, Caller
from dragoman_gateway.protocols.libretranslate import libretranslate_protocol

from tests.exchanges import Answer, file_form
from tests.unit.gateway.asgi import Application


async def any_key(secret: str | None, protocol: str, _address: str) -> Caller:
    """Requires a key; any is accepted; see `Access.caller`."""
    if not secret:
        raise no_key(protocol)
    return Caller("k1", "k1")


DIRECTION = {"source": "en", "target": "de"}
_CUE = "1\n00:00:01.000 --> 00:00:04.000\n%s\n"


def upload(app: Application, name: str, text: bytes = b"one two\n", **fields: str) -> Answer:
    """Upload a file."""
    return app.call("POST", "/translate_file", *file_form(name, text, DIRECTION | fields))


def test_a_file_is_returned_as_a_link(app: Application) -> None:
    answer = upload(app, "my notes.txt")
    url = urlsplit(answer.json["translatedFileUrl"])
    assert (url.scheme, url.netloc) == ("http", "localhost:5000")
    assert url.path.endswith(".my%20notes.txt")
    for _ in range(2):
        file = app.call("GET", url.path)
        assert (file.status, file.body) == (200, b"<ONE TWO>\n")
        assert "my%20notes.txt" in file.headers["content-disposition"]


def test_the_link_of_a_file_needs_no_key(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.gateway.access, "caller", any_key)
    path = urlsplit(upload(app, "a.txt", api_key="k").json["translatedFileUrl"]).path
    monkeypatch.undo()
    assert app.call("GET", path).body == b"<ONE TWO>\n"
    assert app.call("GET", path.replace("_k1", "")).status == 404
    assert app.call("GET", path.replace("_k1", "_k2")).status == 404


def test_a_document_is_removed_when_its_client_disconnects(stuck: Application) -> None:
    began_s = time.monotonic()
    stuck.leave("POST", "/translate_file", *file_form("a.txt", b"one", DIRECTION), after_s=0.3)
    assert time.monotonic() - began_s < 20
    assert stuck.run(stuck.gateway.jobs.all(ANONYMOUS)) == []


def test_the_wait_for_a_document_is_limited(
    stuck: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libretranslate_protocol, "_MOST_WAIT_S", 0.2)
    assert upload(stuck, "a.txt").status == 504
    assert stuck.run(stuck.gateway.jobs.all(ANONYMOUS)) == []


def test_a_public_url_is_that_of_the_link() -> None:
    with Application(public_url="https://translate.example/sub/", anonymous=True) as app:
        url = upload(app, "a.txt").json["translatedFileUrl"]
        assert url.startswith("https://translate.example/sub/download_file/")


def test_a_page_is_returned_as_a_page(app: Application) -> None:
    page = b"<p>one</p><script>one()</script><!-- one --><p>two &lt; &#51;</p>"
    path = urlsplit(upload(app, "my page.html", page).json["translatedFileUrl"]).path
    assert path.endswith(".my%20page.html")
    assert app.call("GET", path).body == (
        b"<p>&lt;ONE&gt;</p><script>one()</script><!-- one --><p>&lt;TWO &lt; 3&gt;</p>"
    )


@pytest.mark.parametrize(
    ("name", "content", "translation"),
    [
        ("a.srt", _CUE % "one two", _CUE % "< ONE TWO>"),
        ("a.vtt", f"WEBVTT\n\n{_CUE % 'one two'}", f"WEBVTT\n\n{_CUE % '&lt;ONE TWO&gt;'}"),
        ("a.txt", _CUE % "one two", _CUE % "< ONE TWO>"),
        ("a.md", "# one\n\n> two\n", "# \\<ONE>\n\n> \\<TWO>\n"),
        ("a.po", 'msgid "one"\nmsgstr ""\n', '#, fuzzy\nmsgid "one"\nmsgstr "<ONE>"\n'),
        ("a.json", '{"one": "two"}', '{"one": "<TWO>"}'),
        ("a.yml", "one: two # three\n", 'one: "<TWO>" # three\n'),
        ("a.properties", "one = two\n", "one = <TWO>\n"),
        ("a.strings", '"one" = "two";\n', '"one" = "<TWO>";\n'),
    ],
)
def test_text_files_are_returned_in_their_format(
    app: Application, name: str, content: str, translation: str
) -> None:
    path = urlsplit(upload(app, name, content.encode()).json["translatedFileUrl"]).path
    assert app.call("GET", path).body.decode() == translation


@pytest.mark.parametrize(
    ("name", "content", "status", "message"),
    [
        ("a", b"one two\n", 415, "give .txt, .html"),
        (".txt.exe", b"one two\n", 415, "give .txt, .html"),
        ("a.pdf", b"one two\n", 415, "convert it to DOCX"),
        ("a.docx", b"one two\n", 400, "is not a ZIP archive"),
        (
            "a.xml",
            b"<a>\n<b></a>",
            400,
            "Invalid request: the document is not valid XML: line 2, column 6: mismatched tag",
        ),
        ("a.srt", b"one two", 400, "not valid SubRip subtitles: no subtitle has times"),
        ("a.json", b'{"a": 1}', 400, "not valid JSON: 0 of its 1 values seem to be text"),
        ("a.yml", b"a: [", 400, "not valid YAML: line 2: did not find"),
        ("a.po", b"\xff", 400, "not valid gettext PO: byte 0: not valid UTF-8"),
    ],
)
def test_a_file_that_cannot_be_translated_is_refused(
    app: Application, name: str, content: bytes, status: int, message: str
) -> None:
    answer = upload(app, name, content)
    assert (answer.status, list(answer.json)) == (status, ["error"])
    assert message in answer.json["error"]


def test_the_formats_are_named(app: Application) -> None:
    formats = app.send("GET", "/frontend/settings").json["supportedFilesFormat"]
    named = {".txt", ".html", ".htm", ".xhtml", ".xml", ".svg", ".resx", ".ts", ".tmx", ".xlf"}
    assert {*named, ".xliff", ".srt", ".vtt", ".md", ".po", ".json", ".yml", ".strings"} <= set(
        formats
    )
    assert ".csv" not in formats  # whose columns it cannot know


@pytest.mark.parametrize("name", ["a", "..", "../../etc/passwd", "%2e", "0" * 32 + ".txt", "_"])
def test_an_unknown_file_is_not_found(app: Application, name: str) -> None:
    answer = app.call("GET", f"/download_file/{name}")
    assert answer.status == 404
    assert list(answer.json) == ["error"]


def test_no_file(app: Application) -> None:
    assert app.form("/translate_file", {"source": "en"}).status == 400
    assert app.form("/translate_file", {}).json["error"].startswith("Invalid request: ")


def test_a_file_in_a_language_that_is_not_served_names_the_field(app: Application) -> None:
    text = "Buenos días, mi querido amigo. Esta noche vamos a cenar en casa.".encode()
    answer = upload(app, "a.txt", text, source="auto")
    assert answer.status == 400
    assert "seems to be in 'es'" in answer.json["error"]
    assert answer.json["error"].endswith("give source")
