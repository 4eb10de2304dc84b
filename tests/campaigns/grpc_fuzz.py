"""Damaged gRPC messages, damaged HTTP/2 frames, and every way to call a closed endpoint."""

from __future__ import annotations

import itertools
import time
from random import Random

import grpc

from tests.campaigns import grpc_damage, http2
from tests.campaigns.fuzzing import Ended, fuzz
from tests.campaigns.grpc_damage import CLOSED_METHODS, SERVICE
from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer

_ANSWER_S = 25.0
_FRAMES_S = 0.3
_CLOSED_S = 2.0
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)
_LATE = "Deadline Exceeded"
"""gRPC's own message after the client's deadline; a server may have one of its own."""
_FAULTS = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
_KEYS = (b"dragoman-closed", b"triton-grpc-protocol-dragoman-closed", b"Dragoman Closed:")
_VALUES = (b"\n\n", b"", b"x", b"\n", b"\r\n\r\n", b" \n\n ", b"\n\n\0", b"%0A%0A")


def run(plan: Plan) -> Outcome:
    """Call the closed endpoints, then send some thousand damaged messages and connections."""
    outcome = Outcome("grpc")
    with CampaignServer() as server:
        opened = _opened(server.grpc_port)
        outcome.figures["closed endpoints that answered"] = ", ".join(sorted(opened)) or "none"
        outcome.bounds.append(Bound("closed endpoints that answered", len(opened), 0))
        outcome.requests += len(CLOSED_METHODS) * len(_KEYS) * len(_VALUES)
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", _OPTIONS) as channel:
            attack = Attack(server.grpc_port, channel)
            fuzz(outcome, server, attack.send, plan.of(8000, 1500), plan.seed)
    return outcome


def _opened(port: int) -> set[str]:
    """Methods that should be closed but send a message back."""
    return {
        method
        for method, key, value in itertools.product(CLOSED_METHODS, _KEYS, _VALUES)
        if http2.has_message(
            http2.exchange(
                port,
                http2.call((SERVICE + method).encode(), b"", [(key, value)]),
                _CLOSED_S,
            )
        )
    }


class Attack:
    """Sends damaged calls of Triton's service.

    Attributes:
        faults: calls that failed with INTERNAL or UNKNOWN.
    """

    def __init__(self, port: int, channel: grpc.Channel) -> None:
        self._port = port
        self._channel = channel
        self.faults = 0

    def send(self, chance: Random) -> Ended:
        """Send one damaged request, and wait for its end."""
        actions = (self._unary, self._other, self._cancelled, self._stream, self._frames)
        (action,) = chance.choices(actions, (55, 10, 8, 12, 15))
        try:
            return action(chance)
        except grpc.RpcError as error:
            self.faults += error.code() in _FAULTS
            hung = error.details() == _LATE
            return Ended.HUNG if hung else Ended.ANSWERED

    def _unary(self, chance: Random) -> Ended:
        self._call("ModelInfer", grpc_damage.message(chance))
        return Ended.ANSWERED

    def _other(self, chance: Random) -> Ended:
        method = grpc_damage.other_method(chance)
        random_bytes = chance.randbytes(chance.randrange(60))
        self._call(method, chance.choice((random_bytes, grpc_damage.message(chance))))
        return Ended.ANSWERED

    def _cancelled(self, chance: Random) -> Ended:
        call = self._channel.unary_unary(SERVICE + "ModelInfer")
        future = call.future(grpc_damage.message(chance), timeout=_ANSWER_S)
        time.sleep(chance.random() * 0.01)
        future.cancel()
        return Ended.LEFT

    def _stream(self, chance: Random) -> Ended:
        """A stream of one model that is read to its end; other streams crash Triton 24.10."""
        count = chance.randrange(1, 6)
        sent = [grpc_damage.message(chance, "translate_stream") for _ in range(count)]
        call = self._channel.stream_stream(SERVICE + "ModelStreamInfer")
        answers = list(call(iter(sent), timeout=_ANSWER_S))
        return Ended.ANSWERED if answers else Ended.LOST

    def _frames(self, chance: Random) -> Ended:
        sent = grpc_damage.connection(chance, grpc_damage.message(chance))
        received = http2.exchange(self._port, sent, _FRAMES_S)
        return Ended.ANSWERED if received else Ended.LEFT

    def _call(self, method: str, message: bytes) -> None:
        self._channel.unary_unary(SERVICE + method)(message, timeout=_ANSWER_S)
