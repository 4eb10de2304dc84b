"""Damaged gRPC messages and HTTP/2 frames for the gateway's KServe port."""

from __future__ import annotations

import grpc

from tests.campaigns.fuzzing import fuzz
from tests.campaigns.grpc_fuzz import Attack
from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer


def run(plan: Plan) -> Outcome:
    """Send some thousand damaged messages and connections, as to Triton itself."""
    outcome = Outcome("kserve")
    with CampaignServer(gateway=True) as server:
        options = (("grpc.use_local_subchannel_pool", 1),)
        with grpc.insecure_channel(f"127.0.0.1:{server.kserve_port}", options) as channel:
            attack = Attack(server.kserve_port, channel)
            fuzz(outcome, server, attack.send, plan.of(4000, 400), plan.seed)
        # gRPC writes one of its own for a damaged path whose client has left.
        tracebacks = server.log.count("/dragoman_gateway/")
    outcome.bounds.append(Bound("calls that failed with INTERNAL or UNKNOWN", attack.faults, 0))
    outcome.bounds.append(Bound("lines of tracebacks in the gateway", tracebacks, 0))
    return outcome
