"""Three servers and two gateways behind the chart's Envoy, at a fifth of their capacity.

All are restarted one after another, one is ended, killed and hung, and the servers are scaled from
three to one to three. A restart and the scaling work as in Kubernetes: a new pod is ready before an
old one is removed from DNS, and the old one gets SIGTERM some seconds later.
"""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.campaigns.outcome import Bound, Outcome, percentile
from tests.campaigns.plan import Plan
from tests.campaigns.running_cluster import Cluster, running
from tests.campaigns.traffic import CUT, WITHOUT_RETRIES, WRONG, Sent, Traffic

_SERVERS, _GATEWAYS = 3, 2
_LOAD = 0.2
"""Share of the capacity at which requests are sent."""
_HANG_S = 15.0
"""How long a server hangs: longer than Envoy's pings need to notice it. Then it is killed, as by a
liveness probe; only that ends requests over HTTP."""
_SLOW_START_S = 12.0
"""After a start, a server gets few requests for 10 s."""
_UNEVEN = 0.15
"""Allowed excess of a server's requests over the mean."""


@dataclass(frozen=True)
class Phase:
    """Times of the events, and how many requests Envoy has retried meanwhile.

    Attributes:
        broken_s: when a server or gateway was killed or stopped; None: none was.
    """

    name: str
    begin_s: float
    end_s: float
    retried: int
    broken_s: float | None


def run(plan: Plan) -> Outcome:
    """Harm the parts of the cluster in every way while the others serve."""
    outcome = Outcome("cluster")
    seconds = float(plan.of(15, 4))
    with running(_SERVERS, _GATEWAYS) as cluster:
        urls = cluster.direct.grpc_url, cluster.direct.http_url
        with Traffic(cluster.front.http_url, *urls) as traffic:
            capacity = _capacity(traffic, seconds)
            traffic.rate = _LOAD * capacity
            outcome.figures["capacity, requests/s"] = capacity
            events = {**_EVENTS, **({} if plan.short else _MORE_EVENTS), **_LAST_EVENT}
            phases = [_phase(cluster, name, event, seconds) for name, event in events.items()]
            time.sleep(max(0.0, _SLOW_START_S - seconds))  # the last phase ends with a pause
            if plan.short:
                traffic.rate = None  # enough requests for a judgement in a short time
            _judge_spread(outcome, cluster, traffic, plan.of(3000, 900))
    outcome.requests = len(traffic.sent)
    for phase in phases:
        _judge(outcome, phase, traffic.between(phase.begin_s, phase.end_s))
    return outcome


def _capacity(traffic: Traffic, seconds: float) -> float:
    """Answers per second to clients that do not pause."""
    time.sleep(1)  # the first requests open connections
    begin_s = time.monotonic()
    time.sleep(seconds)
    ended = [request.sent_s + request.took_s for request in list(traffic.sent)]
    return sum(end_s >= begin_s for end_s in ended) / (time.monotonic() - begin_s)


def _none(_: Cluster, seconds: float) -> None:
    time.sleep(seconds)


def _restart_all(cluster: Cluster, _: float) -> None:
    """A rolling restart of the servers and, at the same time, of the gateways."""
    for server, gateway in itertools.zip_longest(list(cluster.servers), list(cluster.gateways)):
        old = [address for address in (server, gateway) if address is not None]
        cluster.start_servers(1)
        if gateway is not None:
            cluster.start_gateways(1)
        cluster.leave(*old)
        for address in old:
            cluster.stop(address)


def _scale(cluster: Cluster, seconds: float) -> None:
    """Three servers to one, to three."""
    removed = list(cluster.servers)[1:]
    cluster.leave(*removed)
    for address in removed:
        cluster.stop(address)
    time.sleep(seconds)
    cluster.start_servers(len(removed))
    time.sleep(seconds)


def _kill(cluster: Cluster, seconds: float) -> float:
    server, broken_s = next(iter(cluster.servers.values())), time.monotonic()
    server.signal(signal.SIGKILL)
    return _replaced(cluster, server.address, seconds, broken_s)


def _hang(cluster: Cluster, _: float) -> float:
    server, broken_s = next(iter(cluster.servers.values())), time.monotonic()
    server.signal(signal.SIGSTOP)
    time.sleep(_HANG_S)
    server.signal(signal.SIGKILL)
    return _replaced(cluster, server.address, 0.0, broken_s)


def _terminate(cluster: Cluster, seconds: float) -> None:
    """SIGTERM at once, while it is still in DNS."""
    server = next(iter(cluster.servers.values()))
    server.signal(signal.SIGTERM)
    server.wait()
    _replaced(cluster, server.address, seconds, 0.0)


def _kill_gateway(cluster: Cluster, seconds: float) -> float:
    address, broken_s = next(iter(cluster.gateways)), time.monotonic()
    cluster.gateways[address].gateway.stop(signal.SIGKILL)
    return _replaced(cluster, address, seconds, broken_s)


def _replaced(cluster: Cluster, address: str, seconds: float, broken_s: float) -> float:
    time.sleep(seconds)
    cluster.replace(address)
    return broken_s


_Event = Callable[[Cluster, float], float | None]
"""Gets the seconds to wait after each change; returns when it has broken something, if it has."""
_EVENTS: Mapping[str, _Event] = {
    "none": _none,
    "rolling restart": _restart_all,
    "SIGKILL": _kill,
    "SIGSTOP": _hang,
}
_MORE_EVENTS: Mapping[str, _Event] = {
    "SIGTERM at once": _terminate,
    "SIGKILL of a gateway": _kill_gateway,
}
"""Only in the full form."""
_LAST_EVENT: Mapping[str, _Event] = {"three to one to three": _scale}


def _phase(cluster: Cluster, name: str, event: _Event, seconds: float) -> Phase:
    """Let an event happen; the phase ends when everything serves again."""
    begin_s, retried = time.monotonic(), cluster.retried()
    broken_s = event(cluster, seconds)
    return Phase(name, begin_s, time.monotonic(), cluster.retried() - retried, broken_s)


def _judge_spread(outcome: Outcome, cluster: Cluster, traffic: Traffic, requests: int) -> None:
    """How unevenly requests are distributed when every server has been running for a while."""
    before, first = cluster.requests(), len(traffic.sent)
    while len(traffic.sent) < first + requests:
        time.sleep(1)
    after = cluster.requests()
    running = (("servers", [*cluster.servers]), ("gateways", [*cluster.gateways]))
    for (what, addresses), old, new in zip(running, before, after, strict=True):
        got = Counter({address: new[address] - old[address] for address in addresses})
        outcome.figures[f"requests of the {what}"] = dict(got)
        even = got.total() / len(got)
        uneven = max(got.values()) / even - 1 if even else math.nan
        outcome.bounds.append(Bound(f"spread over {what}", uneven, _UNEVEN))


def _judge(outcome: Outcome, phase: Phase, sent: Sequence[Sent]) -> None:
    good = [request.took_s for request in sent if not request.fault]
    faults = [request for request in sent if request.fault]
    wrong = [request for request in faults if request.fault.startswith(WRONG)]
    cut = [request for request in faults if request.fault.startswith(CUT)]
    failed = [request for request in faults if request not in wrong and request not in cut]
    once = [request for request in failed if request.kind.endswith(WITHOUT_RETRIES)]
    outcome.wrong += len(wrong)
    outcome.lost += len(failed) - len(once)
    outcome.figures[phase.name] = {
        "took, s": phase.end_s - phase.begin_s,
        "sent": len(sent),
        "sent again by Envoy": phase.retried,
        "failed": len(failed) - len(once),
        "failed without retries of the client": len(once),
        "streams cut": len(cut),
        "p50, s": percentile(good, 0.5),
        "p99, s": percentile(good, 0.99),
        "longest, s": max(good, default=0.0),
        "errors": sorted({f"{request.kind}: {request.fault}" for request in failed + cut}),
    }
    at_s = phase.broken_s
    allowed = [
        request
        for request in faults
        if at_s and request.sent_s <= at_s <= request.sent_s + request.took_s
    ]
    excess = (
        len(cut)
        + len(once)
        - len([request for request in allowed if request in cut or request in once])
    )
    name = "failed that were not in flight" if at_s else "failed without retries, or cut"
    outcome.bounds.append(Bound(f"{phase.name}: {name}", excess, 0))
