"""Clients that stall, trickle, or send what is expensive to read, while another client translates.

A client has at most a share of the gateway, so the other one must hardly notice. All attackers have
one address, and most have no key; the other client has a key and another address.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import resource
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from dragoman_gateway.access.keys import add_key
from dragoman_gateway.core.store import open_database, transaction
from dragoman_gateway.protocols.riva import messages

from tests.campaigns import http2, load
from tests.campaigns.gateway_fuzz import TEXT, TRANSLATION
from tests.campaigns.http2 import END_HEADERS, Type
from tests.campaigns.outcome import Bound, Outcome, percentile
from tests.campaigns.plan import Plan
from tests.campaigns.server import CampaignServer

_MOST_RATIO = 2.0
_ATTACKER, _OTHER = "127.0.0.2", "127.0.0.3"
_CONNECTIONS = 2600
"""More than the gateway accepts from all clients together."""
_CLIENTS = 2
_EACH_S = 0.02
_PAUSE_S = 0.5
_RECONNECT_S = 2.0
_ANSWER_S = 30.0
_MIB = 1 << 20
_HEAD = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n"
)
_FORM = "multipart/form-data; boundary=b"
_FILE = '--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
_ENDING = "\r\n--b--\r\n"
_EXPENSIVE: Mapping[str, str] = {
    "a.html": "<b>x " * 60_000,
    "b.html": "<b><p>x" * 40_000,
    "c.txt": "<!---->" * 5000 + "x",
    "d.xml": "<r>" + "<a t='x" + " " * 60_000 + "'/></r>",
}
"""Documents that take long to read."""


@dataclass(frozen=True)
class Target:
    """What the clients need to know.

    Attributes:
        port: the gateway's port.
        riva_port: its port for Riva's protocol.
        attacker_key: key of an attacker.
        key: key of the other client.
    """

    port: int
    riva_port: int
    attacker_key: str
    key: str


@dataclass
class Served:
    """How the other client was served.

    Attributes:
        times_s: duration of each translation.
        live_s: duration of each request for `/livez`.
        failures: descriptions of other answers.
    """

    times_s: list[float] = field(default_factory=list)
    live_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run(plan: Plan) -> Outcome:
    """Measure the other client alone, then beside each attack."""
    outcome = Outcome("shares")
    seconds = plan.of(20, 3)
    with CampaignServer(gateway=True) as server, load.pool(2) as pool:
        keys = _keys(server.folder)
        target = Target(server.gateway_port, server.riva_port, *keys)
        outcome.before = server.usage()
        served(target, 1.0)  # warms up
        quiet = _beside(pool, target, None, seconds)
        beside = {name: _beside(pool, target, name, seconds) for name in ATTACKS}
        server.settle(1.0)
        outcome.after, outcome.crashes = server.usage(), server.crashes
        outcome.figures["tracebacks"] = server.log.count("Traceback")
    outcome.requests = sum(
        len(measured.times_s) + len(measured.live_s) for measured in (quiet, *beside.values())
    )
    _judge(outcome, quiet, beside)
    outcome.bounds.append(Bound("tracebacks in the log", outcome.figures["tracebacks"], 0))
    return outcome


def _judge(outcome: Outcome, quiet: Served, beside: Mapping[str, Served]) -> None:
    """Set figures and bounds."""
    quiet_s = percentile(quiet.times_s, 0.99)
    for name, measured in {"nothing": quiet, **beside}.items():
        outcome.lost += len(measured.failures)
        outcome.figures[f"beside {name}"] = {
            "translations": len(measured.times_s),
            "p50, s": percentile(measured.times_s, 0.5),
            "p99, s": percentile(measured.times_s, 0.99),
            "/livez p99.9, s": percentile(measured.live_s, 0.999),
            "/livez longest, s": max(measured.live_s, default=0.0),
            "failures": "; ".join(sorted(set(measured.failures)))[:200] or "none",
        }
    live_s = [took_s for measured in beside.values() for took_s in measured.live_s]
    stalled = beside["connections"]
    ratio = percentile(stalled.times_s, 0.99) / quiet_s
    name = f"p99 beside {_CONNECTIONS:,} connections over quiet p99"
    outcome.bounds += [
        Bound(name, ratio, _MOST_RATIO, timed=True),
        Bound("/livez p99.9, s", percentile(live_s, 0.999), 0.25, timed=True),
        Bound("/livez longest, s", max(live_s, default=0.0), 1.0, timed=True),
    ]


def _keys(folder: Path) -> tuple[str, str]:
    """Create a key for an attacker and one for the other client, which closes open access."""
    connection = open_database(folder, must_exist=True)
    with transaction(connection):
        keys = [add_key(connection, name)[1] for name in ("attacker", "other")]
    connection.close()
    time.sleep(1.0)  # the gateway notices it within half a second
    return keys[0], keys[1]


def _beside(pool: Executor, target: Target, name: str | None, seconds: float) -> Served:
    attack = None if name is None else pool.submit(attacked, name, target, seconds + 1.0)
    time.sleep(1.0)
    result = pool.submit(served, target, seconds).result()
    if attack is not None:
        attack.result()
    return result


def served(target: Target, seconds: float) -> Served:
    """Translate and ask for `/livez`, each in new connections, for some time."""
    measured, end_s = Served(), time.monotonic() + seconds

    def translate() -> None:
        body = json.dumps({"text": TEXT, "target_language": "de", "store": False}).encode()
        head = {"Authorization": f"Bearer {target.key}", "Content-Type": "application/json"}
        while time.monotonic() < end_s:
            begin_s = time.monotonic()
            status, answer = _ask(target.port, "POST", "/api/v1/translate", body, head)
            measured.times_s.append(time.monotonic() - begin_s)
            if status != 200 or TRANSLATION.encode() not in answer:
                measured.failures.append(f"{status} {answer[:80]!r}")

    def live() -> None:
        while time.monotonic() < end_s:
            begin_s = time.monotonic()
            status, answer = _ask(target.port, "GET", "/livez", None, {})
            measured.live_s.append(time.monotonic() - begin_s)
            if status != 200:
                measured.failures.append(f"/livez: {status} {answer[:80]!r}")
            time.sleep(_EACH_S)

    threads = [threading.Thread(target=work) for work in (live, *_CLIENTS * [translate])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return measured


def _ask(
    port: int, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(
        "127.0.0.1", port, timeout=_ANSWER_S, source_address=(_OTHER, 0)
    )
    try:
        connection.request(method, path, body, {**headers, "Host": "localhost"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError as error:
        return 0, type(error).__name__.encode()
    finally:
        connection.close()


def attacked(name: str, target: Target, seconds: float) -> None:
    """Attack for some time."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    async def attack() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ATTACKS[name](target)

    asyncio.run(attack())


async def _hold_connections(target: Target) -> None:
    """Send parts of heads: nothing, half a head, or a head byte by byte."""

    async def hold(number: int) -> None:
        begin = ("", "GET / HTTP/1.1\r\nHost: localhost\r\n", "G")[number % 3].encode()
        chance = Random(number)
        async for writer in _connections(target.port):
            writer.write(begin)
            while not writer.is_closing():
                await asyncio.sleep(_PAUSE_S * (1 + chance.random()))
                if number % 3 and not writer.is_closing():
                    writer.write(b"a")

    await asyncio.gather(*map(hold, range(_CONNECTIONS)))


async def _stall_bodies(target: Target) -> None:
    """Declare large uploads without a key, send a part of each, and stop."""
    begin = _FILE.format(name="a.txt").encode() + bytes(_MIB)

    async def stall(number: int) -> None:
        path, kind = (("/translate_file", _FORM), ("/translate", "application/json"))[number % 2]
        head = _HEAD.format(path=path, kind=kind, size=(32, 8)[number % 2] * _MIB - 1)
        async for writer in _connections(target.port):
            writer.write(f"{head}\r\n".encode() + begin)
            await writer.wait_closed()

    await asyncio.gather(*map(stall, range(50)))


async def _stall_calls(target: Target) -> None:
    """Begin many calls of Riva's protocol, with and without a key, and send parts of messages."""
    path = f"/{messages.TRANSLATION_SERVICE}/TranslateText".encode()
    key = (b"authorization", f"Bearer {target.attacker_key}".encode())
    prefix = b"\0" + (2 * _MIB - 100).to_bytes(4, "big") + bytes(8192)

    async def stall(number: int) -> None:
        headers = http2.block(http2.call_headers(path, [key] if number % 2 else []))
        async for writer in _connections(target.riva_port):
            writer.write(http2.PREFACE + http2.frame(Type.SETTINGS, 0, 0))
            for stream in range(1, 51, 2):
                writer.write(http2.frame(Type.HEADERS, END_HEADERS, stream, headers))
                writer.write(http2.frame(Type.DATA, 0, stream, prefix[: 65_535 // 25]))
            await writer.wait_closed()

    await asyncio.gather(*map(stall, range(20)))


async def _send_unreadable(target: Target) -> None:
    """Send requests that are refused at once, without a key."""
    form = "q=" + "%41" * 300_000
    head = _HEAD.format(path="/translate", kind="application/x-www-form-urlencoded", size=len(form))
    field = json.dumps({"x" * 60_000: 1})
    other = _HEAD.format(path="/api/v1/translate", kind="application/json", size=len(field))
    requests = [
        ("GET /" + "a" * 4000 + "\x01").encode(),
        ("FOO /" + "a" * 7000 + " HTTP/1.1\r\n\r\n").encode(),
        f"{head}\r\n{form}".encode(),
        f"{other}\r\n{field}".encode(),
    ]
    await asyncio.gather(*(_repeat(target.port, request) for request in requests))


async def _send_expensive(target: Target) -> None:
    """Upload documents that take long to read, with a key, and leave before the answer."""

    def request(name: str, content: str) -> bytes:
        fields = '--b\r\nContent-Disposition: form-data; name="target_language"\r\n\r\nde\r\n'
        body = f"{fields}{_FILE.format(name=name)}{content}{_ENDING}"
        head = _HEAD.format(path="/api/v1/documents", kind=_FORM, size=len(body))
        return f"{head}Authorization: Bearer {target.attacker_key}\r\n\r\n{body}".encode()

    def text(content: str) -> bytes:
        body = json.dumps({"text": content, "target_language": "de", "format": "html"})
        head = _HEAD.format(path="/api/v1/translate", kind="application/json", size=len(body))
        return f"{head}Authorization: Bearer {target.attacker_key}\r\n\r\n{body}".encode()

    requests = [request(name, content) for name, content in _EXPENSIVE.items()]
    requests += [text("<b>x " * 12_000), text("<b>x " * 60_000)]
    await asyncio.gather(*(_repeat(target.port, request) for request in requests for _ in range(3)))


async def _repeat(port: int, request: bytes) -> None:
    """Send a request again and again, and leave after half a second."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await _open(port)
            writer.write(request)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE_S):
                    await writer.drain()
                    await reader.read()
            writer.close()
        await asyncio.sleep(_EACH_S)


async def _connections(port: int) -> AsyncIterator[asyncio.StreamWriter]:
    """Yield a connection, and another one whenever the former is closed."""
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await _open(port)
            closed = asyncio.create_task(_closed(reader, writer))
            yield writer
            closed.cancel()
            writer.close()
        await asyncio.sleep(_RECONNECT_S)


async def _closed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close a connection when the other side does."""
    with contextlib.suppress(OSError):
        while await reader.read(65536):
            pass
    writer.close()


async def _open(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(_ATTACKER, 0))


ATTACKS: Mapping[str, Callable[[Target], Awaitable[None]]] = {
    "connections": _hold_connections,
    "bodies": _stall_bodies,
    "calls": _stall_calls,
    "unreadable requests": _send_unreadable,
    "expensive documents": _send_expensive,
}
"""The attacks by name."""
