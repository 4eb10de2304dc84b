"""An overloaded engine: every protocol reports it, and when to retry."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from dragoman_client import TranslationError, Translator
from riva.client import Auth, NeuralMachineTranslationClient

from tests.exchanges import Answer
from tests.gateways import RunningGateway, run_gateway
from tests.servers import WAIT_S, serving


@pytest.fixture(scope="module")
def flooded() -> Iterator[RunningGateway]:
    """A gateway whose server accepts few sentences, and gets many."""
    with (
        serving(parameters={"max_waiting": "16"}) as served,
        run_gateway(
            str(served.server.engine_url), served.server.http_url, riva_port=0, cache_bytes=0
        ) as gateway,
    ):
        stopping = threading.Event()
        threads = [
            threading.Thread(target=_flood, args=(served.server.grpc_url, number, stopping))
            for number in range(24)
        ]
        for thread in threads:
            thread.start()
        yield gateway
        stopping.set()
        for thread in threads:
            thread.join()


def _flood(url: str, number: int, stopping: threading.Event) -> None:
    with Translator(url, retries=0) as translator:
        count = 0
        while not stopping.is_set():
            count += 1
            texts = [f"Ship {number} of {count} has {n} old masts." for n in range(8)]
            with contextlib.suppress(TranslationError):
                translator.translate(texts, source_language="en", target_language="de")


def until_refused(gateway: RunningGateway, path: str, body: dict[str, object]) -> Answer:
    """Send requests until the server is overloaded."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        answer = gateway.post(path, body)
        if answer.status != 200:
            return answer
    pytest.fail("it is never overloaded")


TEXTS = [f"My aunt has {number} cats and one dog." for number in range(8)]


BODIES: dict[str, dict[str, object]] = {
    "/api/v1/translate": {"text": TEXTS, "target_language": "de"},
    "/translate": {"q": TEXTS, "source": "en", "target": "de"},
    "/v2/translate": {"text": TEXTS, "source_lang": "EN", "target_lang": "DE"},
}


def test_http(flooded: RunningGateway) -> None:
    with ThreadPoolExecutor() as pool:  # the gateway retries each for some seconds
        pending = {
            path: pool.submit(until_refused, flooded, path, body) for path, body in BODIES.items()
        }
    for path, answer in {path: future.result() for path, future in pending.items()}.items():
        assert answer.status in (429, 503), (path, answer)
        assert int(answer.headers["retry-after"]) >= 1, path
        assert "wait" in str(answer.json), (path, answer.json)


def test_riva(flooded: RunningGateway) -> None:
    client = NeuralMachineTranslationClient(Auth(uri=flooded.riva))
    deadline = time.monotonic() + WAIT_S
    refused = None
    while refused is None and time.monotonic() < deadline:
        try:
            client.translate(TEXTS, "", "en", "de")
        except grpc.RpcError as error:
            refused = error
    assert refused is not None
    assert refused.code() == grpc.StatusCode.UNAVAILABLE, refused
    assert int(dict(refused.trailing_metadata())["retry-after"]) >= 1
