"""The engine on a small fake model, and on a bundle compared with the oracle."""

from __future__ import annotations

import itertools
import random
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from dragoman_export.tensorrt.plans import PlanSettings, requests
from dragoman_serving.engine.batching.engine import Engine
from dragoman_serving.engine.batching.job import Progress
from dragoman_serving.engine.cache import CAPACITIES
from dragoman_serving.engine.compiled.compiled_network import NativeNetwork
from dragoman_serving.engine.errors import Closed, DeadlineExceeded, EngineFailure, Overloaded
from dragoman_serving.engine.network import Network
from dragoman_serving.engine.runtimes.device.device_memory import DeviceTensor, HostMemory
from dragoman_serving.engine.runtimes.device.device_network import DeviceNetwork
from dragoman_serving.engine.runtimes.device.onnx_runner import OnnxRunner
from dragoman_serving.engine.runtimes.device.row_counts import padded_count
from dragoman_serving.engine.runtimes.onnx_session import OnnxSession
from dragoman_serving.engine.runtimes.session_decoding import Sessions
from dragoman_serving.engine.sentence import SearchOptions, Sentence
from dragoman_serving.engine.settings import BatchLimits, FloatPrecision, Tuning
from dragoman_training.network.transformer import Transformer
from dragoman_training.oracle.constraints import Options
from dragoman_training.oracle.search import search
from dragoman_training.run import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.kernel.hypothesis import Hypothesis
from dragoman.kernel.manifest import Manifest, SpecialIds
from tests.unit.serving.engine.copy_session import CopySession
from tests.unit.serving.engine.random_options import options, search_options
from tests.waiting import wait_for, wait_until_done

GREEDY = SearchOptions(beam_width=1, length_penalty=0.0)
SPECIAL_IDS = SpecialIds(tags={"en": 4, "de": 5})
WAIT_S = 60
ROWS = 12
"""Rows of each worker, for the bundle's engine."""
MOST_TOKENS = 96
"""Of its sentences: caches grow four times until then."""


@pytest.fixture
def session() -> CopySession:
    return CopySession()


@pytest.fixture
def engine(session: CopySession) -> Iterator[Engine]:
    running = Engine(Sessions(session), SPECIAL_IDS, limits=BatchLimits(rows=8, waiting=20))
    yield running
    session.gate.set()
    running.close()


def sentence(*ids: int, limit: int = 50, options: SearchOptions = GREEDY) -> Sentence:
    return Sentence(ids, limit, options)


def results(engine: Engine, sentences: list[Sentence]) -> list[Hypothesis]:
    return [future.result(WAIT_S) for future in engine.submit(sentences)]


def test_sentences_of_all_lengths_resolve_their_futures(engine: Engine) -> None:
    generator = random.Random(0)
    sentences = [
        sentence(*(generator.randint(10, 90) for _ in range(generator.randint(1, 30))))
        for _ in range(20)
    ]
    for source, hypothesis in zip(sentences, results(engine, sentences), strict=True):
        assert hypothesis.ids == source.src_ids
        assert hypothesis.complete


def test_the_cache_grows_with_the_sentence(engine: Engine) -> None:
    ids = tuple(10 + index % 80 for index in range(CAPACITIES[3]))
    assert results(engine, [sentence(*ids, limit=200)])[0].ids == ids


def test_widths_and_limits_may_differ_in_flight(engine: Engine, session: CopySession) -> None:
    session.gate.clear()
    futures = engine.submit(
        [
            sentence(11, 12, 13, options=SearchOptions(3, 0.6)),
            sentence(21, 22, 23, 24, limit=2),
            sentence(31),
        ]
    )
    session.gate.set()
    hypotheses = [future.result(WAIT_S) for future in futures]
    assert [h.ids for h in hypotheses] == [(11, 12, 13), (21, 22), (31,)]
    assert [h.complete for h in hypotheses] == [True, False, True]


def test_a_sentence_joins_while_another_is_in_progress(
    engine: Engine, session: CopySession
) -> None:
    session.gate.clear()
    (long,) = engine.submit([sentence(*[11] * 40)])
    wait_for(lambda: engine.rows == 1)
    (short,) = engine.submit([sentence(12)])
    session.gate.set()
    assert short.result(WAIT_S).ids == (12,)
    assert len(long.result(WAIT_S).ids) == 40
    assert session.rows.count(2) == 2  # the short one's token and its end
    assert session.rows.count(1) == 39


def test_workers_share_the_rows() -> None:
    sessions = CopySession()
    engine = Engine(Sessions(sessions), SPECIAL_IDS, workers=2)
    sessions.gate.clear()
    futures = engine.submit([sentence(10, *[11] * length) for length in range(8)])
    wait_for(lambda: engine.rows == 8)
    sessions.gate.set()
    hypotheses = [future.result(WAIT_S) for future in futures]
    engine.close()
    assert sorted(len(h.ids) for h in hypotheses) == list(range(1, 9))
    assert max(sessions.rows) <= 4


def test_a_cancelled_sentence_releases_its_rows(engine: Engine, session: CopySession) -> None:
    session.gate.clear()
    first, second = engine.submit([sentence(*[11] * 40), sentence(*[12] * 30)])
    wait_for(lambda: engine.rows == 2)
    assert first.cancel()
    session.gate.set()
    assert second.result(WAIT_S).ids == (12,) * 30
    with pytest.raises(CancelledError):
        first.result(0)
    assert session.rows.count(2) <= 2


def test_a_cancelled_sentence_leaves_the_queue(engine: Engine, session: CopySession) -> None:
    session.gate.clear()
    engine.submit([sentence(11)] * 8)
    wait_for(lambda: engine.rows == 8)
    waiting = engine.submit([sentence(12)] * 12)
    for future in waiting:
        future.cancel()
    wait_for(lambda: engine.waiting == 0)


@pytest.mark.parametrize("in_flight", [True, False])
def test_deadlines_hold(engine: Engine, session: CopySession, in_flight: bool) -> None:
    session.gate.clear()
    if not in_flight:
        engine.submit([sentence(11)] * 8)
        wait_for(lambda: engine.rows == 8)
    late = Sentence((11, 12), 50, GREEDY, deadline_s=time.monotonic() + 0.05)
    (future,) = engine.submit([late])
    time.sleep(0.1)
    if in_flight:
        session.gate.set()
    with pytest.raises(DeadlineExceeded, match="deadline passed while it"):
        future.result(WAIT_S)


def test_higher_priority_runs_first(engine: Engine, session: CopySession) -> None:
    session.gate.clear()
    engine.submit([sentence(11)] * 8)
    wait_for(lambda: engine.rows == 8)
    order: list[int] = []
    futures = engine.submit([Sentence((20 + p,), 9, GREEDY, priority=p) for p in range(8)])
    (urgent,) = engine.submit([Sentence((30, 31), 9, SearchOptions(8, 0.0), priority=9)])
    for future in (*futures, urgent):
        future.add_done_callback(lambda done: order.append(done.result().ids[0]))
    session.gate.set()
    wait_for(lambda: len(order) == 9)
    assert order[0] == 30


def test_progress_grows_up_to_the_answer(engine: Engine) -> None:
    reports: list[tuple[int, ...]] = []
    beams: list[tuple[int, ...]] = []
    batch = [
        sentence(11, 12, 13),
        sentence(21, 22, 23, options=SearchOptions(4, 0.6)),
    ]
    greedy, beam = (f.result(WAIT_S) for f in engine.submit(batch, [reports.append, beams.append]))
    assert reports == [(11,), (11, 12), (11, 12, 13), (11, 12, 13)]
    assert all(beam.ids[: len(report)] == report for report in beams)
    assert [len(report) for report in beams] == sorted(len(report) for report in beams)
    assert greedy.ids == reports[-1]


@pytest.mark.parametrize("failure", [MemoryError(), RuntimeError("bad graph")])
def test_a_broken_engine_fails_all_requests_and_reports_it(
    session: CopySession, failure: BaseException
) -> None:
    reported = threading.Event()
    engine = Engine(
        Sessions(session),
        SPECIAL_IDS,
        workers=2,
        limits=BatchLimits(rows=2),
        on_failure=lambda _error: reported.set(),
    )
    session.gate.clear()
    futures = engine.submit([sentence(10, 11)] * 9)
    wait_for(lambda: engine.rows == 4)
    session.failure = failure
    session.gate.set()
    for future in futures:
        with pytest.raises(EngineFailure, match=type(failure).__name__):
            future.result(WAIT_S)
    assert reported.wait(WAIT_S)
    with pytest.raises(EngineFailure):
        engine.submit([sentence(10)])
    engine.close()


def test_too_many_waiting_sentences_are_refused_together(
    engine: Engine, session: CopySession
) -> None:
    session.gate.clear()
    with pytest.raises(Overloaded, match="limit of 20"):
        engine.submit([sentence(10)] * 21)
    accepted = engine.submit([sentence(10)] * 20)
    session.gate.set()
    assert all(future.result(WAIT_S).ids == (10,) for future in accepted)


def test_closing_finishes_waiting_sentences_and_refuses_more(session: CopySession) -> None:
    engine = Engine(Sessions(session), SPECIAL_IDS)
    session.gate.clear()
    futures = engine.submit([sentence(10), sentence(11)])
    session.gate.set()
    engine.close()
    assert [future.result(0).ids for future in futures] == [(10,), (11,)]
    with pytest.raises(Closed):
        engine.submit([sentence(10)])


def test_an_idle_worker_drops_its_batches(session: CopySession) -> None:
    """Nothing may reference a batch; tests/integration/test_memory.py measures the process."""
    engine = Engine(Sessions(session), SPECIAL_IDS, tuning=Tuning(idle_s=0.5))
    results(engine, [sentence(*[11] * 40, limit=60) for _ in range(16)])
    held = [weakref.ref(batch) for of_worker in engine._batches for batch in of_worker.values()]
    assert held
    assert engine.nbytes > 0
    wait_for(lambda: all(batch() is None for batch in held))
    assert engine.nbytes == 0
    engine.close()


@pytest.fixture(scope="module")
def model(random_bundle: Path) -> Transformer:
    return checkpoint.load(random_bundle).model


@pytest.fixture(scope="module")
def ssru_model(ssru_bundle: Path) -> Transformer:
    return checkpoint.load(ssru_bundle).model


@pytest.fixture(
    scope="module",
    params=[
        # One of each way to store caches: in tensors, in compiled code, on a device.
        *("int8", "native", "device", "ssru fp32", "ssru native"),
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in ("fp32", "device fp16", "device padded", "ssru device")
        ),
    ],
)
def bundle_engine(
    request: pytest.FixtureRequest, random_bundle: Path, ssru_bundle: Path
) -> Iterator[Engine]:
    is_ssru, kind = request.param.startswith("ssru"), request.param.removeprefix("ssru ")
    bundle = ssru_bundle if is_ssru else random_bundle
    manifest = Manifest.load(bundle)
    longest = replace(manifest.limits, max_source_tokens=MOST_TOKENS, max_target_tokens=MOST_TOKENS)
    manifest = replace(manifest, limits=longest)
    if kind == "native":
        network: Network = NativeNetwork(bundle, manifest)
    elif kind.startswith("device"):
        precision: FloatPrecision = "fp16" if kind.endswith("fp16") else "fp32"
        memory = HostMemory()
        planned = PaddedRunner if kind.endswith("padded") else PlannedRunner
        runner = (UnplannedRunner if is_ssru else planned)(
            bundle, manifest, precision, "cpu", memory
        )
        network = DeviceNetwork(manifest, runner, memory)
    else:
        network = Sessions(
            OnnxSession(bundle, manifest, kind, threads=1),
            OnnxSession(bundle, manifest, kind, threads=2),
        )
    running = Engine(network, manifest.special_ids, workers=2, limits=BatchLimits(rows=ROWS))
    yield running
    running.close()


def test_caches_of_each_width_stay_within_their_limit(
    bundle_engine: Engine, request: pytest.FixtureRequest
) -> None:
    """All rows are used, by short sentences first, then by the longest ones."""
    is_ssru = request.node.callspec.params["bundle_engine"].startswith("ssru")
    # With small rows, sources take the most memory, and narrow beams have the most of them.
    largest, other = (1, 4) if is_ssru else (4, 1)
    bound, held = bundle_engine.most_bytes(widest=4), []
    waiting = []
    for widths in ((largest,), (largest, other)):
        for width, tokens in itertools.product(widths, (8, 40, MOST_TOKENS)):
            searched = SearchOptions(width, 0.0)
            batch = [Sentence((5,) * tokens, tokens, searched)] * (2 * ROWS // width)
            watched: list[Progress] = [lambda _: held.append(bundle_engine.nbytes)] * len(batch)
            waiting += bundle_engine.submit(batch, watched)
        wait_until_done(waiting)
        assert max(held) <= bound * len(widths)
        assert max(held) >= bound / 2
        held.clear()


class PlannedRunner(OnnxRunner):
    """Accepts only shapes for which TensorRT plans for this many rows are built."""

    def __init__(self, bundle: Path, manifest: Manifest, *more: Any) -> None:
        super().__init__(bundle, manifest, *more)
        lengths = self.target_capacities
        settings = PlanSettings(max_rows=ROWS, cache_tokens=lengths)
        self.plans = {
            (plan.graph, plan.cache_tokens): plan for plan in requests(manifest, settings)
        }

    def run(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> None:
        key = (graph, tensors["past_key_0"].shape[2] if graph == "decoder" else None)
        for name, (smallest, _, largest) in self.plans[key].profiles[0].items():
            sizes = zip(smallest, tensors[name].shape, largest, strict=True)
            assert all(low <= size <= high for low, size, high in sizes), (graph, name)
        super().run(graph, tensors)


class PaddedRunner(PlannedRunner):
    """Gets few different row counts, like a network for which repetition is faster."""

    pads_steps = True
    most_rows = ROWS

    def __init__(self, bundle: Path, manifest: Manifest, *more: Any) -> None:
        super().__init__(bundle, manifest, *more)
        self.row_counts: set[int] = set()

    def run(self, graph: str, tensors: Mapping[str, DeviceTensor]) -> None:
        if graph == "decoder":
            self.row_counts.add(tensors["input_ids"].shape[0])
        super().run(graph, tensors)


class UnplannedRunner(OnnxRunner):
    """For a model without TensorRT plans; steps are padded."""

    pads_steps = True


def oracle(model: Transformer, sentence: Sentence, drawn: Options) -> list[Hypothesis]:
    """All results of the oracle, best first."""
    drawn = replace(drawn, hypotheses=sentence.options.hypotheses)
    return search(model, [sentence.src_ids], [sentence.max_tokens], drawn)[0]


def ids_of(best: Hypothesis) -> list[tuple[tuple[int, ...], bool]]:
    return [(hypothesis.ids, hypothesis.complete) for hypothesis in (best, *best.others)]


def assert_right(
    hypothesis: Hypothesis, sentence: Sentence, model: Transformer, drawn: Options
) -> None:
    """The results are the oracle's, or, if scores are equal except for rounding, as good."""
    right = oracle(model, sentence, drawn)
    if not agree(hypothesis, right, drawn):
        alike = (oracle(perturbed(model, seed), sentence, drawn) for seed in range(20))
        assert any(agree(hypothesis, expected, drawn) for expected in alike), (hypothesis, right)


def agree(hypothesis: Hypothesis, right: Sequence[Hypothesis], drawn: Options) -> bool:
    """Whether the best one is the oracle's, and the others too, in an order that ties may
    change."""
    best, *others = right
    # Repeat the last if there are too few.
    others += [others[-1] if others else best] * len(hypothesis.others)
    if (hypothesis.ids, hypothesis.complete) != (best.ids, best.complete):
        return False
    if hypothesis.log_prob is not None and hypothesis.log_prob != near(best.log_prob):
        return False
    for other, of_rank in zip(hypothesis.others, others, strict=False):
        # With and without the term completed, the same tokens may occur twice.
        scores = [candidate.log_prob for candidate in (best, *others) if candidate.ids == other.ids]
        if not any(other.log_prob == near(score) for score in scores):
            return False
        if other.score(drawn.alpha) != near(of_rank.score(drawn.alpha)):
            return False
    return True


def near(score: float | None) -> Any:
    return pytest.approx(score, rel=1e-6, abs=1e-3)


def perturbed(model: Transformer, seed: int) -> Transformer:
    """A model whose scores differ by about as much as rounding changes them."""
    generator = torch.Generator().manual_seed(seed)

    def project(hidden: torch.Tensor) -> torch.Tensor:
        scores = model.project(hidden)
        return scores + 3e-6 * torch.randn(scores.shape, generator=generator)

    parts = {"embedding": model.embedding, "encode": model.encode, "decode": model.decode}
    return cast(Transformer, SimpleNamespace(**parts, project=project))


@st.composite
def sentences(draw: st.DrawFn) -> tuple[Sentence, Options]:
    drawn = draw(options)
    src_ids = tuple(draw(st.lists(st.integers(6, 319), min_size=2, max_size=20)))
    most = draw(st.integers(1, 24))
    return Sentence(src_ids, most, search_options(drawn), draw(st.integers(0, 2))), drawn


arrivals = st.lists(
    st.tuples(sentences(), st.floats(0, 0.004), st.booleans()), min_size=1, max_size=16
)


def no_result_depends_on_other_sentences_in_flight(
    model: Transformer,
    ssru_model: Transformer,
    bundle_engine: Engine,
    request: pytest.FixtureRequest,
    arrivals: list[tuple[tuple[Sentence, Options], float, bool]],
) -> None:
    """Random arrivals, cancellations and options, compared with the oracle and with running
    alone."""
    name = request.node.callspec.params["bundle_engine"]
    is_exact = name.endswith(("fp32", "device"))
    right = ssru_model if name.startswith("ssru") else model
    futures = []
    for (sentence, _), pause_s, given_up in arrivals:
        (future,) = bundle_engine.submit([sentence])
        futures.append(future)
        time.sleep(pause_s)
        if given_up:
            future.cancel()
    together = [None if f.cancelled() else f.result(WAIT_S) for f in futures]
    for ((sentence, drawn), _, _), hypothesis in zip(arrivals, together, strict=True):
        if hypothesis is None:
            continue
        (alone,) = results(bundle_engine, [sentence])
        assert ids_of(alone) == ids_of(hypothesis)
        assert len(hypothesis.others) + 1 == sentence.options.hypotheses
        if is_exact:
            assert_right(hypothesis, sentence, right, drawn)
    wait_for(lambda: bundle_engine.rows == 0)


def with_arrivals(max_examples: int) -> Any:
    """The test with this many examples."""
    limits = settings(
        max_examples=max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    return limits(given(arrivals)(no_result_depends_on_other_sentences_in_flight))


test_no_result_depends_on_other_sentences_in_flight = with_arrivals(10)
test_no_result_depends_on_others_in_many_examples = pytest.mark.thorough(with_arrivals(20))


@pytest.mark.parametrize(
    ("width", "kind"),
    [
        (1, PlannedRunner),
        (4, PaddedRunner),
        pytest.param(1, PaddedRunner, marks=pytest.mark.thorough),
        pytest.param(4, PlannedRunner, marks=pytest.mark.thorough),
    ],
)
def test_a_device_gets_no_more_rows_than_may_be_in_flight(
    random_bundle: Path, model: Transformer, width: int, kind: type[PlannedRunner]
) -> None:
    """This holds however its memory has grown: a TensorRT plan is built for this many rows."""
    manifest, memory = Manifest.load(random_bundle), HostMemory()
    runner = kind(random_bundle, manifest, "fp32", "cpu", memory)
    network = DeviceNetwork(manifest, runner, memory)
    engine = Engine(network, manifest.special_ids, limits=BatchLimits(rows=ROWS))
    generator = random.Random(0)
    batch = [
        Sentence(
            tuple(generator.randint(6, 319) for _ in range(generator.randint(2, 40))),
            generator.randint(1, 40),
            SearchOptions(width, 0.6),
        )
        for _ in range(80)
    ]
    futures = [future for part in batch for future in engine.submit([part])]
    hypotheses = [future.result(WAIT_S) for future in futures]
    engine.close()
    for sentence, hypothesis in list(zip(batch, hypotheses, strict=True))[::8]:
        assert hypothesis.ids == oracle(model, sentence, Options(width, 0.6))[0].ids
    if isinstance(runner, PaddedRunner):
        few = {padded_count(slots, ROWS // width) * width for slots in range(1, ROWS // width + 1)}
        assert runner.row_counts <= few
