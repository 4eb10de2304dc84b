"""Waiting single texts with the same options go to the server in one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from dragoman_client import Translation
from dragoman_client.core.trace_context import REQUEST_ID
from dragoman_gateway.core.errors import InvalidInput, Unavailable
from dragoman_gateway.texts.merging import Merging, can_be_merged

from tests.unit.gateway.texts.test_translations import until


class Server:
    """Answers when it is released: each text in capitals."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], Mapping[str, Any]]] = []
        self.ids: list[str] = []
        self.let_go = asyncio.Event()
        self.cancelled = 0
        self.error: Exception | None = None
        self.merging = Merging(self.send)

    async def send(self, texts: Sequence[str], options: Mapping[str, Any]) -> list[Translation]:
        self.asked.append((list(texts), options))
        self.ids.append(REQUEST_ID.get())
        try:
            await self.let_go.wait()
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        if any("refused" in text for text in texts):
            raise InvalidInput(f"text {[*texts].index('refused')} is refused")
        return [Translation(text.upper(), 1, "stop") for text in texts]

    def ask(self, *texts: str, **options: Any) -> list[asyncio.Task[Translation]]:
        return [asyncio.create_task(self.merging.translate(text, options)) for text in texts]

    async def fill(self) -> list[asyncio.Task[Translation]]:
        """Start as many calls as are allowed at once."""
        tasks = []
        for number in range(4):
            tasks += self.ask(f"first {number}")
            await until(lambda n=number: len(self.asked) == n + 1)  # type: ignore[misc]
        return tasks


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """At the end it has no texts left."""
    server = Server()
    yield server
    await until(lambda: not server.merging._lines)


async def test_waiting_texts_are_sent_together(server: Server) -> None:
    tasks = await server.fill()
    tasks += server.ask("a", "b", "c")
    await asyncio.sleep(0.01)
    assert [texts for texts, _ in server.asked] == [[f"first {n}"] for n in range(4)]
    server.let_go.set()
    texts = [translation.text for translation in await asyncio.gather(*tasks)]
    assert texts == [*(f"FIRST {n}" for n in range(4)), "A", "B", "C"]
    assert server.asked[4][0] == ["a", "b", "c"]


async def test_texts_that_arrive_together_are_sent_together(server: Server) -> None:
    server.let_go.set()
    await asyncio.gather(*server.ask(*map(str, range(100))))
    assert [len(texts) for texts, _ in server.asked] == [1, 64, 35]


async def test_texts_with_other_options_are_sent_separately(server: Server) -> None:
    tasks = [*server.ask("a", "b", "c", beam_width=1), *server.ask("d", beam_width=2)]
    server.let_go.set()
    await asyncio.gather(*tasks)
    narrow, wide = {"beam_width": 1}, {"beam_width": 2}
    assert server.asked == [(["a"], narrow), (["d"], wide), (["b", "c"], narrow)]


async def test_a_refused_text_does_not_fail_the_others(server: Server) -> None:
    server.let_go.set()
    tasks = server.ask("first", "a", "refused", "b")
    _, *outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [getattr(outcome, "text", str(outcome)) for outcome in outcomes] == [
        "A",
        "text 0 is refused",
        "B",
    ]
    assert [texts for texts, _ in server.asked[1:]] == [
        *(["a", "refused", "b"], ["a"], ["refused"], ["b"]),
    ]


async def test_other_errors_fail_all_texts(server: Server) -> None:
    server.let_go.set()
    server.error = Unavailable("busy", 2.0)
    tasks = server.ask("first", "a", "b")
    _, *errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert [(str(error), error.retry_after_s) for error in errors] == [("busy", 2.0)] * 2  # type: ignore[union-attr]
    assert errors[0] is not errors[1]
    assert len(server.asked) == 2


async def test_a_request_without_waiting_callers_is_cancelled(server: Server) -> None:
    first, *tasks = server.ask("first", "a", "b", "c")
    await until(lambda: len(server.asked) == 2)
    for number, task in enumerate(tasks):
        assert server.cancelled == 0, number
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.01)
    assert server.cancelled == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert server.cancelled == 2


async def test_a_text_whose_caller_leaves_is_not_sent(server: Server) -> None:
    tasks = await server.fill()
    left, stays = server.ask("left", "stays")
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.gather(left, return_exceptions=True)
    server.let_go.set()
    await asyncio.gather(*tasks, stays)
    assert server.asked[-1][0] == ["stays"]


async def test_an_answer_reaches_the_remaining_callers(server: Server) -> None:
    first, left, stays = server.ask("first", "left", "stays")
    await until(lambda: len(server.asked) == 2)
    left.cancel()
    server.let_go.set()
    assert (await stays).text == "STAYS"
    assert (await first).text == "FIRST"
    assert server.cancelled == 0


@pytest.mark.parametrize(
    ("text", "options", "can"),
    [
        ("Hello.", {}, True),
        ("Hello.", {"beam_width": 4, "suppress": ("a",), "return_bundle": True}, True),
        ("Hello.", {"source_language": "auto"}, True),
        ("x" * 401, {}, False),
        ("Hello.", {"glossary": {"a": "b"}}, False),
        ("Hello.", {"prefix": ("a",)}, False),
        ("Hello.", {"temperature": 1.0}, False),
        ("Hello.", {"return_alignments": "hard"}, False),
    ],
)
def test_which_requests_can_be_merged(text: str, options: dict[str, Any], can: bool) -> None:
    assert can_be_merged(text, options) == can


async def test_a_merged_request_has_the_ids_of_all_its_requests(server: Server) -> None:
    async def translate(text: str, request_id: str) -> None:
        REQUEST_ID.set(request_id)
        await server.merging.translate(text, {})

    given = [("a", "one"), ("b", "two"), ("c", "two"), ("d", "")]
    alone = asyncio.create_task(translate("first", "alone"))
    await until(lambda: bool(server.asked))
    tasks = [asyncio.create_task(translate(*pair)) for pair in given]
    await until(lambda: len(server.asked) == 2)
    server.let_go.set()
    await asyncio.gather(alone, *tasks)
    assert server.asked[1][0] == ["a", "b", "c", "d"]
    assert server.ids == ["alone", "one,two"]
