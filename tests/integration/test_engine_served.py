"""The engine behind Triton: deadlines, cancellation, metrics, and its death."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import pytest
import tritonclient.grpc as triton_grpc
from dragoman_client import ServerUnavailable
from dragoman_serving.engine.histogram import BOUNDS_S
from dragoman_serving.launch.launcher import Ended

from tests.servers import WAIT_S, Served, serving, tensor, wait_for


def test_metrics_follow_the_work(shipped: Served) -> None:
    """Prometheus' `histogram_quantile` computes the server's own percentiles from the buckets."""
    time.sleep(1)  # by then, metrics of earlier requests are written
    names = ("queue_seconds", "first_token_seconds", "total_seconds")
    before = {name: shipped.buckets(name) for name in names}
    tokens = shipped.metric("output_tokens_total")
    translations = shipped.grpc.translate(["I'm hungry.", "Good morning.", "Good evening."])
    tokens += sum(translation.output_tokens for translation in translations)
    sentences = before["total_seconds"]["+Inf"] + 3
    wait_for(lambda: shipped.buckets("total_seconds")["+Inf"] == sentences)
    assert shipped.metric("output_tokens_total") == tokens
    assert shipped.metric("rows_limit") > 0
    for name in names:
        buckets = shipped.buckets(name)
        assert list(buckets) == [*(f"{bound_s:g}" for bound_s in BOUNDS_S), "+Inf"]
        assert list(buckets.values()) == sorted(buckets.values())
        assert buckets["+Inf"] == before[name]["+Inf"] + 3
        assert buckets["60"] == before[name]["60"] + 3
        assert shipped.metric(f"{name}_count") == buckets["+Inf"]
        assert shipped.metric(f"{name}_sum") > 0
    assert shipped.metric("total_seconds_count") == shipped.metric("sentences_total")


LATE = r"^CANCELLED: (the deadline pass|the request takes about .* and its time is 0\.[012] s)"
"""Refused on arrival if the engine's speed is known already."""


@pytest.mark.parametrize("where", ["parameter", "grpc"])
def test_a_deadline_ends_a_request(shipped: Served, where: str) -> None:
    texts = shipped.long_work()
    before = shipped.metric("sentences_overdue_total")
    if where == "parameter":
        status, answer = shipped.generate(
            {"text_input": texts, "beam_width": 4, "timeout": 200_000}
        )
        assert status == 400
        assert re.search(LATE, answer["error"])
    else:
        client = triton_grpc.InferenceServerClient(shipped.server.grpc_url.removeprefix("grpc://"))
        with client, pytest.raises(triton_grpc.InferenceServerException) as caught:
            client.infer("translate", [tensor(texts)], timeout=200_000)
        assert caught.value.status() == "StatusCode.CANCELLED"
        assert re.search(LATE, caught.value.message())
    wait_for(lambda: shipped.metric("sentences_overdue_total") > before)
    wait_for(lambda: shipped.metric("rows") == shipped.metric("waiting") == 0)


def test_priority_needs_the_operators_permission(shipped: Served) -> None:
    status, answer = shipped.generate({"text_input": "a", "queue_priority": 3})
    assert status == 400
    assert answer["error"].startswith("option queue_priority is not allowed by this server {")


def test_a_dead_engine_ends_the_wait() -> None:
    with serving() as served:
        ended: list[Ended] = []
        waiting = threading.Thread(target=lambda: ended.append(served.server.wait()))
        waiting.start()
        assert served.grpc.translate("I'm hungry.").text == "Ich habe Hunger."
        assert served.server.engine
        os.kill(served.server.engine.pid, signal.SIGKILL)
        waiting.join(WAIT_S)
        assert ended == [Ended("the engine's process has died; the log above says why")]
        with pytest.raises(ServerUnavailable, match="the engine's process has gone"):
            served.grpc.translate("I'm hungry.")
