"""Two servers behind the chart's Envoy; one is drained, ended, killed and hung under load.

A drain works as in Kubernetes: the server is removed from DNS, and gets SIGTERM some seconds later.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.campaigns.cluster import ADDRESSES, Cluster, running
from tests.campaigns.outcome import Bound, Outcome, percentile
from tests.campaigns.plan import Plan
from tests.campaigns.traffic import CUT, WITHOUT_RETRIES, WRONG, Sent, Traffic

_LEAVE_S = 4.0
"""Time from the removal from DNS to SIGTERM: twice the interval of Envoy's DNS queries."""
_HANG_S = 15.0
"""How long a server hangs: longer than Envoy's pings need to notice it. Then it is killed, as by a
liveness probe; only that ends requests over HTTP."""
_SLOW_START_S = 12.0
"""After a start, a server gets few requests for 10 s."""
_UNEVEN = 0.15
"""Allowed excess of a server's requests over the mean."""
_VICTIM, _OTHER = ADDRESSES


@dataclass(frozen=True)
class Phase:
    """Times of the events, and how many requests Envoy has retried meanwhile."""

    name: str
    begin_s: float
    end_s: float
    retried: int


def run(plan: Plan) -> Outcome:
    """Harm one of two servers in every way while the other one serves."""
    outcome = Outcome("balancing")
    seconds = float(plan.of(15, 4))
    with running() as cluster:
        traffic = Traffic(cluster.gateway, cluster.balancer.grpc_url, cluster.balancer.http_url)
        with traffic:
            phases = [_phase(cluster, name, harm, seconds) for name, harm in _HARM.items()]
            outcome.bounds.append(_spread(outcome, cluster, seconds))
    outcome.requests = len(traffic.sent)
    for phase in phases:
        sent = traffic.between(phase.begin_s, phase.end_s)
        _judge(outcome, phase, sent)
    return outcome


def _none(_: Cluster) -> None:
    pass


def _drain(cluster: Cluster) -> None:
    cluster.leave(_VICTIM)
    time.sleep(_LEAVE_S)
    _terminate(cluster)


def _terminate(cluster: Cluster) -> None:
    cluster.members[_VICTIM].signal(signal.SIGTERM)
    cluster.members[_VICTIM].wait()


def _kill(cluster: Cluster) -> None:
    cluster.members[_VICTIM].signal(signal.SIGKILL)


def _hang(cluster: Cluster) -> None:
    cluster.members[_VICTIM].signal(signal.SIGSTOP)
    time.sleep(_HANG_S)
    _kill(cluster)


_HARM: Mapping[str, Callable[[Cluster], None]] = {
    "none": _none,
    "drain": _drain,
    "SIGTERM": _terminate,
    "SIGKILL": _kill,
    "SIGSTOP": _hang,
}
_BREAKS = ("SIGKILL", "SIGSTOP")
"""Which kinds of harm break off a stream whose text has begun, which cannot be retried."""


def _phase(cluster: Cluster, name: str, harm: Callable[[Cluster], None], seconds: float) -> Phase:
    """Harm a server, wait, and bring it back; the phase ends when it serves again."""
    begin_s, retried = time.monotonic(), cluster.balancer.counter("upstream_rq_retry")
    harm(cluster)
    time.sleep(seconds)
    if harm is not _none:
        cluster.restart(_VICTIM)
    retried = cluster.balancer.counter("upstream_rq_retry") - retried
    return Phase(name, begin_s, time.monotonic(), retried)


def _spread(outcome: Outcome, cluster: Cluster, seconds: float) -> Bound:
    """How uneven the distribution of requests is once a restarted server has warmed up."""
    time.sleep(_SLOW_START_S)
    before = cluster.balancer.requests()
    time.sleep(seconds)
    after = cluster.balancer.requests()
    got = {address: after[address] - before[address] for address in ADDRESSES}
    outcome.figures["requests by server"] = got
    even = sum(got.values()) / len(got)
    return Bound("spread", max(got.values()) / even - 1 if even else math.nan, _UNEVEN)


def _judge(outcome: Outcome, phase: Phase, sent: Sequence[Sent]) -> None:
    good = [one.took_s for one in sent if not one.fault]
    faults = [one for one in sent if one.fault]
    wrong = [one for one in faults if one.fault.startswith(WRONG)]
    cut = [one for one in faults if one.fault == CUT]
    failed = [one for one in faults if one not in wrong and one not in cut]
    once = [one for one in failed if one.kind.endswith(WITHOUT_RETRIES)]
    outcome.wrong += len(wrong)
    outcome.lost += len(failed) - len(once)
    outcome.figures[phase.name] = {
        "sent": len(sent),
        "sent again by Envoy": phase.retried,
        "failed": len(failed) - len(once),
        "failed without retries of the client": len(once),
        "streams cut": len(cut),
        "p50, s": percentile(good, 0.5),
        "p99, s": percentile(good, 0.99),
        "longest, s": max(good, default=0.0),
        "errors": sorted({one.fault for one in failed}),
    }
    if phase.name not in _BREAKS:
        outcome.bounds.append(Bound(f"{phase.name}: streams cut", len(cut), 0))
    if phase.name in ("none", "drain"):
        outcome.bounds.append(Bound(f"{phase.name}: failed without retries", len(once), 0))
