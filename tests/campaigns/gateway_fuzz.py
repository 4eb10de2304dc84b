"""Damaged requests to the gateway, over all its protocols: none may be answered with 500."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from random import Random

from tests.campaigns.fuzzing import Ended, fuzz
from tests.campaigns.gateway_damage import KINDS
from tests.campaigns.http_fuzz import Sent, send
from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer

_FAULT = 500
TEXT, TRANSLATION = "I have two books.", "Ich habe zwei Bücher."
_CALL = {"name": "translate_text", "arguments": {"text": TEXT, "target_language": "de"}}


def run(plan: Plan) -> Outcome:
    """Send ten thousand damaged requests."""
    outcome = Outcome("gateway")
    requests: list[Sent] = []
    with CampaignServer(gateway=True) as server:
        port = server.gateway_port

        def send_one(chance: Random) -> Ended:
            sent = send(port, KINDS, chance)
            requests.append(sent)
            return sent.end

        count = plan.of(10_000, 1500)
        fuzz(outcome, server, send_one, count, plan.seed, lambda: is_right(port))
        tracebacks = server.log.count("Traceback")
    statuses = Counter(request.status for request in requests)
    faults = Counter(request.kind.name for request in requests if request.status == _FAULT)
    outcome.figures["statuses"] = {str(status): statuses[status] for status in sorted(statuses)}
    outcome.figures["500 by kind"] = dict(faults)
    outcome.bounds.append(Bound("answers of 500", faults.total(), 0))
    outcome.bounds.append(Bound("tracebacks in the log", tracebacks, 0))
    return outcome


def is_right(port: int) -> bool:
    """Whether a sentence is translated correctly over each protocol, without the cache."""
    bodies = {
        "/api/v1/translate": {"text": TEXT, "target_language": "de", "store": False},
        "/translate": {"q": TEXT, "source": "en", "target": "de"},
        "/v2/translate": {"text": [TEXT], "source_lang": "EN", "target_lang": "DE"},
        "/v2/models/translate/generate": {"text_input": TEXT, "target_language": "de"},
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
