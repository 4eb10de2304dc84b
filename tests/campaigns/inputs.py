"""Coverage-guided fuzzing of the parsers in Python, by Atheris, without a server.

Only the documented errors may be raised. An input that raises another is shown, and counts as a
crash.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.campaigns.outcome import Outcome
from tests.campaigns.plan import Plan

_TARGETS = ("frames", "manifest", "options", "tokens")
_AT_A_TIME = 2
_LONGEST_BYTES = 4096
_ONE_S = 10
"""Time after which an input counts as hanging."""
_MOST_MIB = 2048
_MOST_S = 300


def run(plan: Plan) -> Outcome:
    """Fuzz each target for some time."""
    outcome = Outcome("inputs")
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        list(threads.map(lambda name: _fuzz(outcome, name, plan), _TARGETS))
    return outcome


def _fuzz(outcome: Outcome, name: str, plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "tests.campaigns.input_targets", name, str(corpus)),
                *(f"-seed={plan.seed}", f"-max_total_time={plan.of(25, 5)}"),
                *(f"-max_len={_LONGEST_BYTES}", f"-timeout={_ONE_S}"),
                *(f"-rss_limit_mb={_MOST_MIB}", f"-artifact_prefix={folder}/"),
                "-print_final_stats=1",
            ],
            capture_output=True,
            timeout=_MOST_S,
            check=False,
        )
        said = done.stderr.decode(errors="replace") + done.stdout.decode(errors="replace")
        counts = {
            "inputs": statistic(said, "stat::number_of_executed_units"),
            "new inputs": statistic(said, "stat::new_units_added"),
        }
        outcome.requests += counts["inputs"]
        outcome.figures[name] = counts
        if done.returncode != 0:
            outcome.crashes += 1
            raised = said[said.find("=== Uncaught Python exception") :] or said[-1500:]
            outcome.figures[f"{name}: what failed"] = raised[:1500]
            for path in sorted(Path(folder).glob("crash-*")):
                outcome.figures[f"{name}: input"] = repr(path.read_bytes()[:1000])


def statistic(said: str, name: str) -> int:
    """A statistic that libFuzzer prints at its end; 0 if it did not get there."""
    match = re.search(rf"^{re.escape(name)}:\s*(\d+)$", said, re.MULTILINE)
    return int(match[1]) if match else 0
