"""Clients of the gateway that disconnect at random times, during every kind of request.

Work that nobody waits for is cancelled, down to the decoder. That must not crash Triton, which some
cancelled calls can do (docs/security.md), and must leave nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import time
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

from tests.campaigns.gateway_damage import Call
from tests.campaigns.gateway_fuzz import is_right
from tests.campaigns.http_damage import request
from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer

_BATCH = 100
_THREADS = 6
_SETTLE_S = 5.0
_RESET = struct.pack("ii", 1, 0)
_SENTENCE = "I would like a cup of tea, but my sister does not want to drink anything at all today."
_SENTENCES = [f"{_SENTENCE} It is number {number}." for number in range(300)]
_NEW: Mapping[str, Any] = {"target_language": "de", "store": False}
_WAYS: Mapping[str, tuple[Call, float]] = {
    "a sentence": (Call("POST", "/api/v1/translate", {"text": _SENTENCE, **_NEW}), 0.02),
    "a sentence in the cache": (
        Call("POST", "/translate", {"q": _SENTENCE, "source": "en", "target": "de"}),
        0.02,
    ),
    "300 sentences": (Call("POST", "/api/v1/translate", {"text": _SENTENCES, **_NEW}), 0.4),
    "a stream": (
        Call("POST", "/api/v1/translate/stream", {"text": _SENTENCE, "target_language": "de"}),
        0.03,
    ),
    "alternatives": (
        Call("POST", "/api/v1/alternatives", {"text": _SENTENCE, "target_language": "de"}),
        0.05,
    ),
    "DeepL": (Call("POST", "/v2/translate", {"text": [_SENTENCE] * 20, "target_lang": "DE"}), 0.1),
}
"""Requests, and the time within which their clients disconnect, similar to the response time."""


def run(plan: Plan) -> Outcome:
    """Disconnect during six thousand requests."""
    outcome = Outcome("hang-ups", requests=plan.of(6000, 600))
    with CampaignServer(gateway=True) as server, ThreadPoolExecutor(_THREADS) as threads:
        port = server.gateway_port
        outcome.before = server.usage()
        for begin in range(0, outcome.requests, _BATCH):
            seeds = [f"{plan.seed} {number}" for number in range(begin, begin + _BATCH)]
            list(threads.map(lambda seed: _hang_up(port, Random(seed)), seeds))
            outcome.wrong += not is_right(port)
        server.settle(_SETTLE_S)
        outcome.after, outcome.crashes = server.usage(), server.crashes
        left = _in_flight(port)
        outcome.figures["tracebacks"] = server.log.count("Traceback")
    outcome.bounds.append(Bound("tracebacks in the log", outcome.figures["tracebacks"], 0))
    outcome.bounds.append(Bound("requests that go on without a client", left, 0))
    return outcome


def _hang_up(port: int, chance: Random) -> None:
    """Send a request, and close the connection at a random time."""
    call, answer_s = _WAYS[chance.choice(list(_WAYS))]
    body = json.dumps(call.fields).encode()
    head = [b"Content-Type: application/json"]
    sent = request(call.path, body, head, method=call.method.encode())
    with (
        contextlib.suppress(OSError),  # a server that restarts; it is counted
        socket.create_connection(("127.0.0.1", port), 10) as client,
    ):
        client.sendall(sent.replace(b"Host: x\r\n", b"Host: localhost\r\n", 1))
        time.sleep(chance.random() * answer_s)
        if chance.random() < 0.5:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _in_flight(port: int) -> float:
    """Requests in progress in the gateway, without the one for its metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        metrics = answer.read().decode()
    counts = re.findall(r"^dragoman_gateway_requests_in_flight\S* (\S+)", metrics, re.MULTILINE)
    return sum(map(float, counts)) - 1
