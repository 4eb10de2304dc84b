"""Single sentences beside one large request, compared with single sentences beside many clients."""

from __future__ import annotations

import time

from tests.campaigns import load
from tests.campaigns.load import Record, Work
from tests.campaigns.outcome import Bound, Outcome, percentile
from tests.campaigns.plan import Plan
from tests.campaigns.sentence import good_answer
from tests.campaigns.server import CampaignServer

_MOST_RATIO = 1.5
_CROWD = 128
_SINGLES = 8
_DEADLINE_S = 290.0
_HEAD_START_S = 0.5
_BESIDE = 0.8
"""Singles are sent for this share of the time that the large request takes alone."""


def run(plan: Plan) -> Outcome:
    """Measure the large request alone, singles beside a crowd, then singles beside the request."""
    outcome = Outcome("fairness")
    sentences = plan.of(20_000, 4_000)
    with CampaignServer() as server, load.pool(2) as pool:
        outcome.before = server.usage()
        work = Work(server.grpc_port, "light", _DEADLINE_S, plan.seed)
        for _ in range(2):
            pool.submit(load.closed_loop, work, _CROWD, 1.0).result()
        alone = pool.submit(load.large_request, work, sentences).result()

        crowd_s = plan.of(15, 6)
        crowd = pool.submit(load.closed_loop, work, _CROWD, crowd_s + 2 * _HEAD_START_S)
        time.sleep(_HEAD_START_S)
        beside_crowd = pool.submit(load.closed_loop, work, _SINGLES, crowd_s).result()

        crowd_records = crowd.result()
        large = pool.submit(load.large_request, work, sentences)
        time.sleep(_HEAD_START_S)
        beside_s = _BESIDE * alone.took_s
        beside_large = pool.submit(load.closed_loop, work, _SINGLES, beside_s).result()
        outcome.wrong += not good_answer(server.http_port, timeout_s=_DEADLINE_S)
        _judge(outcome, sentences, alone, beside_crowd, beside_large)
        outcome.figures["crowd, sentences/s"] = len(crowd_records) / crowd_s
        outcome.figures["large request beside singles, s"] = large.result().took_s
        outcome.lost += not large.result().is_ok
        outcome.requests += 2 + len(crowd_records)
        outcome.after, outcome.crashes = server.usage(), server.crashes
    return outcome


def _judge(
    outcome: Outcome,
    sentences: int,
    alone: Record,
    beside_crowd: list[Record],
    beside_large: list[Record],
) -> None:
    p99_s = {}
    for name, records in (("crowd", beside_crowd), ("large request", beside_large)):
        times = [record.took_s for record in records]
        p99_s[name] = percentile(times, 0.99)
        outcome.requests += len(records)
        outcome.hangs += sum(record.is_hung for record in records)
        outcome.lost += sum(not record.is_ok for record in records)
        outcome.figures[f"singles beside the {name}"] = {
            "count": len(records),
            "p50, s": percentile(times, 0.5),
            "p99, s": p99_s[name],
            "errors": load.errors(records),
        }
    outcome.figures["large request alone"] = {
        "sentences": sentences,
        "status": alone.status,
        "took, s": alone.took_s,
        "sentences/s": sentences / alone.took_s,
    }
    outcome.lost += not alone.is_ok
    ratio = p99_s["large request"] / p99_s["crowd"]
    outcome.bounds.append(
        Bound("p99 beside the large request over p99", ratio, _MOST_RATIO, timed=True)
    )
