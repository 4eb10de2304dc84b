"""Stalls of the event loop are counted, and their place is in the log."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest
from dragoman_gateway.core.stalls import Stalls


def hold_the_lock() -> None:
    """Keep the event loop, and the interpreter's lock, for a while."""
    begin_s = time.monotonic()
    while time.monotonic() < begin_s + 1.5:
        assert re.search("(a*)*b", 22 * "a") is None


async def test_a_stall_is_counted_and_its_place_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with log.open("w") as file:
        monkeypatch.setattr(sys, "stderr", file)
        stalls = Stalls(stall_s=0.5)
        watching = asyncio.create_task(stalls.watch())
        await asyncio.sleep(0.2)
        for _ in range(2):
            hold_the_lock()
            await asyncio.sleep(0.2)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        number = stalls.number
    assert number >= 2  # more on a machine that is too busy
    written = log.read_text("utf-8")
    assert written.count("Timeout (") == 1
    assert "in hold_the_lock" in written
