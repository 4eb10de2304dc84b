"""A real gateway at the engine's socket of the shared server, and more gateways for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateways import RunningGateway, StartGateway, run_gateway
from tests.servers import WAIT_S, Served


@pytest.fixture(scope="session")
def start_gateway(shipped: Served) -> StartGateway:
    """Starts another gateway for the session's engine: `with start_gateway(cache_bytes=0) as it`.

    Takes fields of `GatewaySettings`; see `run_gateway`.
    """

    def start(*words: str, **how: Any) -> contextlib.AbstractContextManager[RunningGateway]:
        urls = {"triton": shipped.server.engine_url, "triton_http": shipped.server.http_url}
        return run_gateway(*words, **{**urls, **how})

    return start


@pytest.fixture(scope="session")
def gateway(
    start_gateway: StartGateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """The session's gateway: default settings, but with a folder, and for slow machines."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with start_gateway(folder=folder, timeout_s=WAIT_S) as running:
        yield running
