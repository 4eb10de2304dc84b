"""Twenty models with memory for five: random load, clients that die, versions that are replaced.

Each response is compared with what the version that it names translates alone. Finally, requests
for a model that stays loaded are timed: alone, beside requests for others that stay loaded too,
and beside as many requests that make others load.
"""

from __future__ import annotations

import re
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dragoman_client import Translator as Client
from dragoman_load_test.requests.messages import grpc_request
from dragoman_serving.translation.translator import Translator

from dragoman.kernel.manifest import Manifest
from tests.campaigns import load, pair_traffic
from tests.campaigns.background import Background
from tests.campaigns.load import Work
from tests.campaigns.outcome import Bound, Outcome, percentile
from tests.campaigns.pair_traffic import MAX_TOKENS, DyingClients, PairLoad, Question, Reply
from tests.campaigns.plan import Plan
from tests.campaigns.random_models import RandomModel, make_models, texts
from tests.campaigns.replacements import Replacements
from tests.campaigns.server import CampaignServer, resident_bytes
from tests.served_bundles import bound_for

_RESIDENT = 5
"""Number of models that fit the memory."""
_OWN_BYTES = 110 << 20
"""Memory of the engine's process without models, and of waiting requests."""
_EVERY_S = 0.05
_CLIENTS, _DYING_CLIENTS = 8, 4
_DEADLINE_S = 120.0
_TEXTS = 3
_HALF = 0.5
_CROWD = 16
_ROUNDS = 2
_MOST_RATIO = 1.5
_PART_S = 5.0
_LOADED = 2
"""Number of other models that stay loaded beside the one whose requests are timed."""
_INTERVAL_S = 0.1
_REFUSED = "the previous version stays in use"


def run(plan: Plan) -> Outcome:
    """Load all models at random for ten minutes, then time one of them."""
    outcome = Outcome("models")
    with tempfile.TemporaryDirectory() as name:
        models = make_models(Path(name), plan)
        folders = [version for model in models for version in model.versions]
        memory_bytes = bound_for(folders, _RESIDENT, _OWN_BYTES)
        words = [str(models[0].link.parent), "--memory", str(memory_bytes)]
        with CampaignServer(models=words) as server, load.pool(2) as pool:
            outcome.before = server.usage()
            with _Sampler(server.pids()["engine"]) as sampler:
                replies = _random_load(outcome, server, pool, models, plan)
                _time_resident(outcome, server, pool, models, plan)
            outcome.after, outcome.crashes = server.usage(), server.crashes
            outcome.figures["models"] = _counts(server)
        outcome.bounds.append(Bound("memory over the bound", sampler.most / memory_bytes, 1.0))
        outcome.figures["memory, MB"] = {
            "bound": memory_bytes / 1e6,
            "most": sampler.most / 1e6,
            "samples": sampler.count,
        }
        wrong = list(_wrong(replies, folders))
        outcome.wrong += len(wrong)
        outcome.figures["wrong answers"] = "; ".join(wrong[:3]) or "none"
    return outcome


def _random_load(
    outcome: Outcome,
    server: CampaignServer,
    pool: ProcessPoolExecutor,
    models: Sequence[RandomModel],
    plan: Plan,
) -> list[Reply]:
    """Requests for all pairs, while clients die and versions are replaced."""
    directions = [direction for model in models for direction in model.directions]
    steady = PairLoad(_grpc(server), directions, texts(plan, _TEXTS), _DEADLINE_S)
    # A cancelled gRPC call can crash Triton (docs/security.md).
    dying = PairLoad(_http(server), directions, steady.texts, _DEADLINE_S)
    replaced = [model for model in models if len(model.versions) > 1]
    replacements = Replacements(
        models=replaced,
        served=lambda: _identities(server),
        refused=lambda: server.log.count(_REFUSED),
        count=plan.of(100, 6),
        seed=plan.seed,
    )
    begin_s = time.monotonic()
    least_s = plan.of(600, 15)
    replies: list[Reply] = []
    with DyingClients(dying, _DYING_CLIENTS, plan.seed) as deaths, replacements:
        while replacements.is_busy or time.monotonic() - begin_s < least_s:
            seed = plan.seed + len(replies)
            part = pool.submit(pair_traffic.closed_loop, steady, _CLIENTS, _PART_S, seed)
            replies += part.result()
    took_s = time.monotonic() - begin_s
    faults = [reply.fault for reply in replies if reply.fault]
    outcome.requests += len(replies)
    outcome.hangs += faults.count(load.HUNG)
    outcome.lost += len(faults)
    times = [reply.took_s for reply in replies if not reply.fault]
    outcome.figures["random load"] = {
        "requests/s": len(replies) / took_s,
        "p50, s": percentile(times, 0.5),
        "p99, s": percentile(times, 0.99),
        "longest, s": max(times, default=0.0),
        "clients killed": deaths.deaths * _DYING_CLIENTS,
        "faults": ", ".join(sorted(set(faults))[:3]),
    }
    outcome.figures["replacements"] = dict(replacements.done)
    outcome.bounds.append(Bound("replacements", replacements.done.total(), plan.of(100, 6), True))
    outcome.bounds.append(Bound("replacements that went wrong", len(replacements.late), 0))
    outcome.figures["replacements"]["wrong"] = ", ".join(replacements.late) or "none"
    return replies


@dataclass(frozen=True)
class _OneModel(Work):
    """Requests for one model."""

    languages: tuple[str, str] = ("en", "de")
    text: str = ""

    def message(self, numbers: Sequence[int]) -> bytes:
        """A request with the text repeated once for each number."""
        options = Question(self.languages, 1, self.text).options(MAX_TOKENS)
        return grpc_request([self.text] * len(numbers), options, self.deadline_s)


def _time_resident(
    outcome: Outcome,
    server: CampaignServer,
    pool: ProcessPoolExecutor,
    models: Sequence[RandomModel],
    plan: Plan,
) -> None:
    """Requests for one model at half of its capacity, alone and beside requests for others."""
    *others, resident = models
    text, *_ = texts(plan, 1)
    work = _OneModel(server.grpc_port, "light", _DEADLINE_S, plan.seed, resident.languages, text)
    directions = [model.languages for model in others]
    beside = {
        kind: PairLoad(_grpc(server), pairs, [text], _DEADLINE_S, 1, _INTERVAL_S)
        for kind, pairs in {
            "beside loaded models": directions[:_LOADED],
            "beside loading": directions[_LOADED:],
        }.items()
    }
    seconds = plan.of(20, 4)
    crowd = pool.submit(load.closed_loop, work, _CROWD, seconds / _ROUNDS).result()
    rate = _HALF * len(crowd) / (seconds / _ROUNDS)
    times: defaultdict[str, list[float]] = defaultdict(list)
    done: Counter[str] = Counter()
    for seed in range(_ROUNDS):
        for kind in ("alone", *beside):
            before = _total(server, "loads_total")
            others_loop = (
                pool.submit(pair_traffic.closed_loop, beside[kind], 1, float(seconds), seed)
                if kind in beside
                else None
            )
            loop = pool.submit(load.open_loop, work, rate, float(seconds)).result()
            outcome.requests += len(loop.records)
            outcome.lost += sum(not record.is_ok for record in loop.records)
            times[kind] += [record.took_s for record in loop.records if record.is_ok]
            if others_loop is not None:
                replies = others_loop.result()
                outcome.lost += sum(bool(reply.fault) for reply in replies)
                done[f"{kind}: requests"] += len(replies)
                done[f"{kind}: loads"] += round(_total(server, "loads_total") - before)
    p99_s = {kind: percentile(of, 0.99) for kind, of in times.items()}
    outcome.figures["a resident model, requests/s"] = rate
    for kind, of in times.items():
        outcome.figures[kind] = {"p50, s": percentile(of, 0.5), "p99, s": p99_s[kind]}
    outcome.figures["requests and loads"] = dict(done)
    ratio = p99_s["beside loading"] / p99_s["alone"]
    outcome.bounds.append(
        Bound("p99 beside constant loading over p99 alone", ratio, _MOST_RATIO, timed=True)
    )


class _Sampler(Background):
    """Samples the memory of a process, twenty times a second."""

    def __init__(self, pid: int) -> None:
        """Prepare; entering the context begins."""
        super().__init__()
        self.most = self.count = 0
        self._status = Path(f"/proc/{pid}/status")

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            try:
                status = self._status.read_text(encoding="ascii")
            except OSError:  # it ended, which is counted as a crash
                return
            self.most = max(self.most, resident_bytes(status))
            self.count += 1


def _wrong(replies: Sequence[Reply], folders: Sequence[Path]) -> Iterator[str]:
    """Responses that differ from what their version translates alone, or that name no version."""
    answers: defaultdict[str, dict[Question, set[str]]] = defaultdict(lambda: defaultdict(set))
    for reply in replies:
        if not reply.fault:
            answers[reply.bundle][reply.question].add(reply.text)
    for folder in folders:
        questions = answers.pop(Manifest.read(folder).identity, {})
        for question, right in _alone(folder, questions):
            for text in questions[question] - {right}:
                yield f"{folder.parent.name}: {question}: {text!r} instead of {right!r}"
    for bundle, questions in answers.items():
        yield f"the bundle {bundle!r} is none of the versions: {next(iter(questions))}"


def _alone(folder: Path, questions: Iterable[Question]) -> Iterator[tuple[Question, str]]:
    """What a version translates alone."""
    translator = Translator(folder)
    for question in questions:
        options = question.options(MAX_TOKENS)
        yield question, translator.translate([question.text], options)[0].text
    translator.close()


def _identities(server: CampaignServer) -> dict[str, str]:
    """Identities of the served bundles, by name."""
    with Client(_grpc(server)) as client:
        return {bundle["name"]: bundle["identity"] for bundle in client.info().bundles}


def _counts(server: CampaignServer) -> dict[str, float]:
    """The results of all models together."""
    names = ("loads_total", "load_seconds_total", "load_failures_total", "evictions_total")
    return {name: _total(server, name) for name in (*names, "requests_total")}


def _total(server: CampaignServer, name: str) -> float:
    """The sum of a metric over all models."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.metrics_port}/metrics") as answer:
        metrics = answer.read().decode()
    values = re.findall(rf"^dragoman_bundle_{name}\{{\S+ (\S+)$", metrics, re.MULTILINE)
    return sum(map(float, values))


def _grpc(server: CampaignServer) -> str:
    return f"grpc://127.0.0.1:{server.grpc_port}"


def _http(server: CampaignServer) -> str:
    return f"http://127.0.0.1:{server.http_port}"
