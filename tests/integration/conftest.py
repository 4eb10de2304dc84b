"""Running servers for the integration tests."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from dragoman_client import Translator

from serving.launcher import ServeOptions, TritonServer
from tests.conftest import REPOSITORY


@dataclass(frozen=True)
class Served:
    """A running server and a client for each protocol."""

    server: TritonServer
    grpc: Translator
    http: Translator

    def generate(self, body: bytes | dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Post to the `generate` endpoint: status and JSON."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.server.http_url}/v2/models/translate/generate",
            data=raw,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


@pytest.fixture(scope="session")
def shipped() -> Iterator[Served]:
    """The shipped model, served on free ports."""
    options = ServeOptions(
        REPOSITORY / "model_repository", http_port=0, grpc_port=0, metrics_port=0
    )
    with (
        TritonServer(options) as server,
        Translator(server.grpc_url) as grpc,
        Translator(server.http_url) as http,
    ):
        yield Served(server, grpc, http)
