"""The Model Context Protocol's own client, unchanged, against the real gateway and engine."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.gateways import RunningGateway, StartGateway
from tests.integration.gateway.test_keys_served import keys, wait_for_status
from tests.servers import WAIT_S, Served

ENGLISH, GERMAN = "Good morning. How are you?", "Guten Morgen. Wie geht es dir?"
Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")
"""The stateless revision, and those with a handshake."""


@contextlib.asynccontextmanager
async def connected(
    gateway: RunningGateway, mode: Mode = "auto", key: str | None = None
) -> AsyncGenerator[Client, None]:
    """A client of the gateway."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers, timeout=WAIT_S) as http:
        transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def text_of(result: Any) -> str:
    """The text of a tool's result."""
    return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("mode", MODES)
async def test_the_client_lists_and_calls_the_tools(gateway: RunningGateway, mode: Mode) -> None:
    async with connected(gateway, mode) as client:
        expected = "2026-07-28" if mode == "auto" else "2025-11-25"
        assert client.protocol_version == expected
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == {
            *("translate_text", "translate_document", "list_languages", "list_glossaries")
        }
        assert tools["translate_text"].input_schema["required"] == ["text", "target_language"]
        result = await client.call_tool(
            "translate_text", {"text": ENGLISH, "target_language": "German"}
        )
        assert (text_of(result), result.is_error) == (GERMAN, False)
        assert result.structured_content == {
            "translations": [{"text": GERMAN, "detected_language": "en"}]
        }
        languages = await client.call_tool("list_languages", {})
        assert languages.structured_content is not None
        rows = {
            language["code"]: language for language in languages.structured_content["languages"]
        }
        assert rows["en"]["name"] == "English"
        assert "de" in rows["en"]["targets"]


async def test_glossaries_and_markup(gateway: RunningGateway) -> None:
    terms = {"source_language": "en", "target_language": "de", "entries": {"tea": "Kamillentee"}}
    body = {"name": "drinks", "dictionaries": [terms]}
    stored = gateway.post("/api/v1/glossaries", body).json["id"]
    direction = {"source_language": "en", "target_language": "de"}

    try:
        async with connected(gateway) as client:
            listed = await client.call_tool("list_glossaries", {})
            assert listed.structured_content is not None
            (row,) = (
                glossary
                for glossary in listed.structured_content["glossaries"]
                if glossary["id"] == stored
            )
            assert row["directions"] == [{**direction, "terms": 1}]
            for given in ({"glossary_ids": [stored]}, {"glossary": {"tea": "Kamillentee"}}):
                result = await client.call_tool(
                    "translate_text", {"text": "A cup of tea.", **direction, **given}
                )
                assert "Kamillentee" in text_of(result)
            page = '<p class="x">I like <b>red</b> cars.</p>'
            result = await client.call_tool(
                "translate_text", {"text": [page, "<i>A house.</i>"], "format": "html", **direction}
            )
            assert [block.text for block in result.content if block.type == "text"] == [
                '<p class="x">Ich mag <b>rote</b> Autos.</p>',
                "<i>Ein Haus.</i>",
            ]
    finally:
        gateway.request("DELETE", f"/api/v1/glossaries/{stored}")


@pytest.mark.parametrize("mode", MODES)
async def test_a_document_is_translated_and_read_as_a_resource(
    gateway: RunningGateway, mode: Mode
) -> None:
    page = "<!doctype html><p>I like <b>red</b> cars.</p>"
    for given in (
        {"content": page},
        {"content_base64": base64.b64encode(page.encode()).decode()},
    ):
        async with connected(gateway, mode) as client:
            result = await client.call_tool(
                "translate_document",
                {"file_name": "a.html", "target_language": "de", **given},
            )
            assert "<b>rote</b>" in text_of(result)
            (link,) = (block for block in result.content if block.type == "resource_link")
            assert (link.name, link.mime_type) == ("a.html", "text/html")
            resources = (await client.list_resources()).resources
            assert str(link.uri) in [str(resource.uri) for resource in resources]
            (content,) = (await client.read_resource(str(link.uri))).contents
            assert getattr(content, "text", "") == text_of(result)


@pytest.mark.parametrize("mode", MODES)
async def test_the_clients_errors(gateway: RunningGateway, mode: Mode) -> None:
    async with connected(gateway, mode) as client:
        given = {"text": "a", "target_language": "Klingon"}
        result = await client.call_tool("translate_text", given)
        assert (result.is_error, "not supported" in text_of(result)) == (True, True)
        for call in (
            client.call_tool("translate_everything", {}),
            client.read_resource("dragoman://documents/none"),
            client.read_resource("file:///etc/passwd"),
        ):
            with pytest.raises(MCPError):
                await call


@pytest.mark.parametrize("mode", MODES)
async def test_keys_and_limits(start_gateway: StartGateway, tmp_path: Path, mode: Mode) -> None:
    size = len(ENGLISH)
    added = keys(tmp_path, "add", "--characters-per-month", str(size), "--protocols", "mcp")
    with start_gateway(folder=tmp_path) as gateway:
        wait_for_status(gateway, None, 401)
        given = {"text": ENGLISH, "target_language": "de"}

        async with connected(gateway, mode, added["key"]) as client:
            assert text_of(await client.call_tool("translate_text", given)) == GERMAN
            refused = await client.call_tool("translate_text", given)
            assert (refused.is_error, "month" in text_of(refused)) == (True, True)
        for key in (None, "wrong"):
            with pytest.raises((MCPError, ExceptionGroup, httpx2.HTTPError)):
                async with connected(gateway, mode, key) as client:
                    await client.call_tool("translate_text", given)
        gateway.stop()
    (listed,) = keys(tmp_path, "list")["keys"]
    assert listed["used"] == {"characters": size, "requests": 1}


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_stops_the_decoder(
    gateway: RunningGateway, shipped: Served, mode: Mode
) -> None:
    given = {"text": " ".join(shipped.long_work()), "target_language": "de"}
    async with connected(gateway, mode) as client:
        loop = asyncio.get_running_loop()
        await asyncio.to_thread(
            shipped.cancel,
            lambda: asyncio.run_coroutine_threadsafe(
                client.call_tool("translate_text", given), loop
            ),
            lambda calling: calling.cancel(),
        )
