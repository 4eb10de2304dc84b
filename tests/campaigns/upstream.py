"""HTTP requests that crash Triton 24.10 by its own bugs.

A JSON tensor that claims an enormous shape: Triton reserves memory before it reads the data. A text
output requested as a classification: Triton divides by the size of an element, which is 0. Nothing
in the server can prevent it; the restart handles what reaches Triton.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from typing import Any

from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.sentence import Prober
from tests.campaigns.server import CampaignServer

_ELEMENTS = 10**12
"""Beyond any address space; a smaller size would really be reserved and fill the memory."""
_MOST_OUTAGE_S = 1.0
_PAUSE_S = 1.0
_BACK_S = 20.0

_REQUESTS: tuple[dict[str, Any], ...] = (
    {"inputs": [{"name": "text_input", "shape": [1, _ELEMENTS], "datatype": "INT32", "data": [1]}]},
    {
        "inputs": [{"name": "text_input", "shape": [1, 1], "datatype": "BYTES", "data": ["Hi."]}],
        "outputs": [{"name": "text_output", "parameters": {"classification": 1}}],
    },
)


def run(plan: Plan) -> Outcome:
    """Send the requests several times, and measure how long each restart takes."""
    outcome = Outcome("upstream")
    with CampaignServer() as server, Prober(server.http_port) as prober:
        outcome.before = server.usage()
        for number in range(plan.of(6, 2)):
            body = json.dumps(_REQUESTS[number % len(_REQUESTS)])
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
    outcome.bounds.append(
        Bound("longest outage, s", prober.longest_outage_s, _MOST_OUTAGE_S, timed=True)
    )
    return outcome
