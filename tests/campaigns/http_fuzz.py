"""Damaged HTTP requests over raw sockets."""

from __future__ import annotations

import socket
import struct
import time
from random import Random

from tests.campaigns.fuzzing import Ended, fuzz
from tests.campaigns.http_damage import KINDS, End, Step
from tests.campaigns.outcome import Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer

_ANSWER_S = 25.0
_UNOWED_S = 0.5
"""Timeout for the response to an incomplete request, which may never come."""
_CONNECT_S = 10.0
_RESET = struct.pack("ii", 1, 0)


def run(plan: Plan) -> Outcome:
    """Send some thousand damaged requests."""
    outcome = Outcome("http")
    with CampaignServer() as server:
        port = server.http_port
        fuzz(outcome, server, lambda chance: _send(port, chance), plan.of(6000, 1200), plan.seed)
    return outcome


def _send(port: int, chance: Random) -> Ended:
    (kind,) = chance.choices(KINDS, [kind.weight for kind in KINDS])
    steps = kind.make(chance)
    wait_s = _ANSWER_S if kind.is_whole else _UNOWED_S
    start = time.monotonic()
    answered = False
    try:
        with socket.create_connection(("127.0.0.1", port), _CONNECT_S) as client:
            answered = _exchange(client, steps, wait_s)
    except TimeoutError:
        return Ended.HUNG if kind.is_whole else Ended.LEFT
    except OSError:
        answered = False
    if time.monotonic() - start > _ANSWER_S:
        return Ended.HUNG
    if answered:
        return Ended.ANSWERED
    return Ended.LOST if kind.is_whole else Ended.LEFT


def _exchange(client: socket.socket, steps: list[Step], wait_s: float) -> bool:
    """Whether a response came; a client that leaves expects none."""
    client.settimeout(wait_s)
    if not play(client, steps):
        return False
    received = b""
    while not is_complete(received):
        part = client.recv(65536)
        if not part:
            break
        received += part
    return received.startswith(b"HTTP/1.")


def play(client: socket.socket, steps: list[Step]) -> bool:
    """Perform the steps of a request; False: the client leaves without waiting for a response."""
    for step in steps:
        if isinstance(step, bytes):
            client.sendall(step)
        elif isinstance(step, float):
            time.sleep(step)
        elif step is End.HALF_CLOSE:
            client.shutdown(socket.SHUT_WR)
        else:
            if step is End.RESET:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            return False
    return True


def is_complete(received: bytes) -> bool:
    """Whether bytes contain a complete HTTP response."""
    head, end, body = received.partition(b"\r\n\r\n")
    if not end:
        return False
    fields = head.lower()
    if b"transfer-encoding: chunked" in fields:
        return body.endswith(b"0\r\n\r\n")
    _, separator, length = fields.partition(b"content-length:")
    return bool(separator) and len(body) >= int(length.split(b"\r\n")[0])
