"""Runs the campaign: `python -m tests.campaigns [--short] [--seed N] [--json FILE] [NAME ...]`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path

from tests.campaigns.outcome import Outcome, table
from tests.campaigns.plan import Plan

SUBJECTS = {
    "http": "http_fuzz",
    "grpc": "grpc_fuzz",
    "streams": "streams",
    "gateway": "gateway_fuzz",
    "riva": "riva_fuzz",
    "kserve": "kserve_fuzz",
    "hang-ups": "hang_ups",
    "shares": "shares",
    "upstream": "upstream",
    "faults": "faults",
    "frames": "frames",
    "inputs": "inputs",
    "markup": "markup",
    "overload": "overload",
    "fairness": "fairness",
    "cluster": "cluster",
    "models": "models",
}
"""Module of each subject, in the order in which they run."""
APART = {"frames", "inputs", "markup", "cluster"}
"""Subjects without the server of the others: the short form runs them beside those."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run subjects and print their results.

    Returns:
        0 if every bound holds, else 1. In the short form, bounds that depend on time do not count.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SUBJECTS))
    parser.add_argument("--short", action="store_true", help="the short form, in six minutes")
    parser.add_argument("--seed", type=int, default=1, help="of all random choices (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.names if name not in SUBJECTS]
    if unknown:
        parser.error(f"no subject {unknown[0]!r}; known: {', '.join(SUBJECTS)}")
    plan = Plan(given.short, given.seed)
    print(f"seed {plan.seed}", file=sys.stderr)
    names = given.names or list(SUBJECTS)
    groups = [names]
    if plan.short:
        apart = [name for name in names if name in APART]
        groups = [apart, [name for name in names if name not in APART]]
    with ProcessPoolExecutor(len(groups)) as processes:
        ran = processes.map(_run_all, groups, repeat(plan))
    outcomes = sorted(chain(*ran), key=lambda outcome: names.index(outcome.subject))
    print(table(outcomes))
    if given.json is not None:
        report = {"seed": plan.seed, "subjects": [outcome.as_json() for outcome in outcomes]}
        given.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    broken = [
        (outcome.subject, bound) for outcome in outcomes for bound in outcome.broken(not plan.short)
    ]
    for subject, bound in broken:
        print(f"{subject}: {bound}", file=sys.stderr)
    return 1 if broken else 0


def _run_all(names: Sequence[str], plan: Plan) -> list[Outcome]:
    return [_run(name, plan) for name in names]


def _run(name: str, plan: Plan) -> Outcome:
    run: Callable[[Plan], Outcome] = import_module(f"tests.campaigns.{SUBJECTS[name]}").run
    print(f"{name} ...", file=sys.stderr, flush=True)
    start = time.monotonic()
    try:
        outcome = run(plan)
    except (OSError, BrokenExecutor, subprocess.SubprocessError) as error:
        # The server does not come back; the other subjects are still worth running.
        outcome = Outcome(name, crashes=1, figures={"ended early": str(error)})
    outcome.took_s = time.monotonic() - start
    return outcome


if __name__ == "__main__":
    sys.exit(main())
