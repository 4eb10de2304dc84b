"""Requests, cancellations, failures and bundle changes in any order, with one cache."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from dragoman_client import DeadlineExceeded, Translation
from dragoman_gateway.core.caller import ANONYMOUS
from dragoman_gateway.core.errors import GatewayError
from dragoman_gateway.texts import server_status
from dragoman_gateway.texts.translations import Translations
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.gateway.texts.model_server import ModelServer, translations_of

OPTIONS: Mapping[str, Any] = {
    "source_language": "en",
    "target_language": "de",
    "return_bundle": True,
}
TEXTS = ("One.", "Two.", "One. Two.", "Two. Three. One.", "Three.", "Four. " * 40)
TURNS = 20
"""Iterations of the event loop after which nothing continues by itself."""


class SteeredServer(ModelServer):
    """Answers each call when the test says so.

    Attributes:
        open: the waiting calls, in order; an error that is put in is raised, else it answers.
        bundles: identities that it had, the present one last.
    """

    def __init__(self) -> None:
        super().__init__()
        self.open: list[asyncio.Future[None]] = []
        self.bundles = [self.bundle]

    async def translate_checked(
        self, texts: Sequence[str], options: Mapping[str, Any]
    ) -> list[Translation]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.open.append(future)
        try:
            await future
        finally:
            self.open.remove(future)
        return await super().translate_checked(texts, options)

    def swap(self, number: int) -> None:
        """Switch to another model, or to an earlier one."""
        self.bundle = f"{number % 3:064x}"
        self.bundles.append(self.bundle)


@dataclass
class Asked:
    """A request in progress."""

    task: asyncio.Task[list[Translation]]
    texts: list[str]
    options: dict[str, Any]
    first_bundle: int
    """Index of the server's bundle when the request started."""
    is_given_up: bool = False


class Race:
    """Runs the steps of an example, and checks the results."""

    def __init__(self) -> None:
        self.server = SteeredServer()
        self.gateway: Translations = translations_of(self.server, cache_bytes=4000)
        self.asked: list[Asked] = []
        self.has_failed = False

    def ask(self, texts: Sequence[int], beam_width: int, store: bool) -> None:
        """Start a request."""
        chosen = [TEXTS[index] for index in texts]
        options = {**OPTIONS, "beam_width": beam_width}
        asking = self.gateway.translate_admitted(ANONYMOUS, chosen, options, store=store)
        first_bundle = len(self.server.bundles) - 1
        self.asked.append(Asked(asyncio.create_task(asking), chosen, options, first_bundle))

    def cancel(self, index: int) -> None:
        """Cancel one of the requests."""
        if self.asked:
            request = self.asked[index % len(self.asked)]
            request.is_given_up = True
            request.task.cancel()

    def answer(self, index: int) -> None:
        """Let the server answer one of its calls."""
        if waiting := [future for future in self.server.open if not future.done()]:
            waiting[index % len(waiting)].set_result(None)

    def fail(self, index: int) -> None:
        """Let one of its calls fail."""
        if waiting := [future for future in self.server.open if not future.done()]:
            self.has_failed = True
            waiting[index % len(waiting)].set_exception(DeadlineExceeded("late"))

    def swap(self, number: int) -> None:
        """Switch the server to another model."""
        self.server.swap(number)

    async def finish(self) -> None:
        """Answer everything, and check all responses."""
        for _ in range(100):
            for _ in range(TURNS):
                await asyncio.sleep(0)
            self.check_cache()
            if all(request.task.done() for request in self.asked):
                break
            self.answer(0)
        for request in self.asked:
            await self.check(request)
        assert self.server.open == []  # no call without a waiting request

    async def check(self, request: Asked) -> None:
        """Check how a request ended: the bundle that it names gives the translation of each
        text."""
        assert request.task.done()
        if request.task.cancelled():
            assert request.is_given_up
            return
        if request.task.exception() is not None:
            assert isinstance(request.task.exception(), GatewayError)
            assert self.has_failed
            return
        for text, translation in zip(request.texts, request.task.result(), strict=True):
            assert translation.bundle in self.server.bundles[request.first_bundle :]
            alone = ModelServer()
            alone.bundle = translation.bundle
            assert [translation] == await alone.translate_checked([text], request.options)

    def check_cache(self) -> None:
        """Its counts match its content, which is within its limit."""
        cache = self.gateway._cache
        counted = sum(size for _, size in cache._entries.values())
        assert cache.counts.size_bytes == counted <= 4000
        assert cache.counts.entries == len(cache._entries)


NUMBER = st.integers(0, 9)
ASK = st.tuples(
    st.just("ask"),
    st.lists(st.integers(0, len(TEXTS) - 1), min_size=1, max_size=3),
    st.integers(1, 2),  # beam
    st.sampled_from((True, True, True, False)),
)
OTHERS = st.tuples(st.sampled_from(("answer", "answer", "answer", "cancel", "fail")), NUMBER)
SWAP = st.tuples(st.just("swap"), NUMBER)
TURNED = st.sampled_from((0, 0, 1, 2, 3, 5, 8, TURNS))
ACTIONS = st.lists(
    st.tuples(st.one_of(ASK, ASK, OTHERS, OTHERS, SWAP), TURNED),
    min_size=15,
    max_size=40,
)


@given(ACTIONS)
@settings(max_examples=120)
async def test_answers_come_from_a_model_that_was_served(
    actions: list[tuple[tuple[Any, ...], int]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_status, "_CONFIRMED_S", -1.0)  # each request queries the model
        race = Race()
        for (name, *values), turns in actions:
            getattr(race, name)(*values)
            for _ in range(turns):
                await asyncio.sleep(0)
        await race.finish()
