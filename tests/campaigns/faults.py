"""Faults under a mixed load: processes that are killed or stopped, and resources that run out."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.campaigns import http2, load
from tests.campaigns.grpc_damage import SERVICE
from tests.campaigns.load import Work
from tests.campaigns.mixed import LOST, WRONG, Ports, forever, mixed
from tests.campaigns.outcome import Bound, Outcome, percentile
from tests.campaigns.plan import Plan
from tests.campaigns.sentence import Prober, good_answer
from tests.campaigns.server import CampaignServer

_CLIENTS = 24
_DEADLINE_S = 3.0
_LEAD_S = 1.5
"""Duration of the load before the fault."""
_BACK_S = 30.0
_MOST_OUTAGE_S = 1.0
_STOP_ENGINE_S, _STOP_TRITON_S = 12.0, 4.0
"""How long the engine and Triton are stopped. The engine is stopped for longer than a request may
hang, Triton for less: nothing else can answer requests that Triton does not read."""
_SLOW_READERS = 40
_SLOW_S = 6.0
_KILLED_CLIENTS, _CLIENT_LIFE_S = 3, 2.5
_DESCRIPTORS, _IDLE = 256, 400
_IDLE_S = 5.0
_MOST_LOG_BYTES_PER_S = 100_000
_LINES, _DISK_S = 3000, 120.0
_NOTICED_S = 0.2
"""A killed process no longer answers after this."""
_OWN_MOUNTS = ("unshare", "--map-root-user", "--mount")
_NO_MOUNTS = f"`{' '.join(_OWN_MOUNTS)}` does not work here"

Fault = Callable[[CampaignServer], None]


def run(plan: Plan) -> Outcome:
    """Each fault in turn; the short form runs only the first ones."""
    outcome = Outcome("faults")
    with CampaignServer() as server, load.pool(1) as pool:
        outcome.before = server.usage()
        for name, fault, kills in _FAULTS[: plan.of(len(_FAULTS), _SHORT)]:
            _suffer(outcome, server, pool, name, fault, kills, plan.seed)
        for name in ("engine killed", "Triton killed"):
            outage_s = outcome.figures[name]["outage, s"]
            outcome.bounds.append(Bound(f"{name}: outage, s", outage_s, _MOST_OUTAGE_S, timed=True))
        _full_disk_of_the_client(outcome, server)
        outcome.after = server.usage()
    if not plan.short:
        _full_shared_memory(outcome)
    _few_descriptors(outcome)
    return outcome


def _suffer(
    outcome: Outcome,
    server: CampaignServer,
    pool: ProcessPoolExecutor,
    name: str,
    fault: Fault,
    kills: int,
    seed: int,
) -> None:
    """Cause a fault under load, wait until the server is back, and record what the clients saw."""
    crashes = server.crashes
    loads = []
    ports = Ports(server.http_port, server.grpc_port)
    with Prober(server.http_port) as prober:
        loads.append(pool.submit(mixed, ports, _CLIENTS, 2 * _LEAD_S, _DEADLINE_S, seed))
        time.sleep(_LEAD_S)
        fault(server)
        time.sleep(_NOTICED_S)
        outcome.hangs += server.revive(_BACK_S) is not None
        loads.append(pool.submit(mixed, ports, _CLIENTS, _LEAD_S, _DEADLINE_S, seed + 1))
        records = [record for future in loads for record in future.result()]
    outcome.requests += len(records) + prober.requests
    outcome.crashes += max(0, server.crashes - crashes - kills)
    outcome.hangs += sum(record.is_hung for record in records)
    outcome.lost += sum(record.status == LOST for record in records)
    outcome.wrong += prober.wrong + sum(record.status == WRONG for record in records)
    outcome.longest_outage_s = max(outcome.longest_outage_s, prober.longest_outage_s)
    outcome.figures[name] = {
        "requests": len(records),
        "answered": sum(record.is_ok for record in records),
        "p99 of the answered, s": percentile(
            [record.took_s for record in records if record.is_ok], 0.99
        ),
        "longest, s": max(record.took_s for record in records),
        "outage, s": prober.longest_outage_s,
        "restarts": server.crashes - crashes,
        "errors": load.errors(records),
    }


def _stopped(name: str, seconds: float) -> Fault:
    def stop(server: CampaignServer) -> None:
        pid = server.pids()[name]
        server.kill(name, signal.SIGSTOP)
        time.sleep(seconds)
        # A watchdog may have killed it meanwhile.
        if server.pids().get(name) == pid:
            server.kill(name, signal.SIGCONT)

    return stop


def _slow_readers(server: CampaignServer) -> None:
    """Clients that send requests over both protocols and do not read the responses."""
    window = struct.pack(">HI", 4, 0)
    message = Work(server.grpc_port, "light", _DEADLINE_S).message(range(50))
    call = http2.call((SERVICE + "ModelInfer").encode(), message, settings=window)
    body = b'{"text_input": "%s", "split_sentences": true}' % (b"I am at home. " * 100)
    request = b"POST /v2/models/translate_stream/generate_stream HTTP/1.1\r\nHost: x\r\n"
    request += b"Content-Length: %d\r\n\r\n" % len(body) + body
    with contextlib.ExitStack() as stack:
        for number in range(_SLOW_READERS):
            port, sent = ((server.grpc_port, call), (server.http_port, request))[number % 2]
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(("127.0.0.1", port))
            client.sendall(sent)
        time.sleep(_SLOW_S)


def _killed_clients(server: CampaignServer) -> None:
    """Processes full of clients, killed with their requests in flight."""
    context = multiprocessing.get_context("spawn")
    ports = Ports(server.http_port, server.grpc_port)
    clients = [
        context.Process(target=forever, args=(ports, _CLIENTS, number))
        for number in range(_KILLED_CLIENTS)
    ]
    for client in clients:
        client.start()
    time.sleep(_CLIENT_LIFE_S)
    for client in clients:
        client.kill()
        client.join()


_FAULTS: tuple[tuple[str, Fault, int], ...] = (
    ("engine killed", lambda server: server.kill("engine"), 1),
    ("Triton killed", lambda server: server.kill("triton"), 1),
    ("engine stopped", _stopped("engine", _STOP_ENGINE_S), 1),
    ("clients killed", _killed_clients, 0),
    ("Triton stopped", _stopped("triton", _STOP_TRITON_S), 0),
    ("slow readers", _slow_readers, 0),
)
"""Faults with the restarts that they cause; the short form takes the first ones."""
_SHORT = 4


def _full_disk_of_the_client(outcome: Outcome, server: CampaignServer) -> None:
    """`dragoman translate` onto a full disk says so in one line, and resumes on a larger one."""
    prefix = _own_mounts()
    if prefix is None:
        outcome.not_run["full disk of the client"] = _NO_MOUNTS
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "disk").mkdir()
        lines = "".join(f"I have {number} apples.\n" for number in range(_LINES))
        (folder / "lines").write_text(lines, encoding="utf-8")
        command = [sys.executable, "-m", "dragoman", "translate", "--beam-width", "1"]
        command += ["--target-language", "de", "--url", f"grpc://127.0.0.1:{server.grpc_port}"]
        command += ["--input", f"{folder}/lines", "--output", f"{folder}/disk/out"]
        script = f"""cd {folder} && mount -t tmpfs -o size=64k x disk
            "$@" 2> said; echo $? > codes
            mount -o remount,size=16m disk
            "$@" --resume; echo $? >> codes
            wc -l < disk/out >> codes"""
        subprocess.run([*prefix, "sh", "-c", script, "sh", *command], timeout=_DISK_S, check=False)
        full, resumed, written = (folder / "codes").read_text().split()
        said = (folder / "said").read_text().strip()
    outcome.figures["full disk of the client"] = {
        "exit code": full,
        "lines of errors": said.count("\n") + 1,
        "exit code when resumed": resumed,
        "lines written": written,
    }
    outcome.requests += 1
    outcome.lost += written != str(_LINES) or (full, resumed) == ("0", "0")


def _full_shared_memory(outcome: Outcome) -> None:
    """With a full `/dev/shm` the server starts, serves, and comes back after Triton was killed."""
    prefix = _own_mounts()
    if prefix is None:
        outcome.not_run["full /dev/shm"] = _NO_MOUNTS
        return
    fill = "mount -t tmpfs -o size=64k x /dev/shm && head -c 65536 /dev/zero > /dev/shm/full"
    with CampaignServer([*prefix, "sh", "-c", f'{fill}; exec "$@"', "sh"]) as server:
        outcome.wrong += not good_answer(server.http_port)
        server.kill("triton")
        start = time.monotonic()
        time.sleep(_NOTICED_S)
        outcome.hangs += server.revive(_BACK_S) is not None
        outcome.figures["full /dev/shm"] = {"back after, s": time.monotonic() - start}
        outcome.requests += 2


def _few_descriptors(outcome: Outcome) -> None:
    """More idle connections than the soft limit of open files: requests still work, the log is
    quiet."""
    limit = ["sh", "-c", f'ulimit -Sn {_DESCRIPTORS}; exec "$@"', "sh"]
    with CampaignServer(limit) as server, contextlib.ExitStack() as stack:
        for _ in range(_IDLE):
            with contextlib.suppress(OSError):
                client = socket.create_connection(("127.0.0.1", server.http_port), _IDLE_S)
                stack.enter_context(client)
        log_bytes = server.log_bytes
        served = good_answer(server.http_port, timeout_s=_IDLE_S)
        time.sleep(1.0)
        grown = server.log_bytes - log_bytes
        stack.close()
        outcome.wrong += not good_answer(server.http_port)
        outcome.crashes += server.crashes
        outcome.requests += _IDLE + 2
    outcome.bounds += [
        Bound("few descriptors: served beside idle connections", served, 1, at_least=True),
        Bound("few descriptors: log, bytes in a second", grown, _MOST_LOG_BYTES_PER_S),
    ]


def _own_mounts() -> tuple[str, ...] | None:
    """A prefix command that runs another command with its own mounts; None if there is none."""
    usable = shutil.which("unshare") and subprocess.run([*_OWN_MOUNTS, "true"]).returncode == 0
    return _OWN_MOUNTS if usable else None
