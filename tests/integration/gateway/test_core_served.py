"""The gateway's core with a real server, through both doors: its responses equal the server's."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest
from dragoman_gateway.core.caller import ANONYMOUS
from dragoman_gateway.core.settings import GatewaySettings
from dragoman_gateway.glossaries.glossaries import Dictionary
from dragoman_gateway.shared.gateway import Gateway

from tests.conftest import REPOSITORY
from tests.servers import WAIT_S, Served, wait_for

OPTIONS: list[dict[str, Any]] = [
    {},
    {"beam_width": 1, "return_bundle": True},
    {"keep_placeholders": True},
    {"source_language": "auto"},
    {"max_sentence_tokens": 12, "beam_width": 1},
    {"return_token_scores": True, "return_alignments": "hard"},
]
PAGES = sorted((REPOSITORY / "docs").glob("*.md"))
"""Real text with lists, tables, wrapped paragraphs and code."""


@pytest.fixture(params=["engine_url", "grpc_url"])
async def gateway(shipped: Served, request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    """A gateway that reaches the server by this URL."""
    urls = getattr(shipped.server, request.param), shipped.server.http_url
    settings = GatewaySettings(triton=urls[0], triton_http=urls[1], timeout_s=WAIT_S)
    async with Gateway(settings) as gateway:
        yield gateway


def texts_of(pages: list[Path], most_characters: int) -> list[str]:
    """Parts of pages with this many characters, wherever they end."""
    texts = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        texts += [text[:most_characters], text[most_characters : 2 * most_characters]]
    return [text for text in texts if text.strip()]


@pytest.mark.parametrize(
    ("gateway", "options"),
    [
        *(("engine_url", options) for options in OPTIONS),
        # Options are the same on both ways.
        ("grpc_url", OPTIONS[1]),
        *(
            pytest.param("grpc_url", options, marks=pytest.mark.thorough)
            for options in (OPTIONS[0], *OPTIONS[2:])
        ),
    ],
    ids=str,
    indirect=["gateway"],
)
async def test_cached_translations_of_real_pages_equal_the_servers(
    gateway: Gateway, options: dict[str, Any]
) -> None:
    given = {"source_language": "en", "target_language": "de", **options}
    texts = texts_of(PAGES[:3] if "beam_width" in options else PAGES[:2], 700)

    of = gateway.translations
    expected = await of.translate_admitted(ANONYMOUS, texts, given, store=False)
    # First some of them, then all in another order: some from the cache, some not.
    order = random.Random(1).sample(range(len(texts)), len(texts))
    await of.translate_admitted(ANONYMOUS, texts[::2], given)
    translations = await of.translate_admitted(ANONYMOUS, [texts[index] for index in order], given)
    assert translations == [expected[index] for index in order]
    misses = gateway.translations.cache_counts.misses
    assert await of.translate_admitted(ANONYMOUS, texts, given) == expected
    counts = gateway.translations.cache_counts
    assert counts.misses - misses <= 0.25 * misses  # translations with faults are not kept
    assert counts.hits > len(texts)


@pytest.mark.parametrize(
    # Options are the same on both ways.
    "gateway",
    ["engine_url", pytest.param("grpc_url", marks=pytest.mark.thorough)],
    indirect=True,
)
async def test_a_whole_glossary_gives_the_same_as_its_terms_that_occur(gateway: Gateway) -> None:
    """The server gets all 900 terms at once; the gateway sends only some of them."""
    words = itertools.chain.from_iterable(page.read_text("utf-8").split() for page in PAGES[:4])
    chosen = [word for word in dict.fromkeys(words) if word.isalpha() and len(word) > 3]
    pairs = [" ".join(pair) for pair in itertools.pairwise(chosen)][:150]
    terms = dict.fromkeys([*random.Random(2).sample(chosen, 750), *pairs], "Zorbhavix")
    texts = texts_of(PAGES[:2], 600)
    options: dict[str, Any] = {"source_language": "en", "target_language": "de"}

    of = gateway.translations
    stored = await gateway.glossaries.create(
        ANONYMOUS, "a", [Dictionary("en", "de", terms, len(terms))]
    )
    expected = await of._requests.translate(texts, glossary=terms, **options)
    given = {**options, "glossary_ids": [stored.id]}
    for store in (False, True, True):
        assert await of.translate_admitted(ANONYMOUS, texts, given, store=store) == expected
    assert any("Zorbhavix" in translation.text for translation in expected)


async def test_a_request_without_waiting_clients_is_cancelled_in_the_decoder(
    shipped: Served, gateway: Gateway
) -> None:
    name = "sentences_cancelled_total"
    before = shipped.metric(name)
    texts = shipped.long_work()
    wait_for(lambda: shipped.metric("rows") == 0)

    of = gateway.translations
    options = {"source_language": "en", "target_language": "de", "beam_width": 4}
    tasks = [
        asyncio.create_task(of.translate_admitted(ANONYMOUS, texts, options)) for _ in range(2)
    ]
    await asyncio.to_thread(wait_for, lambda: shipped.metric("rows") > 0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.to_thread(wait_for, lambda: shipped.metric(name) > before + len(texts) // 4)


@pytest.mark.parametrize("gateway", ["engine_url"], indirect=True)
async def test_a_small_request_is_cancelled_in_the_decoder(
    shipped: Served, gateway: Gateway
) -> None:
    """Over gRPC it would continue: cancelling it could crash Triton."""
    cancelled = "sentences_cancelled_total"
    text = " ".join(shipped.long_work(least=1)[:150])
    options = {"source_language": "en", "target_language": "de", "beam_width": 8}

    async def cancel(begun: Awaitable[None]) -> None:
        await asyncio.to_thread(wait_for, lambda: shipped.metric("rows") == 0)
        before = shipped.metric(cancelled)
        task = asyncio.ensure_future(begun)
        await asyncio.to_thread(wait_for, lambda: shipped.metric("rows") > 0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.to_thread(wait_for, lambda: shipped.metric(cancelled) > before)

    of = gateway.translations

    async def read() -> None:
        async for _ in of.stream(ANONYMOUS, text, options):
            pass

    async def ask() -> None:
        await of.translate_admitted(ANONYMOUS, [text], options, store=False)

    await cancel(ask())
    await cancel(read())
