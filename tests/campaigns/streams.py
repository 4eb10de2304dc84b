"""Clients that leave their streams: cancelled, past their deadline, abandoned with unread data.

Some of this crashes Triton 24.10 by its own bugs (triton-inference-server/server, issues 7368 and
8034, and an assertion in its stream handler). Those ways run on a separate server, and their
crashes are counted separately: there, it counts that the server is back soon.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random

import grpc
from dragoman_client.core.request import is_last
from dragoman_client.transports.http_wire import event_part
from dragoman_load_test.requests.messages import (
    INFER,
    STREAM_INFER,
    grpc_request,
    read_grpc_part,
)
from tritonclient.grpc import service_pb2

from tests.campaigns.outcome import Bound, Outcome
from tests.campaigns.plan import Plan
from tests.campaigns.sentence import Prober, good_answer
from tests.campaigns.server import CampaignServer

_TEXT = "I would like a cup of tea, but my sister does not want to drink anything at all today."
_DEADLINE_S = 10.0
_SOON_S = 0.02
"""Clients leave at a random time up to this, about the time of the first response."""
_THREADS = 4
_GROUP = 10
_SETTLE_S = 1.5
_MOST_OUTAGE_S = 1.0
_MOST_STOP_S = 10.0
_RETRY_S = 0.1
_WAY_S = 20.0
"""Timeout for all streams of one way, so that a hung server does not stop the campaign."""
_BACK_S = 10.0
_RESET = struct.pack("ii", 1, 0)
_UNREAD = 20


class _Lost(Exception):
    """A stream ended with neither its last response nor an error."""


class _Client:
    """One connection for each protocol, and a random generator."""

    def __init__(self, server: CampaignServer, channel: grpc.Channel, chance: Random) -> None:
        self.http_port = server.http_port
        self.chance = chance
        self.unary = channel.unary_unary(INFER)
        self.stream = channel.stream_stream(STREAM_INFER)

    def soon(self) -> float:
        return self.chance.random() * _SOON_S


def _message(model: str = "translate_stream", text: str = _TEXT) -> bytes:
    request = service_pb2.ModelInferRequest.FromString(
        grpc_request([text], {"target_language": "de"}, 60.0, streamed=model != "translate")
    )
    request.model_name = model
    return bytes(request.SerializeToString())


def _http_body() -> bytes:
    return json.dumps({"text_input": _TEXT, "target_language": "de"}).encode()


def _read_over_http(client: _Client) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.http_port, timeout=_DEADLINE_S)
    with contextlib.closing(connection):
        path = "/v2/models/translate_stream/generate_stream"
        connection.request("POST", path, _http_body())
        parts = [event_part(line) for line in connection.getresponse()]
    if not any(part is not None and is_last(part) for part in parts):
        raise _Lost


def _broken_off_over_http(client: _Client) -> None:
    body = _http_body()
    head = b"POST /v2/models/translate_stream/generate_stream HTTP/1.1\r\nHost: x\r\n"
    with socket.create_connection(("127.0.0.1", client.http_port), _DEADLINE_S) as connected:
        connected.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(client.soon())
        if client.chance.random() < 0.5:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def _read_over_grpc(client: _Client) -> None:
    parts = [
        read_grpc_part(response)
        for response in client.stream(iter([_message()]), timeout=_DEADLINE_S)
    ]
    if not any(part.last for part in parts):
        raise _Lost


def _cancelled_after_the_first(client: _Client) -> None:
    call = client.stream(iter([_message()]), timeout=_DEADLINE_S)
    next(call)
    call.cancel()


def _unary_cancelled(client: _Client) -> None:
    call = client.unary.future(_message("translate"), timeout=_DEADLINE_S)
    time.sleep(client.soon())
    call.cancel()


def _unary_past_its_deadline(client: _Client) -> None:
    client.unary(_message("translate"), timeout=client.soon())


def _abandoned(client: _Client) -> None:
    call = client.stream(iter([_message()] * _UNREAD), timeout=_DEADLINE_S)
    next(call)
    call.cancel()


def _cancelled_before_the_first(client: _Client) -> None:
    call = client.stream(iter([_message()]), timeout=_DEADLINE_S)
    time.sleep(client.soon())
    call.cancel()


def _stream_past_its_deadline(client: _Client) -> None:
    list(client.stream(iter([_message()]), timeout=client.soon()))


def _unknown_model(client: _Client) -> None:
    sent = [_message(), _message("nowhere")]
    list(client.stream(iter(sent), timeout=_DEADLINE_S))


def _two_models(client: _Client) -> None:
    sent = [_message(), _message("translate", "Good morning.")] * 2
    list(client.stream(iter(sent), timeout=_DEADLINE_S))


Way = Callable[[_Client], None]

_SAFE: Mapping[str, Way] = {
    "HTTP, read to the end": _read_over_http,
    "HTTP, broken off": _broken_off_over_http,
    "gRPC, read to the end": _read_over_grpc,
    "gRPC unary, cancelled": _unary_cancelled,
    "gRPC unary, past its deadline": _unary_past_its_deadline,
}
_ABANDONED: Mapping[str, Way] = {"gRPC, abandoned with answers unread": _abandoned}
_CRASHING: Mapping[str, Way] = {
    "gRPC, cancelled after the first answer": _cancelled_after_the_first,
    "gRPC, cancelled before the first answer": _cancelled_before_the_first,
    "gRPC, past its deadline": _stream_past_its_deadline,
    "gRPC, unknown model": _unknown_model,
    "gRPC, two models": _two_models,
}


def run(plan: Plan) -> Outcome:
    """Leave streams in every way; first in those that Triton survives."""
    outcome = Outcome("streams")
    with CampaignServer() as server:
        outcome.before = server.usage()
        _abuse_all(outcome, server, _SAFE, plan.of(500, 100), plan.seed)
        outcome.after, outcome.crashes = server.usage(), server.crashes

    with CampaignServer() as server:
        _abuse_all(outcome, server, _ABANDONED, plan.of(1000, 100), plan.seed)
        _count_upstream(outcome, server)
    outcome.bounds.append(
        Bound("stop after abandoned streams, s", server.stop_s, _MOST_STOP_S, timed=True)
    )

    with CampaignServer() as server, Prober(server.http_port) as prober:
        _abuse_all(outcome, server, _CRASHING, plan.of(1200, 100), plan.seed)
        _count_upstream(outcome, server)
        outcome.figures["Triton's last words"] = server.last_words
    outcome.wrong += prober.wrong
    outcome.longest_outage_s = prober.longest_outage_s
    outcome.bounds.append(
        Bound("longest outage, s", prober.longest_outage_s, _MOST_OUTAGE_S, timed=True)
    )
    return outcome


def _count_upstream(outcome: Outcome, server: CampaignServer) -> None:
    """Crashes here are Triton's own bugs; a launcher that ends is ours."""
    outcome.upstream_restarts += server.crashes - server.gave_up
    outcome.crashes += server.gave_up


def _abuse_all(
    outcome: Outcome, server: CampaignServer, abuses: Mapping[str, Way], count: int, seed: int
) -> None:
    for name, abuse in abuses.items():
        _abuse(outcome, server, name, abuse, count, seed)


def _abuse(
    outcome: Outcome, server: CampaignServer, name: str, abuse: Way, count: int, seed: int
) -> None:
    """Open streams from several threads, and record how they end and what they leave behind."""
    sockets, crashes = server.usage().sockets.get("triton", 0), server.crashes
    end_s = time.monotonic() + _WAY_S
    with ThreadPoolExecutor(_THREADS) as threads:
        groups = [Random(f"{seed} {name} {number}") for number in range(count // _GROUP)]
        counts = threads.map(lambda chance: _group(server, abuse, chance, end_s), groups)
        ends = sum(counts, Counter[str]())
    server.settle(_SETTLE_S)
    # Triton's signal handler allocates memory and forks, so that a crash may end in a deadlock.
    help_needed = server.revive(_BACK_S)
    outcome.requests += ends.total()
    outcome.hangs += help_needed == "hung"
    outcome.lost += ends["lost"]
    outcome.wrong += not good_answer(server.http_port)
    outcome.figures[name] = {
        "streams": ends.total(),
        "restarts": server.crashes - crashes,
        "came back": help_needed or "by itself",
        "Triton's sockets left": server.usage().sockets.get("triton", 0) - sockets,
        **ends,
    }


def _group(server: CampaignServer, abuse: Way, chance: Random, end_s: float) -> Counter[str]:
    options = [("grpc.use_local_subchannel_pool", 1)]
    ends: Counter[str] = Counter()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}", options) as channel:
        client = _Client(server, channel, chance)
        for _ in range(_GROUP):
            if time.monotonic() < end_s:
                ends.update(_ends(abuse, client))
    return ends


def _ends(abuse: Way, client: _Client) -> Iterator[str]:
    try:
        abuse(client)
    except _Lost:
        yield "lost"
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:  # the server is restarting
            time.sleep(_RETRY_S)
        yield error.code().name
    except (OSError, http.client.HTTPException, StopIteration, ValueError) as error:
        yield type(error).__name__
    else:
        yield "done"
