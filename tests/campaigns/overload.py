"""More requests than the server can handle: goodput, latency of accepted requests, recovery.

Goodput counts requests that were answered within their deadline, while requests were sent. A
request is accepted if it was not refused as overload; one that expires counts with the time it
took.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from tests.campaigns import load
from tests.campaigns.load import OpenLoop, Work
from tests.campaigns.outcome import Bound, Outcome, percentile
from tests.campaigns.plan import Plan
from tests.campaigns.sentence import good_answer
from tests.campaigns.server import CampaignServer

FACTORS = (2, 4)
_LEAST_GOODPUT = 0.8
_MOST_RECOVERY_S = 1.0
_CLIENTS = 64
_WARM_UP_S = 2.0


def run(plan: Plan) -> Outcome:
    """Measure the capacity, then send twice and four times as much."""
    outcome = Outcome("overload")
    with CampaignServer() as server, load.pool(1) as pool:
        outcome.before = server.usage()
        deadline_s = plan.of(10, 3)
        work = Work(server.grpc_port, "heavy", deadline_s, plan.seed)
        capacity = _capacity(pool, work, plan.of(10, 5))
        outcome.figures["capacity, requests/s"] = capacity
        outcome.figures["deadline, s"] = deadline_s
        for factor in FACTORS:
            seconds = plan.of(20, 6)
            loop = pool.submit(load.open_loop, work, factor * capacity, seconds).result()
            _judge(outcome, f"{factor}x", loop, capacity, deadline_s)
        outcome.wrong += not good_answer(server.http_port)
        outcome.after, outcome.crashes = server.usage(), server.crashes
    return outcome


def _capacity(pool: ProcessPoolExecutor, work: Work, seconds: float) -> float:
    """Requests per second that a closed loop of many clients gets answered."""
    patient = Work(work.grpc_port, work.weight, deadline_s=60.0, seed=work.seed)
    pool.submit(load.closed_loop, patient, _CLIENTS, _WARM_UP_S).result()
    records = pool.submit(load.closed_loop, patient, _CLIENTS, seconds).result()
    begin = min(record.sent_s for record in records)
    answered = (
        record.is_ok and record.sent_s + record.took_s <= begin + seconds for record in records
    )
    return sum(answered) / seconds


def goodput(loop: OpenLoop, deadline_s: float) -> float:
    """Requests per second answered within their deadline, while requests were sent."""
    end = loop.begin_s + loop.seconds
    good = (
        record.is_ok and record.took_s <= deadline_s and record.sent_s + record.took_s <= end
        for record in loop.records
    )
    return sum(good) / loop.seconds


def _judge(outcome: Outcome, name: str, loop: OpenLoop, capacity: float, deadline_s: float) -> None:
    accepted = [record for record in loop.records if not record.is_refused]
    refused = [record.took_s for record in loop.records if record.is_refused]
    outcome.requests += len(loop.records)
    outcome.hangs += sum(record.is_hung for record in loop.records)
    outcome.figures[name] = {
        "sent": len(loop.records),
        "answered": sum(record.is_ok for record in loop.records),
        "refused": len(refused),
        "p50 of the answered, s": percentile(
            [record.took_s for record in accepted if record.is_ok], 0.5
        ),
        "p99 of refusals, s": percentile(refused, 0.99),
        "sender behind by, s": loop.behind_s,
        "other errors": load.errors(accepted),
    }
    p99_s = percentile([record.took_s for record in accepted], 0.99)
    share = goodput(loop, deadline_s) / capacity
    outcome.bounds += [
        Bound(f"{name}: goodput over capacity", share, _LEAST_GOODPUT, at_least=True, timed=True),
        Bound(f"{name}: p99 of the accepted, s", p99_s, deadline_s, timed=True),
        Bound(f"{name}: recovery, s", loop.recovery_s, _MOST_RECOVERY_S, timed=True),
    ]
