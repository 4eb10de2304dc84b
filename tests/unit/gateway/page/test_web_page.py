"""The page's files as they are sent, and its texts."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from importlib import resources
from typing import Any

import numpy as np
import pytest
from dragoman_client import Attention as SeenAttention
from dragoman_client.files.file_report import REASONS
from dragoman_gateway.application import GatewayApplication
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.page.static_files import read_files
from dragoman_gateway.page.web_page import page_headers
from dragoman_gateway.shared.gateway import Gateway
from starlette.testclient import TestClient

from dragoman.drawing.page import write_page
from dragoman.kernel.attention_maps import Attention

STATIC = resources.files("dragoman_gateway.page") / "static"
LANGUAGES = ("en", "de", "fr")


@pytest.fixture
def client() -> TestClient:
    """A client of a gateway that has no server behind it."""
    gateway = Gateway(
        GatewaySettings(triton="grpc://localhost:1", triton_http="http://localhost:1")
    )
    return TestClient(GatewayApplication(gateway), base_url="http://localhost")


def strings(language: str) -> dict[str, str]:
    folder = STATIC / "strings"
    if language == "en":  # a module, so that the page always has it
        text = (folder / "en.js").read_text("utf-8").partition("ENGLISH = ")[2]
    else:
        text = (folder / f"{language}.json").read_text("utf-8")
    table: dict[str, str] = json.loads(text.rstrip().removesuffix(";"))
    return table


def test_every_file_is_served_with_its_media_type(client: TestClient) -> None:
    for name, file in read_files().items():
        at_the_root = {"index.html": "/", "translator.js": "/translator.js"}
        path = at_the_root.get(name, f"/page/{name}")
        answer = client.get(path, headers={"Accept-Encoding": "identity"})
        assert answer.status_code == 200, path
        assert answer.content == (STATIC / name).read_bytes()
        assert answer.headers["content-type"] == file.media_type
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_without_javascript_the_page_links_to_the_apis_documentation(client: TestClient) -> None:
    link = re.search(r"<noscript>.*href=\"(.+?)\"", client.get("/").text)
    assert link
    assert client.get(link[1]).status_code == 200


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/docs", ": did you mean /api/v1/docs?"),
        ("/docs/", ": did you mean /api/v1/docs?"),
        ("/usage", ": did you mean /v2/usage or /api/v1/usage?"),
        ("/v2/langages", ": did you mean /v2/languages?"),
        ("/x" * 200, ""),
    ],
)
def test_a_path_that_is_not_there_is_named_with_a_similar_one(
    client: TestClient, path: str, hint: str
) -> None:
    answer = client.get(f"http://localhost{path}")
    assert answer.status_code == 404
    assert f'"there is no {path[:200]}{hint}"' in answer.text


def test_a_file_that_the_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/page/app.js")
    assert first.headers["cache-control"] == "no-cache"
    tag = first.headers["etag"]
    again = client.get("/page/app.js", headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = client.get("/page/app.js", headers={"If-None-Match": '"other"'})
    assert other.status_code == 200


@pytest.mark.parametrize(
    ("header", "packed"),
    [("gzip, br", True), ("*", True), ("gzip;q=0", False), ("br", False), ("", False)],
)
def test_files_are_compressed_for_clients_that_accept_it(
    client: TestClient, header: str, packed: bool
) -> None:
    with client.stream("GET", "/page/app.js", headers={"Accept-Encoding": header}) as answer:
        raw = b"".join(answer.iter_raw())
    assert (answer.headers.get("content-encoding") == "gzip") == packed
    content = (STATIC / "app.js").read_bytes()
    assert (gzip.decompress(raw) if packed else raw) == content


def test_a_missing_file_gets_the_apis_error_format(client: TestClient) -> None:
    for path in ("/page/none.js", "/page/../app.js", "/page/%2e%2e/web_page.py", "/page/"):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert answer.json()["error"]["code"] == "not_found"
    assert client.post("/").status_code == 405


def test_the_policy_allows_only_the_pages_own_files() -> None:
    policy = page_headers()["Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "*" not in policy


def test_the_policy_has_the_hashes_of_the_attention_pages_code() -> None:
    weights = np.full((1, 1, 2, 2), 0.5, np.float32)
    page = write_page(Attention(("a", "b"), ("a", "b"), ("a", "b"), *[weights] * 3), "a", "b")
    policy = page_headers()["Content-Security-Policy"]
    for name in ("script", "style"):
        (content,) = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{name}-src 'self' 'sha256-{digest}'" in policy
    assert not re.search(r"\son\w+=", page.partition("<script>")[0])


def test_the_page_has_no_inline_code_and_no_external_files() -> None:
    page = (STATIC / "index.html").read_text("utf-8")
    assert not re.search(r"\s(style|on\w+)=", page)
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style", page)
    for name, file in read_files().items():
        text = file.content.decode("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|[\"'(]//", text), name
        assert "innerHTML" not in text, name
    for address in re.findall(r'(?:href|src)="([^"#]+)', page):
        assert not address.startswith("/"), "an absolute path does not work under a prefix"


def test_modules_import_existing_files() -> None:
    files = read_files()
    for name, file in files.items():
        for path in re.findall(r'from "\./([^"]+)"', file.content.decode()):
            assert path in files, (name, path)
    for path in re.findall(r'"page/([^"]+)"', (STATIC / "index.html").read_text("utf-8")):
        assert path in files


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_every_text(language: str) -> None:
    english, other = strings("en"), strings(language)
    assert list(other) == sorted(english)
    for key, text in other.items():
        assert text.strip()
        values = re.findall(r"\{\w+\}", english[key])
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(values), key


def test_every_text_is_used_and_every_used_text_exists() -> None:
    known = set(strings("en"))
    page = (STATIC / "index.html").read_text("utf-8")
    code = "".join(
        file.content.decode()
        for name, file in read_files().items()
        if name.endswith(".js") and "/" not in name
    )
    used = set(re.findall(r'data-(?:string|label|hint)="(\w+)"', page))
    said = set(re.findall(r'say\("(\w+)"', code)) | set(re.findall(r'\btext: "(\w+)"', code))
    assert used | said <= known
    built = {
        *(f"job_{state}" for state in ("queued", "translating", "done", "failed", "cancelled")),
        *(f"theme_{theme}" for theme in ("auto", "light", "dark")),
        *(f"left_{reason}" for reason in REASONS),
        *(key for key in known if key.startswith(("error_", "warning_"))),
    }
    assert built <= known
    others = {key for key in known - used - said - built if f'"{key}"' not in code}
    assert not others


def test_errors_listed_with_their_own_text_have_one() -> None:
    code = (STATIC / "notice.js").read_text("utf-8")
    listed = re.search(r"WITH_OWN_TEXT = new Set\(\[(.*?)\]\)", code, re.DOTALL)
    assert listed
    codes = re.findall(r'"(\w+)"', listed[1])
    assert codes
    assert {f"error_{code}" for code in codes} <= set(strings("en"))


class Seen:
    """The response of a server that translates everything the same way."""

    def __init__(self) -> None:
        weights = np.full((1, 2, 2, 2), 0.5, np.float32)
        self.text = "Hallo </script>"
        self.attention = SeenAttention(("a", "b"), ("a", "b"), ("a", "b"), *[weights] * 3)
        self.asked: list[Any] = []

    async def translate(self, _caller: Any, texts: Any, options: Any, *, store: bool) -> list[Any]:
        self.asked.append((texts, options, store))
        return [self]

    async def score(self, _caller: Any, texts: Any, targets: Any, options: Any) -> list[Any]:
        self.asked.append((texts, targets, options))
        return [self]


def test_attention_is_returned_as_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Gateway(
        GatewaySettings(triton="grpc://localhost:1", triton_http="http://localhost:1")
    )
    seen = Seen()
    monkeypatch.setattr(gateway, "translations", seen)
    client = TestClient(GatewayApplication(gateway), base_url="http://localhost")
    answer = client.post("/api/v1/attention", json={"text": "Hello", "target_language": "de"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert "sandbox allow-scripts" in answer.headers["content-security-policy"]
    assert "Hallo \\u003c/script\\u003e" in answer.text
    options = {"target_language": "de", "return_attention": True}
    client.post("/api/v1/attention", json={"text": "Hello", "target": "Servus"})
    assert seen.asked == [
        (["Hello"], options, False),
        (["Hello"], ["Servus"], {"return_attention": True}),
    ]


@pytest.mark.parametrize(
    "body", [{}, {"text": ""}, {"text": " "}, {"text": ["a"]}, {"text": "a", "target": 1}, []]
)
def test_attention_requires_a_sentence(client: TestClient, body: Any) -> None:
    answer = client.post("/api/v1/attention", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_input"
