"""The comparison behind Triton: CTranslate2's model and settings, the rounds, the refusals."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from dragoman_load_test.latency import LatencyHistogram
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from dragoman.kernel.errors import CheckFailed
from dragoman.kernel.manifest import Limits
from lab.load import GENERATOR, MACHINE, LoadPlan, LoadResult
from lab.peers import served_race
from lab.peers.ctranslate2_repository import Layout, Setting, build_config, write_repository
from lab.peers.served import equal_share
from lab.peers.served_endpoint import ENGINE, IDLE, SERVER, Endpoint, with_precision
from lab.peers.served_race import (
    Case,
    Loads,
    Rounds,
    best_settings,
    check_errors,
    race,
    settings,
    speed_ratios,
    summary,
)
from tests.conftest import REPOSITORY

SETTING = Setting(Layout(instances=2, inter=1, intra=1), 1500, (4, 8), "int8")
BUNDLE = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
BACKEND = "lab.peers.ctranslate2_backend"
CASE = Case(beam_width=4, concurrency=8)
CPU_S = {GENERATOR: 0.2, SERVER: 0.1, ENGINE: 3.0, IDLE: 0.02, MACHINE: 3.5}


def read_config(folder: Path) -> Any:
    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())


def test_a_repository_matches_its_setting(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    write_repository(tmp_path / "repository", SETTING, tmp_path / "model", bundle)
    folder = tmp_path / "repository" / "translate"
    config = read_config(folder)
    assert config.dynamic_batching.max_queue_delay_microseconds == 1500
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8]
    assert [group.count for group in config.instance_group] == [2]
    assert {name: value.string_value for name, value in config.parameters.items()} == {
        "model": str(tmp_path / "model"),
        "compute_type": "int8",
        "inter_threads": "1",
        "intra_threads": "1",
    }
    assert (folder / "1" / "bundle").resolve() == bundle.resolve()
    assert f"from {BACKEND} import" in (folder / "1" / "model.py").read_text(encoding="utf-8")


def test_our_repository_is_served_in_another_precision(tmp_path: Path) -> None:
    ours = REPOSITORY / "model_repository"
    expected = read_config(ours / "translate")
    expected.parameters["precision"].string_value = "int8"
    assert read_config(with_precision(ours, "int8", tmp_path) / "translate") == expected
    assert (tmp_path / "translate" / "1").resolve() == ours / "translate" / "1"


class FakeTranslator:
    """Returns the source without its tag, and records its calls."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def translate_batch(self, src: list[list[str]], **options: Any) -> list[Any]:
        self.calls.append({"tags": {tokens[0] for tokens in src}, "size": len(src), **options})
        return [SimpleNamespace(hypotheses=[tokens[1:]]) for tokens in src]


class FakeTensor:
    """Triton's `Tensor`."""

    def __init__(self, name: str, values: Any) -> None:
        self._name, self._values = name, values

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._values


def request(text: str, **options: Any) -> Any:
    values = {"text_input": text.encode(), **options}
    tensors = [FakeTensor(name, np.array([[value]], object)) for name, value in values.items()]
    return SimpleNamespace(inputs=lambda: tensors)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    pytest.importorskip("ctranslate2")
    utils: Any = ModuleType("triton_python_backend_utils")
    utils.Tensor = FakeTensor
    utils.InferenceResponse = lambda tensors: {t.name(): t.as_numpy().item() for t in tensors}
    utils.get_input_tensor_by_name = lambda infer_request, name: next(
        tensor for tensor in infer_request.inputs() if tensor.name() == name
    )
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    module = importlib.import_module(BACKEND)
    translator = FakeTranslator()
    monkeypatch.setattr(module.ctranslate2, "Translator", lambda *_, **_options: translator)
    manifest = SimpleNamespace(limits=Limits(), tokenizer="tokenizer.model")
    monkeypatch.setattr(module.Manifest, "load", lambda _: manifest)
    monkeypatch.setattr(module, "calls", translator.calls, raising=False)
    yield module
    sys.modules.pop(BACKEND)


def start(backend: Any, layout: Layout) -> Any:
    config = build_config(Setting(layout, 0), Path("model"))
    model = backend.TranslateModel()
    written = json_format.MessageToDict(config, preserving_proto_field_name=True)
    model.initialize(
        {
            "model_repository": str(BUNDLE.parents[1]),
            "model_version": BUNDLE.parent.name,
            "model_config": json.dumps(written),
        }
    )
    return model


def test_a_batch_is_one_call_with_one_limit(backend: Any) -> None:
    model = start(backend, Layout(2, 1, 1))
    texts = ["Good morning.", "I would like a cup of coffee."]
    responses = model.execute([request(text, beam_width=1) for text in texts])
    assert [response["text_output"].decode() for response in responses] == texts
    (call,) = backend.calls
    # With the tag and the end.
    longest = max(int(response["output_tokens"]) for response in responses) + 2
    assert call == {
        "tags": {"<2de>"},
        "size": 2,
        "beam_size": 1,
        "length_penalty": 0.6,
        "max_decoding_length": Limits().target_tokens(longest),
        "min_decoding_length": 1,
        "return_end_token": True,
        "max_batch_size": 0,
        "batch_type": "examples",
    }


def test_different_options_are_separate_calls_and_answers_keep_their_order(
    backend: Any,
) -> None:
    model = start(backend, Layout(1, 2, 1))
    texts = ["one", "two", "three", "four", "five"]
    tags = [b"de", b"en", b"de", b"en", b"de"]
    pairs = zip(texts, tags, strict=True)
    responses = model.execute([request(text, target_language=tag) for text, tag in pairs])
    assert [response["text_output"].decode() for response in responses] == texts
    calls = [(call["tags"], call["size"], call["max_batch_size"]) for call in backend.calls]
    assert calls == [({"<2de>"}, 3, 2), ({"<2en>"}, 2, 1)]


def test_ctranslate2_does_not_share_its_process_with_onnx_runtime() -> None:
    pytest.importorskip("ctranslate2")
    code = (
        "import sys, types\n"
        "name = 'triton_python_backend_utils'\n"
        "sys.modules[name] = types.ModuleType(name)\n"
        f"import {BACKEND}, lab.peers.workers.ctranslate2_worker\n"
        "print('onnxruntime' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert done.stdout.split() == ["False", "False"]


def result(
    sentences: int, latency_ms: float = 10.0, errors: Mapping[str, int] | None = None
) -> LoadResult:
    """A result of two seconds, with ten tokens per sentence and one recorded latency."""
    histogram = LatencyHistogram()
    histogram.record(latency_ms / 1000)
    return LoadResult(2.0, sentences, 10 * sentences, histogram.encode(), errors or {}, CPU_S)


OURS = Rounds("ours", [result(100), result(400, 30.0), result(120, 20.0)])
THEIRS = Rounds("theirs", [result(200), result(200), result(100, errors={"gone": 2})])


def test_ratios_are_taken_round_by_round_and_latencies_over_all() -> None:
    assert speed_ratios(OURS, THEIRS) == [0.5, 2.0, 1.2]
    assert (OURS.sentences_per_s, OURS.tokens_per_s) == (60.0, 600.0)
    assert OURS.latency.p50_ms == pytest.approx(20, rel=0.01)
    assert OURS.cores_elsewhere == pytest.approx(0.09)
    (written,) = json.loads(json.dumps(summary({CASE: [OURS, THEIRS]})))
    assert written["contenders"][0]["results"][1]["sentences"] == 400


def test_the_best_setting_is_chosen_case_by_case() -> None:
    first, other = settings(2, "float32")[:2]
    cases = Case(1, 1), Case(1, 32)
    trials = [(cases[0], first, result(50)), (cases[1], first, result(100))]
    trials += [(cases[0], other, result(40)), (cases[1], other, result(101))]
    assert best_settings(trials) == {cases[0]: first, cases[1]: other}


def test_the_settings_use_every_core_once() -> None:
    tried = settings(2, "int8")
    layouts = {setting.layout for setting in tried}
    assert layouts == {Layout(2, 1, 1), Layout(1, 2, 1), Layout(1, 1, 2)}
    assert {setting.queue_delay_us for setting in tried} == {0, 1000, 5000}
    assert len(set(tried)) == len(tried) == 9
    assert tried[1] == Setting(tried[0].layout, 1000, (4, 8, 16, 32, 64), "int8")


class FakeEndpoint:
    """Records its requests."""

    def __init__(self, name: str, log: list[Any], sentences: int = 10) -> None:
        self.name, self.log, self.sentences = name, log, sentences

    def load(
        self, _texts: Sequence[str], beam_width: int, plan: LoadPlan, others: Sequence[Any]
    ) -> LoadResult:
        self.log.append((self.name, beam_width, plan.concurrency, plan.seed))
        assert [other.name for other in others] == [n for n in ("a", "b") if n != self.name]
        return result(self.sentences)

    def translate(self, texts: Sequence[str], beam_width: int) -> list[str]:
        assert beam_width == 1
        return [text if number < self.sentences else "?" for number, text in enumerate(texts)]


def endpoint(name: str, log: list[Any] | None = None, sentences: int = 10) -> Endpoint:
    return cast(Endpoint, FakeEndpoint(name, [] if log is None else log, sentences))


LOADS = Loads(("x", "y"), (CASE,), rounds=2, duration_s=1.0, tuning_s=1.0)


def test_rounds_alternate_with_the_same_order_of_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_race, "PAUSE_S", 0.0)
    log: list[Any] = []
    contenders = {name: endpoint(name, log) for name in ("a", "b")}
    ours, theirs = race(CASE, contenders, LOADS, lambda _: None)
    assert log == [("a", 4, 8, 0), ("b", 4, 8, 0), ("a", 4, 8, 1), ("b", 4, 8, 1)]
    assert (ours.name, theirs.name) == ("a", "b")
    assert len(ours.results) == len(theirs.results) == 2


def test_a_round_without_an_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_race, "PAUSE_S", 0.0)
    contenders = {"a": endpoint("a"), "b": endpoint("b", sentences=0)}
    with pytest.raises(CheckFailed, match="b: beam 4, 8 at once: no request was translated"):
        race(CASE, contenders, LOADS, lambda _: None)


def test_different_translations_are_not_raced() -> None:
    texts = [str(number) for number in range(20)]
    pair = endpoint("a", sentences=20), endpoint("b", sentences=19)
    assert equal_share(*pair, texts, "fp32") == 0.95
    pair = endpoint("a", sentences=20), endpoint("b", sentences=18)
    assert equal_share(*pair, texts, "int8") == 0.9
    with pytest.raises(CheckFailed, match=r"only 90\.0%"):
        equal_share(*pair, texts, "fp32")


def test_failed_requests_fail_the_run() -> None:
    with pytest.raises(CheckFailed, match="beam 4, 8 at once: 2 requests failed: gone"):
        check_errors([], {CASE: [OURS, THEIRS]})
    with pytest.raises(CheckFailed, match="3 requests failed: away"):
        check_errors([(CASE, SETTING, result(1, errors={"away": 3}))], {})
