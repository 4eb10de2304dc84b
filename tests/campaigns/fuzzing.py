"""Damaged requests in batches of a hundred; after each batch a good sentence must be correct."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from random import Random

from tests.campaigns.outcome import Outcome
from tests.campaigns.sentence import Prober, good_answer
from tests.campaigns.server import CampaignServer

BATCH = 100
_THREADS = 6
_BACK_S = 20.0
_SETTLE_S = 2.0


class Ended(Enum):
    """How a damaged request ended."""

    ANSWERED = "answered"
    LEFT = "the client left or the server closed"
    HUNG = "hung"
    LOST = "lost"


def fuzz(
    outcome: Outcome,
    server: CampaignServer,
    send: Callable[[Random], Ended],
    count: int,
    seed: int,
    is_right: Callable[[], bool] = lambda: True,
) -> None:
    """Send damaged requests and record their results and the server's state.

    Args:
        outcome: collects the results.
        server: the server under attack.
        send: makes a request from a random generator, sends it, and waits for its end.
        count: number of requests, a multiple of `BATCH`.
        seed: request number n depends only on `seed` and n.
        is_right: whether other good requests have right answers; asked after each batch.
    """
    outcome.before = server.usage()
    ends: Counter[Ended] = Counter()
    with Prober(server.http_port) as prober, ThreadPoolExecutor(_THREADS) as threads:
        for begin in range(0, count, BATCH):
            seeds = (f"{seed} {number}" for number in range(begin, begin + BATCH))
            ends.update(threads.map(lambda seed: send(Random(seed)), seeds))
            if not good_answer(server.http_port) or not is_right():
                outcome.wrong += 1
                server.revive(_BACK_S)
    server.settle(_SETTLE_S)
    outcome.requests += ends.total()
    outcome.figures["ends"] = {end.value: number for end, number in ends.items()}
    outcome.hangs += ends[Ended.HUNG]
    outcome.lost += ends[Ended.LOST]
    outcome.wrong += prober.wrong
    outcome.longest_outage_s = prober.longest_outage_s
    if server.crashes:
        outcome.figures["Triton's last words"] = server.last_words
    outcome.crashes, outcome.after = server.crashes, server.usage()
