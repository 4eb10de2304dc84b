"""Requests for random language pairs, from separate processes.

Responses are kept whole, since only later they can be compared with what each model translates
alone.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from dragoman_client import AsyncTranslator, TranslationError

from tests.campaigns.background import Background
from tests.campaigns.load import HUNG, LATE_S

MAX_TOKENS = 24
"""Token limit, as random models seldom end a translation by themselves."""
_WIDTHS = (1, 4)
_FOREVER_S = 3600.0
_LIFE_S = 1.0, 4.0
"""Lifetime of clients that are killed, minimum and maximum."""


@dataclass(frozen=True)
class PairLoad:
    """What to send, and where.

    Attributes:
        url: of the server.
        directions: source and target language; each request has one.
        texts: each request has one.
        max_tokens: of a translation.
        deadline_s: of a request.
        interval_s: least time between two requests of a client.
    """

    url: str
    directions: Sequence[tuple[str, str]]
    texts: Sequence[str]
    deadline_s: float
    max_tokens: int = MAX_TOKENS
    interval_s: float = 0.0


@dataclass(frozen=True)
class Question:
    """The content of a request."""

    direction: tuple[str, str]
    beam_width: int
    text: str

    def options(self, max_tokens: int) -> dict[str, Any]:
        """Options of the request, without further searches: they may fail as a model is removed."""
        source, target = self.direction
        return {
            "source_language": source,
            "target_language": target,
            "beam_width": self.beam_width,
            "max_tokens": max_tokens,
            "repair": False,
            "keep_placeholders": False,
        }


@dataclass(frozen=True)
class Reply:
    """The result of a request: a translation and the identity of its bundle, or a fault."""

    question: Question
    took_s: float
    text: str = ""
    bundle: str = ""
    fault: str = ""


def closed_loop(load: PairLoad, clients: int, seconds: float, seed: int) -> list[Reply]:
    """Clients that each send one request after the other, to run in a separate process."""
    return asyncio.run(_closed_loop(load, clients, seconds, seed))


async def _closed_loop(load: PairLoad, clients: int, seconds: float, seed: int) -> list[Reply]:
    end_s = time.monotonic() + seconds
    replies: list[Reply] = []

    async def client(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        async with AsyncTranslator(load.url, timeout_s=load.deadline_s, retries=0) as translator:
            while (begin_s := time.monotonic()) < end_s:
                replies.append(await _ask(translator, load, chance))
                await asyncio.sleep(begin_s + load.interval_s - time.monotonic())

    await asyncio.gather(*map(client, range(clients)))
    return replies


async def _ask(translator: AsyncTranslator, load: PairLoad, chance: random.Random) -> Reply:
    question = Question(
        chance.choice(load.directions), chance.choice(_WIDTHS), chance.choice(load.texts)
    )
    begin_s = time.monotonic()
    options = question.options(load.max_tokens)
    try:
        translation = await asyncio.wait_for(
            translator.translate(question.text, return_bundle=True, **options),
            load.deadline_s + LATE_S,
        )
    except TimeoutError:
        return Reply(question, time.monotonic() - begin_s, fault=HUNG)
    except TranslationError as error:
        fault = f"{type(error).__name__}: {error}"
        return Reply(question, time.monotonic() - begin_s, fault=fault)
    return Reply(question, time.monotonic() - begin_s, translation.text, translation.bundle or "")


class DyingClients(Background):
    """Processes full of clients, each killed after some seconds with its requests in flight."""

    def __init__(self, load: PairLoad, clients: int, seed: int) -> None:
        """Prepare; entering the context starts the first one."""
        super().__init__()
        self.deaths = 0
        self._load, self._clients = load, clients
        self._chance = random.Random(seed)

    def _run(self) -> None:
        context = multiprocessing.get_context("spawn")
        while not self._stopping.is_set():
            arguments = (self._load, self._clients, _FOREVER_S, self.deaths)
            process: BaseProcess = context.Process(target=closed_loop, args=arguments)
            process.start()
            self._stopping.wait(self._chance.uniform(*_LIFE_S))
            process.kill()
            process.join()
            self.deaths += 1
