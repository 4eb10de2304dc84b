"""A request that ends Triton 24.10 by a fault of its own: a JSON tensor that claims a huge size.

Triton reserves memory for the stated shape before it reads the data. Nothing here can prevent it;
the proxy refuses JSON `infer` requests, and the restart covers what reaches Triton directly.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time

from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.sentence import Prober
from tests.campaigns.server import CampaignServer

_ELEMENTS = 10**12
"""Beyond any address space; fewer would be reserved in earnest and take the machine's memory."""
_MOST_OUTAGE_S = 1.0
_PAUSE_S = 1.0
_BACK_S = 20.0


def run(plan: Plan) -> Outcome:
    """Send the request some times, and measure how long each restart takes."""
    outcome = Outcome("upstream")
    tensor = {"name": "text_input", "shape": [1, _ELEMENTS], "datatype": "INT32", "data": [1]}
    body = json.dumps({"inputs": [tensor]})
    with CampaignServer() as server, Prober(server.http_port) as prober:
        outcome.before = server.usage()
        for _ in range(plan.of(5, 2)):
            connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=20)
            with (
                contextlib.closing(connection),
                contextlib.suppress(OSError, http.client.HTTPException),
            ):
                connection.request("POST", "/v2/models/translate/infer", body)
                connection.getresponse().read()
            time.sleep(_PAUSE_S)
            outcome.hangs += server.revive(_BACK_S) == "hung"
            outcome.requests += 1
        outcome.after, outcome.crashes = server.usage(), server.gave_up
        outcome.upstream_restarts = server.crashes - server.gave_up
        outcome.figures["Triton's last words"] = server.last_words
    outcome.wrong = prober.wrong
    outcome.longest_outage_s = prober.longest_outage_s
    outcome.bounds.append(Bound("longest outage, s", prober.longest_outage_s, _MOST_OUTAGE_S))
    return outcome
