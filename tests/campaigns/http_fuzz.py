"""Damaged HTTP requests over raw sockets."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.campaigns.fuzzing import Ended, fuzz
from tests.campaigns.http_damage import KINDS, End, Kind, Step
from tests.campaigns.outcome import Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer

_ANSWER_S = 25.0
_UNOWED_S = 0.5
"""Timeout for the response to an incomplete request, which may never come."""
_CONNECT_S = 10.0
_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Sent:
    """A request that was sent.

    Attributes:
        kind: its kind.
        end: how it ended.
        status: of its response; 0: there was none.
    """

    kind: Kind
    end: Ended
    status: int


def run(plan: Plan) -> Outcome:
    """Send some thousand damaged requests."""
    outcome = Outcome("http")
    with CampaignServer() as server:
        port = server.http_port
        requests = plan.of(6000, 1200)
        fuzz(outcome, server, lambda chance: send(port, KINDS, chance).end, requests, plan.seed)
    return outcome


def send(port: int, kinds: Sequence[Kind], chance: Random) -> Sent:
    """Send a request of one of these kinds, and wait for its end."""
    (kind,) = chance.choices(kinds, [kind.weight for kind in kinds])
    steps = kind.make(chance)
    begin_s, status, hung = time.monotonic(), 0, False
    try:
        with socket.create_connection(("127.0.0.1", port), _CONNECT_S) as client:
            status = _exchange(client, steps, _ANSWER_S if kind.is_whole else _UNOWED_S)
    except TimeoutError:
        hung = kind.is_whole
    except OSError:
        pass  # it closed the connection: there is no response
    if hung or time.monotonic() - begin_s > _ANSWER_S:
        return Sent(kind, Ended.HUNG, status)
    if status:
        return Sent(kind, Ended.ANSWERED, status)
    return Sent(kind, Ended.LOST if kind.is_whole else Ended.LEFT, status)


def _exchange(client: socket.socket, steps: list[Step], wait_s: float) -> int:
    """The status of the response, or 0; a client that leaves expects none."""
    client.settimeout(wait_s)
    received = b""
    try:
        if not play(client, steps):
            return 0
    except (BrokenPipeError, ConnectionResetError):
        pass  # it may have answered before closing
    with contextlib.suppress(ConnectionResetError):
        while not is_complete(received) and (part := client.recv(65536)):
            received += part
    return int(received.split(b" ", 2)[1]) if received.startswith(b"HTTP/1.") else 0


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
