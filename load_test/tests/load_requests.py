"""Single requests of the load test."""

from __future__ import annotations

import asyncio

from dragoman_load_test.requests.senders import Answered, open_senders
from dragoman_load_test.requests.target import Target


def send(target: Target, *texts: str) -> Answered:
    """The answer to one request."""

    async def run() -> Answered:
        async with open_senders(target, [texts]) as (only,):
            return await only()

    return asyncio.run(run())
