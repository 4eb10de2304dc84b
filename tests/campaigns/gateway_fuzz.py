"""Damaged requests to the gateway, over all its protocols: none may be answered with 500."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from random import Random

from tests.campaigns.gateway_damage import KINDS
from tests.campaigns.http_damage import Step
from tests.campaigns.http_fuzz import is_complete, play
from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer

_BATCH = 250
_THREADS = 6
_ANSWER_S = 25.0
_UNOWED_S = 0.5
_BACK_S = 20.0
_NO_ANSWER, _HUNG = 0, -1
_FAULT = 500
TEXT, TRANSLATION = "I have two books.", "Ich habe zwei Bücher."
_CALL = {"name": "translate_text", "arguments": {"text": TEXT, "target_language": "de"}}


def run(plan: Plan) -> Outcome:
    """Send ten thousand damaged requests."""
    outcome = Outcome("gateway", requests=plan.of(10_000, 1500))
    statuses: Counter[int] = Counter()
    faults: Counter[str] = Counter()
    with CampaignServer(gateway=True) as server, ThreadPoolExecutor(_THREADS) as threads:
        port = server.gateway_port
        outcome.before = server.usage()
        for begin in range(0, outcome.requests, _BATCH):
            seeds = [f"{plan.seed} {n}" for n in range(begin, begin + _BATCH)]
            for kind, owed, status in threads.map(lambda seed: _send(port, Random(seed)), seeds):
                statuses[status] += 1
                outcome.hangs += status == _HUNG
                outcome.lost += owed and status == _NO_ANSWER
                faults[kind] += status == _FAULT
            if not is_right(port):
                outcome.wrong += 1
                with contextlib.suppress(TimeoutError):
                    server.wait_until_good(_BACK_S)
        outcome.crashes = server.crashes
        outcome.figures["tracebacks"] = server.log.count("Traceback")
        server.settle(2.0)
        outcome.after = server.usage()
    outcome.figures["statuses"] = {str(status): statuses[status] for status in sorted(statuses)}
    outcome.figures["500 by kind"] = {kind: count for kind, count in faults.items() if count}
    outcome.bounds.append(Bound("answers of 500", faults.total(), 0))
    outcome.bounds.append(Bound("tracebacks in the log", outcome.figures["tracebacks"], 0))
    return outcome


def is_right(port: int) -> bool:
    """Whether a sentence is translated correctly over each protocol, without the cache."""
    bodies = {
        "/api/v1/translate": {"text": TEXT, "target_language": "de", "store": False},
        "/translate": {"q": TEXT, "source": "en", "target": "de"},
        "/v2/translate": {"text": [TEXT], "source_lang": "EN", "target_lang": "DE"},
        "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL},
        "/immersive-translate": {"text_list": [TEXT], "source_lang": "en", "target_lang": "de"},
        "/v1/chat/completions": {"model": "en-de", "messages": [{"role": "user", "content": TEXT}]},
    }
    for path, body in bodies.items():
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                if TRANSLATION not in json.dumps(json.load(answer), ensure_ascii=False):
                    return False
        except (OSError, ValueError):
            return False
    return True


def _send(port: int, chance: Random) -> tuple[str, bool, int]:
    """Send a request: its kind, whether a response is required, and the status received."""
    (kind,) = chance.choices(KINDS, [kind.weight for kind in KINDS])
    steps = kind.make(chance)
    wait_s = _ANSWER_S if kind.is_whole else _UNOWED_S
    begin_s = time.monotonic()
    status = _NO_ANSWER
    try:
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            status = _exchange(client, steps, wait_s)
    except TimeoutError:
        status = _HUNG if kind.is_whole else _NO_ANSWER
    except OSError:
        pass  # it closed the connection: there is no response
    if time.monotonic() - begin_s > _ANSWER_S:
        status = _HUNG
    return kind.name, kind.is_whole, status


def _exchange(client: socket.socket, steps: list[Step], wait_s: float) -> int:
    client.settimeout(wait_s)
    received = b""
    try:
        if not play(client, steps):
            return _NO_ANSWER
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may have answered before closing
    with contextlib.suppress(ConnectionResetError):
        while not is_complete(received):
            part = client.recv(65536)
            if not part:
                break
            received += part
    if not received.startswith(b"HTTP/1."):
        return _NO_ANSWER
    return int(received.split(b" ", 2)[1])
