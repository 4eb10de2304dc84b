"""A mixed load: greedy, beam, glossary and long texts over gRPC, scores, and streams over HTTP.

Runs in a separate process, like `load`. A request is answered, refused with an error, hung, or
lost: it ended with neither a response nor an error.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc.aio
from dragoman_client.core.errors import TranslationError
from dragoman_client.core.pair_scoring import pair_inputs
from dragoman_client.core.request import is_last
from dragoman_client.transports import grpc_wire
from dragoman_client.transports.http_wire import event_part
from dragoman_load_test.requests.messages import INFER, grpc_request
from dragoman_options.table import SCORE
from tritonclient.grpc import service_pb2

from tests.campaigns.load import HUNG, LATE_S, Record
from tests.campaigns.sentence import TEXT, TRANSLATION

LOST, WRONG = "LOST", "WRONG"
_LONG = "The station is near. My brother came home late. We have not eaten yet. " * 3
_UNARY: tuple[tuple[str, Mapping[str, Any]], ...] = (
    (TEXT, {"beam_width": 1}),
    (TEXT, {"beam_width": 4}),
    ("I would like a cup of coffee, please.", {"glossary": {"coffee": "Tee"}}),
    (_LONG, {"split_sentences": True}),
)
_AFTER_ERROR_S = 0.05


@dataclass(frozen=True)
class Ports:
    """Of the server."""

    http: int
    grpc: int


def mixed(ports: Ports, clients: int, seconds: float, deadline_s: float, seed: int) -> list[Record]:
    """Clients that each send one request of a random kind after the other.

    Args:
        ports: of the server.
        clients: number of concurrent clients.
        seconds: duration of sending.
        deadline_s: of each request.
        seed: of the random choices.

    Returns:
        A record for each request.
    """
    return asyncio.run(_mixed(ports, clients, seconds, deadline_s, seed))


def forever(ports: Ports, clients: int, seed: int) -> None:
    """The same until the process is killed, for at most two minutes."""
    mixed(ports, clients, 120.0, 10.0, seed)


async def _mixed(
    ports: Ports, clients: int, seconds: float, deadline_s: float, seed: int
) -> list[Record]:
    end = time.monotonic() + seconds
    records: list[Record] = []

    async def client(number: int) -> None:
        chance = random.Random(f"{seed} {number}")
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{ports.grpc}", options) as channel:
            calls: list[Callable[[], Awaitable[str]]] = [
                lambda: _translate(channel, *chance.choice(_UNARY), deadline_s),
                lambda: _score(channel, deadline_s),
                lambda: _stream(ports.http, deadline_s),
            ]
            while time.monotonic() < end:
                (call,) = chance.choices(calls, (4, 1, 2))
                records.append(await _record(call, deadline_s))
                if not records[-1].is_ok:
                    await asyncio.sleep(_AFTER_ERROR_S)

    await asyncio.gather(*map(client, range(clients)))
    return records


async def _record(call: Callable[[], Awaitable[str]], deadline_s: float) -> Record:
    start = time.monotonic()
    timeout_s = deadline_s + LATE_S
    detail = ""
    try:
        status = await asyncio.wait_for(call(), timeout_s)
    except TimeoutError:
        status = HUNG
    except grpc.aio.AioRpcError as error:
        status, detail = error.code().name, (error.details() or "")[:200]
    except (OSError, TranslationError, ValueError) as error:
        status, detail = type(error).__name__, str(error)[:200]
    return Record(start, time.monotonic() - start, status, detail)


async def _translate(
    channel: grpc.aio.Channel, text: str, options: Mapping[str, Any], deadline_s: float
) -> str:
    message = grpc_request([text], {**options, "target_language": "de"}, deadline_s)
    answer = service_pb2.ModelInferResponse.FromString(
        await channel.unary_unary(INFER)(message)
    ).raw_output_contents
    if not answer:
        return LOST
    if text == TEXT and TRANSLATION.encode() not in b"".join(answer):
        return WRONG
    return "OK"


async def _score(channel: grpc.aio.Channel, deadline_s: float) -> str:
    inputs = pair_inputs([TEXT], [TRANSLATION], {"target_language": "de"})
    request = grpc_wire.infer_request(SCORE, inputs, deadline_s)
    answer = await channel.unary_unary(INFER)(request.SerializeToString())
    outputs = service_pb2.ModelInferResponse.FromString(answer).raw_output_contents
    return "OK" if outputs else LOST


async def _stream(port: int, deadline_s: float) -> str:
    """A stream over HTTP; Triton 24.10 survives clients that leave it."""
    timeout_us = int(deadline_s * 1e6)
    request = {"text_input": TEXT, "target_language": "de", "timeout": timeout_us}
    body = json.dumps(request).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = "POST /v2/models/translate_stream/generate_stream HTTP/1.1\r\nHost: x\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while line := await reader.readline():
            part = event_part(line.rstrip())
            if part is not None and is_last(part):
                return "OK"
            if line.startswith(b"HTTP/1.1 ") and b" 200 " not in line:
                return line.decode("latin-1").strip()
            if line == b"0\r\n":
                break
        # A closed connection is an error that the client sees; a truncated response is not.
        return LOST if line == b"0\r\n" else "ConnectionClosed"
    finally:
        writer.close()
