"""Mixed load with clients that are killed at random; at the end, nothing may be left behind.

Run from the project's folder:

    python -m lab.served.soak --minutes 10

Clients are processes that send greedy, beam and streamed requests over both protocols, some with
deadlines, some cancelled. Each is killed after a random time, whatever it is doing, and replaced.
There are pauses in between. At the end the engine must be empty, the server must translate, there
must be no new segments of shared memory, and the engine's memory must be close to its size after
the first minute's load.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import re
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton_grpc
from dragoman_serving.launch.launcher import TritonServer
from dragoman_serving.launch.serve_options import ServeOptions

REPOSITORY = Path("model_repository")
_CLIENTS = 12
_LONGEST_LIFE_S = 6.0
_PAUSE_EVERY_S, _PAUSE_S = 60.0, 5.0
_SETTLE_S = 40.0
_GROWTH = 1.10
"""Allowed memory after the load, over memory after its first burst."""
_WORDS = (
    "the",
    "house",
    "tree",
    "river",
    "friend",
    "goes",
    "sees",
    "yesterday",
    "not",
    "and",
    "we",
)


@dataclass(frozen=True)
class Addresses:
    """The addresses of a server."""

    http: str
    grpc: str
    metrics: str


def client(addresses: Addresses, seed: int) -> None:
    """Send requests of every kind until killed."""
    generator = random.Random(seed)  # noqa: S311  (no secret)
    kinds = (_post, _stream, _infer, _cancel)
    with triton_grpc.InferenceServerClient(addresses.grpc) as grpc:
        while True:
            with contextlib.suppress(
                urllib.error.URLError, OSError, triton_grpc.InferenceServerException
            ):
                generator.choice(kinds)(addresses, grpc, generator)


def _texts(generator: random.Random, most: int) -> list[str]:
    number = generator.randint(1, most)
    return [" ".join(generator.choices(_WORDS, k=generator.randint(1, 40))) for _ in range(number)]


def _options(generator: random.Random) -> dict[str, object]:
    options: dict[str, object] = {"beam_width": generator.choice((1, 1, 2, 4, 8))}
    if generator.random() < 0.3:
        options["timeout"] = generator.randint(1_000, 2_000_000)
    if generator.random() < 0.1:
        options["colour"] = "red"  # the server refuses it
    return options


def _post(addresses: Addresses, _: object, generator: random.Random) -> None:
    body = {"text_input": _texts(generator, 20), **_options(generator)}
    _read(f"{addresses.http}/v2/models/translate/generate", body)


def _stream(addresses: Addresses, _: object, generator: random.Random) -> None:
    body = {"text_input": _texts(generator, 1)[0], **_options(generator)}
    _read(f"{addresses.http}/v2/models/translate_stream/generate_stream", body)


def _read(url: str, body: dict[str, object]) -> None:
    with urllib.request.urlopen(url, json.dumps(body).encode(), timeout=60) as answer:  # noqa: S310
        answer.read()


def _infer(_: object, grpc: triton_grpc.InferenceServerClient, generator: random.Random) -> None:
    grpc.infer("translate", [_tensor(generator)], parameters=_options(generator))


def _cancel(_: object, grpc: triton_grpc.InferenceServerClient, generator: random.Random) -> None:
    call = grpc.async_infer("translate", [_tensor(generator)], lambda result, error: None)
    time.sleep(generator.random() / 5)
    call.cancel()


def _tensor(generator: random.Random) -> triton_grpc.InferInput:
    texts = [text.encode() for text in _texts(generator, 20)]
    tensor = triton_grpc.InferInput("text_input", [1, len(texts)], "BYTES")
    tensor.set_data_from_numpy(np.array([texts], dtype=np.object_))
    return tensor


class Crowd:
    """Client processes that are killed at random and replaced."""

    def __init__(self, addresses: Addresses) -> None:
        """Start without clients."""
        self._addresses = addresses
        self._context = multiprocessing.get_context("spawn")
        self._living: list[tuple[multiprocessing.process.BaseProcess, float]] = []
        self.killed = 0

    def run(self, seconds: float) -> None:
        """Keep the clients running for a while, then kill all of them."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            while len(self._living) < _CLIENTS:
                self._add()
            now_s = time.monotonic()
            for process, dies_s in [one for one in self._living if one[1] < now_s]:
                self._kill(process, dies_s)
            time.sleep(0.05)
        for process, dies_s in list(self._living):
            self._kill(process, dies_s)

    def _add(self) -> None:
        process = self._context.Process(
            target=client, args=(self._addresses, random.getrandbits(32)), daemon=True
        )
        process.start()
        life_s = 1.5 + _LONGEST_LIFE_S * random.random()  # noqa: S311  (no secret)
        self._living.append((process, time.monotonic() + life_s))

    def _kill(self, process: multiprocessing.process.BaseProcess, dies_s: float) -> None:
        process.kill()
        process.join()
        self._living.remove((process, dies_s))
        self.killed += 1


def metrics(addresses: Addresses) -> dict[str, float]:
    """The engine's metrics, without their prefix."""
    with urllib.request.urlopen(addresses.metrics, timeout=10) as answer:  # noqa: S310
        text = answer.read().decode()
    found = re.findall(r"^dragoman_(\w+)\{.*?\} (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def settled(addresses: Addresses) -> dict[str, float]:
    """Metrics once the engine is empty, or after a timeout."""
    end_s = time.monotonic() + _SETTLE_S
    while True:
        time.sleep(2)
        now = metrics(addresses)
        if not (now["rows"] or now["waiting"] or now["cache_bytes"]) or time.monotonic() > end_s:
            return now


def resident_mb(pids: list[int]) -> float:
    """Resident memory of processes, in MB."""
    total = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        total += int(status.split("VmRSS:")[1].split()[0])
    return total / 1e3


def segments() -> int:
    """Number of existing segments of shared memory."""
    return sum(1 for _ in Path("/dev/shm").iterdir())  # noqa: S108


def soak(minutes: float, repository: Path) -> list[str]:
    """Run the load; return the problems found afterwards."""
    options = ServeOptions(repository, http_port=0, grpc_port=0, metrics_port=0)
    with TritonServer(options) as server:
        metrics_url = f"http://127.0.0.1:{server.ports.metrics}/metrics"
        addresses = Addresses(server.http_url, server.grpc_url.removeprefix("grpc://"), metrics_url)
        models = server.model_pids
        segments_before = segments()
        crowd = Crowd(addresses)
        end_s = time.monotonic() + 60 * minutes
        after_burst = None
        while (left_s := end_s - time.monotonic()) > 0:
            crowd.run(min(left_s, _PAUSE_EVERY_S))
            now, resident = settled(addresses), resident_mb(models)
            after_burst = after_burst or resident
            shown = {name: now[name] for name in sorted(now) if name.startswith("sentences")}
            print(f"{crowd.killed} killed, {resident:.0f} MB resident, {shown}", flush=True)
            time.sleep(_PAUSE_S)
        wrong = [f"{n} is {now[n]:g}" for n in ("rows", "waiting", "cache_bytes") if now[n]]
        if resident > _GROWTH * (after_burst or resident):
            wrong.append(f"{resident:.0f} MB resident, {after_burst:.0f} after the first minute")
        if segments() != segments_before:
            wrong.append(f"{segments()} segments of shared memory, {segments_before} before")
        if server.model_pids != models:
            wrong.append("a model's process is not the one that was started")
        _read(f"{addresses.http}/v2/models/translate/generate", {"text_input": "Good morning."})
    return wrong


def main() -> int:
    """Print the problems, if any."""
    parser = argparse.ArgumentParser(prog="python -m lab.served.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="default: 10")
    parser.add_argument("--repository", type=Path, default=REPOSITORY)
    arguments = parser.parse_args()
    wrong = soak(arguments.minutes, arguments.repository)
    print("\n".join(wrong) or "nothing was left behind")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
