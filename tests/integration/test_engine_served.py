"""The engine behind Triton: deadlines, cancellation, metrics, and its death."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as triton_grpc
from dragoman_client import Translator

from serving.launcher import ServeOptions, TritonServer
from serving.processes import children
from tests.conftest import REPOSITORY
from tests.integration.conftest import Served

MANY = ["The weather is very nice today, and we are going to the beach with our friends."] * 3000
WAIT_S = 30


def metric(shipped: Served, name: str) -> float:
    address = f"http://127.0.0.1:{shipped.server.ports.metrics}/metrics"
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(rf'^dragoman_{name}{{model="translate"}} (\S+)$', text, re.MULTILINE)
    assert found, name
    return float(found[1])


def wait_for(condition: object) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_metrics_follow_the_work(shipped: Served) -> None:
    time.sleep(1)  # what was done before is written by now
    before = {n: metric(shipped, n) for n in ("sentences_total", "output_tokens_total")}
    found = shipped.grpc.translate(["I'm hungry.", "Good morning."])
    tokens = sum(translation.output_tokens for translation in found)
    wait_for(lambda: metric(shipped, "sentences_total") == before["sentences_total"] + 2)
    assert metric(shipped, "output_tokens_total") == before["output_tokens_total"] + tokens
    assert metric(shipped, "rows_limit") > 0
    assert metric(shipped, "first_token_seconds_total") > 0


@pytest.mark.parametrize("where", ["parameter", "grpc"])
def test_a_deadline_ends_a_request(shipped: Served, where: str) -> None:
    before = metric(shipped, "sentences_overdue_total")
    if where == "parameter":
        status, answer = shipped.generate({"text_input": MANY, "timeout": 200_000})
        assert status in (400, 499)  # newer servers know the code
        assert "the deadline passed" in answer["error"]
    else:
        client = triton_grpc.InferenceServerClient(shipped.server.grpc_url.removeprefix("grpc://"))
        with client, pytest.raises(triton_grpc.InferenceServerException, match="deadline passed"):
            client.infer("translate", [tensor(MANY)], timeout=200_000)
    wait_for(lambda: metric(shipped, "sentences_overdue_total") > before)
    wait_for(lambda: metric(shipped, "rows") == metric(shipped, "waiting") == 0)


def test_a_cancelled_request_frees_its_rows(shipped: Served) -> None:
    before = metric(shipped, "sentences_cancelled_total")
    ended = threading.Event()
    client = triton_grpc.InferenceServerClient(shipped.server.grpc_url.removeprefix("grpc://"))
    with client:
        call = client.async_infer(
            "translate", [tensor(MANY)], callback=lambda result, error: ended.set()
        )
        wait_for(lambda: metric(shipped, "rows") > 0)
        call.cancel()
        assert ended.wait(WAIT_S)
        wait_for(lambda: metric(shipped, "sentences_cancelled_total") > before)
        wait_for(lambda: metric(shipped, "rows") == metric(shipped, "waiting") == 0)


def test_priority_needs_the_operators_leave(shipped: Served) -> None:
    status, answer = shipped.generate({"text_input": "a", "queue_priority": 3})
    assert (status, answer["error"]) == (400, "option queue_priority is not allowed by this server")


def test_a_dead_model_ends_the_wait() -> None:
    options = ServeOptions(
        REPOSITORY / "model_repository", http_port=0, grpc_port=0, metrics_port=0
    )
    with TritonServer(options) as server, Translator(server.grpc_url) as client:
        ended: list[str] = []
        waiting = threading.Thread(target=lambda: ended.append(server.wait()))
        waiting.start()
        assert client.translate("I'm hungry.").text == "Ich habe Hunger."
        os.kill(children(server.pid)[0], signal.SIGKILL)
        waiting.join(WAIT_S)
        assert ended == ["a model's process has died; the log above says why"]


def tensor(texts: list[str]) -> triton_grpc.InferInput:
    made = triton_grpc.InferInput("text_input", [1, len(texts)], "BYTES")
    made.set_data_from_numpy(np.array([[text.encode() for text in texts]], dtype=np.object_))
    return made
