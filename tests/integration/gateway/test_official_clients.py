"""Every call of the official clients, unchanged, against the real gateway and server.

`docs/compatible-apis.md` has the table of the calls. A client's release with a further call fails
here until the table and a test have it.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import deepl
import pytest
from deepl.api_data import MultilingualGlossaryDictionaryEntries as Entries
from deepl.util import convert_tsv_to_dict
from libretranslatepy import LibreTranslateAPI

from tests.conftest import REPOSITORY
from tests.deepl_openapi import faults
from tests.gateways import RunningGateway
from tests.npm_packages import MCP_SERVER, NODE, skip_without

_PAGE = REPOSITORY / "docs" / "compatible-apis.md"
_ENGLISH, _GERMAN = "Good morning. How are you?", "Guten Morgen. Wie geht es dir?"
_TERMS = {"tea": "Kamillentee"}
_UNKNOWN = "00000000-0000-0000-0000-000000000000"

Client = Any
"""`deepl.DeepLClient`, whose calls return one of several types."""
Call = Callable[[Client, Path], Any]


def table() -> dict[str, dict[str, str]]:
    """For each client its calls, and the response to each, as in the page."""
    answers: dict[str, dict[str, str]] = {}
    row = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \| (.+) \|$", re.MULTILINE)
    for client, call, answer in row.findall(_PAGE.read_text("utf-8")):
        assert call not in answers.setdefault(client, {}), call
        answers[client][call] = answer
    return answers


# DeepL's client for Python.


@pytest.fixture(scope="module")
def client(gateway: RunningGateway) -> Iterator[Client]:
    """DeepL's client; each of its responses is checked against DeepL's document."""
    with contextlib.closing(deepl.DeepLClient("key:fx", server_url=gateway.url)) as opened:
        opened._client._session.hooks["response"].append(check_answer)
        yield opened


def check_answer(answer: Any, *_: Any, **__: Any) -> None:
    """Check a response against DeepL's document."""
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    method, path = answer.request.method, urlsplit(answer.request.url).path
    assert faults(method, path, answer.status_code, media_type, answer.content) == []
    assert answer.headers["X-Trace-ID"]


def translate_text(client: Client, _: Path) -> None:
    single = client.translate_text(_ENGLISH, target_lang="DE")
    assert single.text == _GERMAN
    assert single.detected_source_lang == "EN"
    assert single.billed_characters == len(_ENGLISH)
    several = client.translate_text(
        [_ENGLISH, "Guten Tag, meine Damen und Herren."], target_lang="de"
    )
    assert [translation.detected_source_lang for translation in several] == ["EN", "DE"]
    assert several[1].text == "Guten Tag, meine Damen und Herren."
    fast = client.translate_text(
        "The cat sleeps.", source_lang="en", target_lang="DE", model_type="latency_optimized"
    )
    assert fast.model_type_used == "latency_optimized"
    lines = client.translate_text(
        "We are going to the\nbeach.", target_lang="DE", split_sentences="nonewlines"
    )
    assert lines.text.count("\n") == 1
    client.translate_text(
        "A house.",
        target_lang="DE",
        context="about buildings",
        preserve_formatting=True,
        formality="prefer_less",
        split_sentences="0",
        extra_body_parameters={"enable_beta_languages": True},
    )
    page = client.translate_text(
        "<p>I like <b>red</b> cars.</p>", target_lang="DE", tag_handling="html"
    )
    assert page.text == "<p>Ich mag <b>rote</b> Autos.</p>"
    marked = client.translate_text(
        "<a>I like <keep>red</keep> cars.</a><b>A house.</b>",
        target_lang="DE",
        source_lang="EN",
        tag_handling="xml",
        outline_detection=False,
        splitting_tags=["a", "b"],
        ignore_tags=["keep"],
    )
    assert "<keep>red</keep>" in marked.text
    assert marked.text.endswith("</a><b>Ein Haus.</b>")
    for wrong, message in (
        ({"formality": "more"}, "Target language 'DE' doesn't support formality."),
        ({"style_rule": _UNKNOWN}, "style_id: style rules are not offered"),
        ({"custom_instructions": ["be brief"]}, "custom_instructions: a translation model"),
        ({"translation_memory": _UNKNOWN, "source_lang": "EN"}, "there is no translation memory"),
        ({"glossary": _UNKNOWN, "source_lang": "EN"}, "there is no glossary"),
    ):
        with pytest.raises(deepl.DeepLException, match=re.escape(message)):
            client.translate_text("a", target_lang="DE", **wrong)
    with pytest.raises(deepl.DeepLException, match="Value for 'target_lang' not supported"):
        client.translate_text("a", target_lang="XX")


def translate_text_with_glossary(client: Client, _: Path) -> None:
    glossary = client.create_glossary("terms", "EN", "DE", _TERMS)
    translation = client.translate_text_with_glossary("I drink tea.", glossary)
    assert "Kamillentee" in translation.text
    by_id = client.translate_text(
        "I drink tea.", source_lang="EN", target_lang="DE", glossary_ids=[glossary.glossary_id]
    )
    assert by_id.text == translation.text


def get_source_languages(client: Client, _: Path) -> None:
    names = {language.code: language.name for language in client.get_source_languages()}
    assert names["EN"] == "English"
    assert names["DE"] == "German"


def get_target_languages(client: Client, _: Path) -> None:
    languages = {language.code: language for language in client.get_target_languages()}
    assert {"EN-GB", "EN-US", "DE"} <= languages.keys()
    assert languages["DE"].supports_formality is False
    back = client.translate_text("Guten Morgen.", source_lang="DE", target_lang="EN-US")
    assert "ood morning" in back.text


def get_glossary_languages(client: Client, _: Path) -> None:
    pairs = [(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()]
    assert ("en", "de") in pairs


def get_usage(client: Client, _: Path) -> None:
    before = client.get_usage()
    assert before.character.valid
    assert not before.any_limit_reached
    client.translate_text("One more.", source_lang="EN", target_lang="DE")
    count = client.get_usage().character.count
    assert count == before.character.count + len("One more.")


def create_glossary(client: Client, _: Path) -> None:
    made = client.create_glossary("a", "EN", "DE", _TERMS)
    assert (made.name, made.source_lang, made.target_lang) == ("a", "EN", "DE")
    assert made.entry_count == 1
    assert made.ready
    with pytest.raises(deepl.DeepLException, match="Value for 'source_lang' not supported"):
        client.create_glossary("a", "XX", "DE", _TERMS)


def create_glossary_from_csv(client: Client, _: Path) -> None:
    made = client.create_glossary_from_csv("a", "EN", "DE", "tea,Tee,en,de\ncup,Tasse,en,de\n")
    assert client.get_glossary_entries(made) == {"tea": "Tee", "cup": "Tasse"}


def get_glossary(client: Client, _: Path) -> None:
    made = client.create_glossary("b", "EN", "DE", _TERMS)
    assert client.get_glossary(made.glossary_id).creation_time == made.creation_time
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(_UNKNOWN)


def list_glossaries(client: Client, _: Path) -> None:
    made = client.create_glossary("c", "EN", "DE", _TERMS)
    assert made.glossary_id in [glossary.glossary_id for glossary in client.list_glossaries()]


def get_glossary_entries(client: Client, _: Path) -> None:
    assert client.get_glossary_entries(client.create_glossary("d", "EN", "DE", _TERMS)) == _TERMS


def delete_glossary(client: Client, _: Path) -> None:
    made = client.create_glossary("e", "EN", "DE", _TERMS)
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.delete_glossary(made)


def multilingual(client: Client) -> Any:
    """A new glossary of two directions."""
    back = {target: source for source, target in _TERMS.items()}
    return client.create_multilingual_glossary(
        "m",
        [Entries("EN", "DE", _TERMS), Entries("DE", "EN", back)],
    )


def entries_of(client: Client, glossary: Any) -> Any:
    """The dictionary from English into German."""
    entries = client.get_multilingual_glossary_entries(glossary, "EN", "DE")
    return convert_tsv_to_dict(entries.dictionaries[0].entries)


def create_multilingual_glossary(client: Client, _: Path) -> None:
    made = multilingual(client)
    counts = {dictionary.source_lang: dictionary.entry_count for dictionary in made.dictionaries}
    assert counts == {"DE": 1, "EN": 1}
    translation = client.translate_text(
        "I drink tea.", source_lang="EN", target_lang="DE", glossary=made
    )
    assert "Kamillentee" in translation.text


def create_multilingual_glossary_from_csv(client: Client, _: Path) -> None:
    made = client.create_multilingual_glossary_from_csv("m", "EN", "DE", "tea,Tee\n")
    assert entries_of(client, made) == {"tea": "Tee"}


def get_multilingual_glossary(client: Client, _: Path) -> None:
    made = multilingual(client)
    assert client.get_multilingual_glossary(made.glossary_id).name == "m"
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(_UNKNOWN)


def list_multilingual_glossaries(client: Client, _: Path) -> None:
    made = multilingual(client)
    glossaries = client.list_multilingual_glossaries()
    assert made.glossary_id in [glossary.glossary_id for glossary in glossaries]


def get_multilingual_glossary_entries(client: Client, _: Path) -> None:
    assert entries_of(client, multilingual(client)) == _TERMS


def update_multilingual_glossary_name(client: Client, _: Path) -> None:
    assert client.update_multilingual_glossary_name(multilingual(client), "n").name == "n"


def update_multilingual_glossary_dictionary(client: Client, _: Path) -> None:
    made = multilingual(client)
    more = Entries("EN", "DE", {"cup": "Tasse"})
    client.update_multilingual_glossary_dictionary(made, more)
    assert entries_of(client, made) == _TERMS | {"cup": "Tasse"}


def update_multilingual_glossary_dictionary_from_csv(client: Client, _: Path) -> None:
    made = multilingual(client)
    client.update_multilingual_glossary_dictionary_from_csv(made, "EN", "DE", "cup,Tasse")
    assert entries_of(client, made) == _TERMS | {"cup": "Tasse"}


def replace_multilingual_glossary_dictionary(client: Client, _: Path) -> None:
    made = multilingual(client)
    other = Entries("EN", "DE", {"cup": "Tasse"})
    assert client.replace_multilingual_glossary_dictionary(made, other).entry_count == 1
    assert entries_of(client, made) == {"cup": "Tasse"}


def replace_multilingual_glossary_dictionary_from_csv(client: Client, _: Path) -> None:
    made = multilingual(client)
    client.replace_multilingual_glossary_dictionary_from_csv(made, "EN", "DE", "cup,Tasse")
    assert entries_of(client, made) == {"cup": "Tasse"}


def delete_multilingual_glossary(client: Client, _: Path) -> None:
    made = multilingual(client)
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.delete_multilingual_glossary(made)


def delete_multilingual_glossary_dictionary(client: Client, _: Path) -> None:
    made = multilingual(client)
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    (left,) = client.get_multilingual_glossary(made.glossary_id).dictionaries
    assert left.source_lang == "DE"


def translate_document(client: Client, folder: Path) -> None:
    result, source, text = io.BytesIO(), folder / "a.txt", f"{_ENGLISH}\n\n  - A house.\n"
    source.write_text(text)
    with source.open("rb") as document:
        status = client.translate_document(document, result, target_lang="DE")
    assert status.done
    assert status.billed_characters == len(text)
    assert result.getvalue().decode().startswith(f"{_GERMAN}\n\n  - Ein Haus")
    page, result = b"<p>I like <b>red cars</b>.</p><script>write()</script>", io.BytesIO()
    status = client.translate_document(page, result, target_lang="DE", filename="a.html")
    assert status.billed_characters == len("I like red cars.")
    assert result.getvalue() == b"<p>Ich mag <b>rote Autos</b>.</p><script>write()</script>"


def translate_document_from_filepath(client: Client, folder: Path) -> None:
    source, target = folder / "a.txt", folder / "b.txt"
    source.write_text("I drink tea.\n")
    glossary = client.create_glossary("f", "EN", "DE", _TERMS)
    client.translate_document_from_filepath(
        source, target, source_lang="EN", target_lang="DE", glossary=glossary
    )
    assert "Kamillentee" in target.read_text()
    with pytest.raises(deepl.DeepLException, match="output_format"):
        client.translate_document_from_filepath(source, folder / "c.pdf", target_lang="DE")
    other = folder / "a.pages"
    other.write_bytes(b"PK")
    with pytest.raises(deepl.DeepLException, match=r"pages.*\.html"):
        client.translate_document_from_filepath(other, folder / "b.pages", target_lang="DE")
    broken = folder / "a.xml"
    broken.write_text("<a>\n<b></a>")
    with pytest.raises(deepl.DeepLException, match="not valid XML: line 2, column 6"):
        client.translate_document_from_filepath(broken, folder / "b.xml", target_lang="DE")


def uploaded(client: Client) -> Any:
    """A document."""
    return client.translate_document_upload(_ENGLISH, target_lang="DE", filename="a.txt")


def translate_document_upload(client: Client, _: Path) -> None:
    handle = uploaded(client)
    assert re.fullmatch("[0-9A-F]{32}", handle.document_id)
    assert re.fullmatch("[0-9A-F]{64}", handle.document_key)


def translate_document_get_status(client: Client, _: Path) -> None:
    handle = uploaded(client)
    assert client.translate_document_get_status(handle).done
    other = deepl.DocumentHandle(handle.document_id, "0" * 64)
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_get_status(other)


def translate_document_wait_until_done(client: Client, _: Path) -> None:
    assert client.translate_document_wait_until_done(uploaded(client)).done


def translate_document_download(client: Client, _: Path) -> None:
    handle = uploaded(client)
    client.translate_document_wait_until_done(handle)
    result = io.BytesIO()
    client.translate_document_download(handle, result)
    assert result.getvalue().decode() == _GERMAN
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_download(handle)


def set_app_info(client: Client, _: Path) -> None:
    client.set_app_info("dragoman", "1").get_source_languages()


def close(client: Client, _: Path) -> None:
    other: Client = deepl.DeepLClient("key", server_url=client.server_url)
    other.close()


def server_url(client: Client, _: Path) -> None:
    assert client.server_url.startswith("http://127.0.0.1:")


def memory_file(folder: Path) -> Path:
    """A translation memory with one segment."""
    path = folder / "a.tmx"
    path.write_text(
        '<tmx version="1.4"><header srclang="en"/><body><tu><tuv xml:lang="en"><seg>Good evening.'
        '</seg></tuv><tuv xml:lang="de"><seg>Schönen Abend.</seg></tuv></tu></body></tmx>',
        encoding="utf-8",
    )
    return path


def imported_memory(client: Client, folder: Path) -> Any:
    """The job of an import that is complete."""
    file = memory_file(folder)
    created = client.create_translation_memory_import(file.name, file.stat().st_size)
    client.upload_translation_memory_file(created, file.read_bytes())
    deadline_s = time.monotonic() + 240
    job = client.get_translation_memory_job(created.job_id)
    while not job.done and time.monotonic() < deadline_s:
        job = client.get_translation_memory_job(job)
    assert job.result.status == "completed", job.result.error_message
    return job


def memory_of(client: Client, folder: Path) -> str:
    """The id of an imported memory."""
    memory_id: str = imported_memory(client, folder).result.translation_memory_id
    return memory_id


def create_translation_memory_import(client: Client, folder: Path) -> None:
    memory_of(client, folder)
    with pytest.raises(deepl.DeepLException, match="content_length: give 1 to"):
        client.create_translation_memory_import("a.tmx", 1 << 40)


def upload_translation_memory_file(client: Client, folder: Path) -> None:
    content = memory_file(folder).read_bytes()
    url = f"{client.server_url}/v3/translation_memories/files/{_UNKNOWN}"
    with pytest.raises(deepl.DeepLException, match="404"):
        client.upload_translation_memory_file(url, content)


def import_translation_memory_from_filepath(client: Client, folder: Path) -> None:
    job = client.import_translation_memory_from_filepath(memory_file(folder), display_name="mine")
    assert client.get_translation_memory(job.result.translation_memory_id).name == "mine"


def wait_until_translation_memory_job_done(client: Client, folder: Path) -> None:
    job = client.wait_until_translation_memory_job_done(imported_memory(client, folder))
    assert job.ok


def get_translation_memory_job(client: Client, folder: Path) -> None:
    job = client.get_translation_memory_job(imported_memory(client, folder))
    assert (job.operation, job.display_name) == ("import", "a.tmx")
    with pytest.raises(deepl.DeepLException, match="there is no job"):
        client.get_translation_memory_job(_UNKNOWN)


def list_translation_memories(client: Client, folder: Path) -> None:
    memory_id = memory_of(client, folder)
    listed: list[str] = []
    while memory_id not in listed:
        page = client.list_translation_memories(page=len(listed) // 25, page_size=25)
        listed += [memory.translation_memory_id for memory in page]
        assert page


def get_translation_memory(client: Client, folder: Path) -> None:
    memory = client.get_translation_memory(memory_of(client, folder))
    assert (memory.source_language, memory.target_languages) == ("en", ["de"])
    assert memory.segment_count == 1
    assert memory.creation_time is not None
    translation = client.translate_text(
        "Good evening.", source_lang="EN", target_lang="DE", translation_memory=memory
    )
    assert translation.text == "Schönen Abend."


def list_translation_memory_segments(client: Client, folder: Path) -> None:
    memory_id = memory_of(client, folder)
    (segment,) = client.list_translation_memory_segments(memory_id, filter_text="abend")
    assert segment.targets[0].target_text == "Schönen Abend."
    assert not list(client.list_translation_memory_segments(memory_id, filter_text="x y"))


def delete_translation_memory(client: Client, folder: Path) -> None:
    memory_id = memory_of(client, folder)
    client.delete_translation_memory(memory_id)
    with pytest.raises(deepl.DeepLException, match="there is no translation memory"):
        client.get_translation_memory(memory_id)


def create_translation_memory_export(client: Client, folder: Path) -> None:
    export = client.create_translation_memory_export(memory_of(client, folder))
    assert client.get_translation_memory_job(export.job_id).result.download_url


def download_translation_memory_export(client: Client, folder: Path) -> None:
    export = client.create_translation_memory_export(memory_of(client, folder))
    output = io.BytesIO()
    job = client.get_translation_memory_job(export.job_id)
    client.download_translation_memory_export(job, output, chunk_size=8192)
    assert "Schönen Abend." in output.getvalue().decode()


def export_translation_memory_to_filepath(client: Client, folder: Path) -> None:
    path = folder / "b.tmx"
    client.export_translation_memory_to_filepath(memory_of(client, folder), path)
    assert "Good evening." in path.read_text(encoding="utf-8")


DEEPL_CALLS: dict[str, Call] = {
    name: value
    for name, value in vars().copy().items()
    if name[0] != "_" and hasattr(deepl.DeepLClient, name)
}
"""The functions above that are named like a call of the client."""
REFUSED_CALLS = [call for call, answer in table()["deepl"].items() if answer.startswith("refused")]


def refused_arguments() -> dict[str, tuple[Any, ...]]:
    """Arguments of each call that is refused."""
    return {
        "rephrase_text": ("a",),
        "correct_text": ("a",),
        "get_all_style_rules": (),
        "create_style_rule": ("a", "de"),
        "get_style_rule": (_UNKNOWN,),
        "update_style_rule_name": (_UNKNOWN, "b"),
        "delete_style_rule": (_UNKNOWN,),
        "update_style_rule_configured_rules": (_UNKNOWN, {}),
        "create_style_rule_custom_instruction": (_UNKNOWN, "a", "b"),
        "get_style_rule_custom_instruction": (_UNKNOWN, "a"),
        "update_style_rule_custom_instruction": (_UNKNOWN, "a", "b", "c"),
        "delete_style_rule_custom_instruction": (_UNKNOWN, "a"),
    }


def test_the_table_has_every_call_of_deepls_client() -> None:
    public = {name for name, _ in inspect.getmembers(deepl.DeepLClient) if name[0] != "_"}
    answers = table()["deepl"]
    assert public == answers.keys() == DEEPL_CALLS.keys() | {*REFUSED_CALLS}
    assert not DEEPL_CALLS.keys() & {*REFUSED_CALLS}


@pytest.mark.parametrize("call", DEEPL_CALLS)
def test_a_call_of_deepls_client(call: str, client: Client, tmp_path: Path) -> None:
    DEEPL_CALLS[call](client, tmp_path)


@pytest.mark.parametrize("call", REFUSED_CALLS)
def test_an_unsupported_call_is_refused_by_name(call: str, client: Client) -> None:
    with pytest.raises(deepl.DeepLException) as refused:
        getattr(client, call)(*refused_arguments()[call])
    named = str(refused.value).partition("Not offered here: ")[2].partition(":")[0]
    assert table()["deepl"][call].removeprefix("refused: ") in named


def test_the_command_line_of_deepls_client(gateway: RunningGateway) -> None:
    command = [sys.executable, "-m", "deepl", "text", "--to", "DE", _ENGLISH]
    environment = {**os.environ, "DEEPL_AUTH_KEY": "k", "DEEPL_SERVER_URL": gateway.url}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == _GERMAN


# LibreTranslate's client for Python.


def test_the_table_has_every_call_of_libretranslates_client() -> None:
    public = {name for name, _ in inspect.getmembers(LibreTranslateAPI, inspect.isroutine)}
    assert {name for name in public if name[0] != "_"} == table()["libretranslatepy"].keys()
    assert table()["libretranslatepy"].keys() == {"translate", "detect", "languages"}


@pytest.mark.parametrize("key", [None, "", "k"])
def test_the_calls_of_libretranslates_client(gateway: RunningGateway, key: str | None) -> None:
    client = LibreTranslateAPI(gateway.url, key)
    assert client.translate(_ENGLISH, "en", "de") == _GERMAN
    assert client.detect("Guten Morgen, meine Freunde.")[0]["language"] == "de"
    languages = {language["code"]: language for language in client.languages()}
    assert languages["en"]["name"] == "English"
    assert "de" in languages["en"]["targets"]


# LibreTranslate's MCP server.


class McpServer:
    """The process; it communicates in lines of JSON."""

    def __init__(self, url: str) -> None:
        """Start it."""
        environment = {**os.environ, "LIBRETRANSLATE_API_URL": url}
        self.process = subprocess.Popen(
            [NODE, MCP_SERVER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._number = 0
        client = {"name": "test", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)

    def ask(self, method: str, **parameters: Any) -> Any:
        """The result of a request."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        while (answer := json.loads(self.process.stdout.readline()))["id"] != self._number:
            pass  # it answers everything twice
        return answer["result"]

    def call(self, tool: str, **arguments: str) -> tuple[Any, bool]:
        """The response of a tool, and whether it failed."""
        result = self.ask("tools/call", name=tool, arguments=arguments)
        return json.loads(result["content"][0]["text"]), result.get("isError", False)


@pytest.fixture(scope="module")
def mcp(gateway: RunningGateway) -> Iterator[McpServer]:
    """The MCP server, in front of the gateway."""
    if not MCP_SERVER.exists():
        skip_without("MCP server")
    server = McpServer(gateway.url)
    yield server
    server.process.terminate()
    server.process.communicate()


def test_the_table_has_every_tool_of_the_mcp_server(mcp: McpServer) -> None:
    tools = {tool["name"] for tool in mcp.ask("tools/list")["tools"]}
    assert tools == table()["@libretranslate/mcp"].keys() == {"detect", "translate", "languages"}


def test_the_tools_of_the_mcp_server(mcp: McpServer) -> None:
    answer, failed = mcp.call("translate", text=_ENGLISH, source="auto", target="de")
    assert not failed
    assert answer["translatedText"] == _GERMAN
    assert len(answer["alternatives"]) == 3
    assert _GERMAN not in answer["alternatives"]
    assert answer["detectedLanguage"]["language"] == "en"
    answer, failed = mcp.call("detect", text="Guten Morgen, meine Freunde.")
    assert (answer["language"], failed) == ("de", False)
    answer, failed = mcp.call("languages")
    assert ("de" in [language["code"] for language in answer], failed) == (True, False)
    answer, failed = mcp.call("translate", text="a", source="zz", target="de")
    assert (answer, failed) == ({"error": "zz is not supported"}, True)
