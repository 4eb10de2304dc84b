"""Documents with markup, generated, damaged and real, through hostile translators.

Runs `client/tests/markup_attack.py`, which needs no server, in a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.campaigns.outcome import Outcome
from tests.campaigns.plan import Plan

_ATTACK = Path(__file__).parents[2] / "client" / "tests" / "markup_attack.py"
_FULL_S, _SHORT_S = 600, 15
_MOST_S = 300
"""Extra time for the document that is being checked and reduced."""


def run(plan: Plan) -> Outcome:
    """Check documents for some time."""
    outcome = Outcome("markup")
    seconds = plan.of(_FULL_S, _SHORT_S)
    command = [sys.executable, str(_ATTACK), "--seconds", str(seconds), "--seed", str(plan.seed)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + _MOST_S, check=False
    )
    if done.returncode != 0:
        outcome.crashes = 1
        outcome.figures["what failed"] = done.stderr[-1500:]
        return outcome
    report = json.loads(done.stdout)
    outcome.requests = sum(report["documents"].values())
    outcome.wrong = len(report["violations"])
    outcome.figures["documents"] = report["documents"]
    outcome.figures |= {
        f"violation {n}": violation for n, violation in enumerate(report["violations"], 1)
    }
    return outcome
