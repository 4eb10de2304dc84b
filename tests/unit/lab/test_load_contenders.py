"""CTranslate2 behind Triton: its repository, and its model without Triton."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Limits
from lab.peers.ctranslate2_repository import Layout, Setting, build_config, write_repository
from lab.peers.served_endpoint import with_precision
from tests.conftest import REPOSITORY

SETTING = Setting(Layout(instances=2, inter=1, intra=1), 1500, (4, 8), "int8")
BUNDLE = REPOSITORY / "model_repository" / "translate" / "1" / "bundle"
BACKEND = "lab.peers.ctranslate2_backend"


def test_a_repository_matches_its_setting(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    write_repository(tmp_path / "repository", SETTING, tmp_path / "model", bundle)
    folder = tmp_path / "repository" / "translate"
    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.dynamic_batching.max_queue_delay_microseconds == 1500
    assert list(config.dynamic_batching.preferred_batch_size) == [4, 8]
    assert config.max_batch_size == 64
    assert [(group.count, group.kind) for group in config.instance_group] == [
        (2, model_config_pb2.ModelInstanceGroup.KIND_CPU)
    ]
    assert {name: value.string_value for name, value in config.parameters.items()} == {
        "model": str(tmp_path / "model"),
        "compute_type": "int8",
        "inter_threads": "1",
        "intra_threads": "1",
    }
    assert (folder / "1" / "bundle").resolve() == bundle.resolve()
    model_py = (folder / "1" / "model.py").read_text(encoding="utf-8")
    assert repr(str(REPOSITORY)) in model_py
    assert f"from {BACKEND} import" in model_py
    assert str(SETTING) == "int8, 2 x inter 1 intra 1, delay 1.5 ms"


def test_our_repository_is_served_in_another_precision(tmp_path: Path) -> None:
    ours = REPOSITORY / "model_repository"
    folder = with_precision(ours, "int8", tmp_path / "ours") / "translate"
    text = (folder / "config.pbtxt").read_text(encoding="utf-8")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.parameters["precision"].string_value == "int8"
    text = (ours / "translate" / "config.pbtxt").read_text(encoding="utf-8")
    expected = text_format.Parse(text, model_config_pb2.ModelConfig())
    expected.parameters["precision"].string_value = "int8"
    assert config == expected
    assert (folder / "1").resolve() == ours / "translate" / "1"
    with pytest.raises(UsageError, match=r"config\.pbtxt: cannot be read"):
        with_precision(tmp_path, "int8", tmp_path / "theirs")


class FakeTranslator:
    """Returns the source without its tag, and records its calls."""

    calls: list[dict[str, Any]]

    def __init__(self, *_: object, **options: Any) -> None:
        self.options = options
        self.calls = []

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
    utils.get_input_tensor_by_name = lambda one, name: next(
        tensor for tensor in one.inputs() if tensor.name() == name
    )
    monkeypatch.setitem(sys.modules, utils.__name__, utils)
    module = importlib.import_module(BACKEND)
    monkeypatch.setattr(module.ctranslate2, "Translator", FakeTranslator)
    manifest = SimpleNamespace(limits=Limits(), tokenizer="tokenizer.model")
    monkeypatch.setattr(module.Manifest, "load", lambda _: manifest)
    yield module
    sys.modules.pop(BACKEND)


def start(backend: Any, layout: Layout) -> Any:
    config = build_config(Setting(layout, 0), Path("model"))
    model = backend.TranslateModel()
    version = BUNDLE.parent
    model.initialize(
        {
            "model_repository": str(version.parent),
            "model_version": version.name,
            "model_config": json.dumps(
                json_format.MessageToDict(config, preserving_proto_field_name=True)
            ),
        }
    )
    return model


def test_a_batch_is_one_call_with_one_limit(backend: Any) -> None:
    model = start(backend, Layout(2, 1, 1))
    texts = ["Good morning.", "I would like a cup of coffee."]
    responses = model.execute([request(text, beam_width=1) for text in texts])
    assert [one["text_output"].decode() for one in responses] == texts
    (call,) = model._translator.calls
    longest = max(int(one["output_tokens"]) for one in responses) + 2  # the tag and the end
    assert call == {
        "tags": {"<2de>"},
        "size": 2,
        "beam_size": 1,
        "length_penalty": 0.6,
        "max_decoding_length": Limits().target_tokens(longest),
        "return_end_token": True,
        "max_batch_size": 0,
    }


def test_different_options_are_separate_calls_and_answers_keep_their_order(
    backend: Any,
) -> None:
    model = start(backend, Layout(1, 2, 1))
    texts = ["one", "two", "three", "four", "five"]
    tags = [b"de", b"en", b"de", b"en", b"de"]
    pairs = zip(texts, tags, strict=True)
    responses = model.execute([request(text, target_language=tag) for text, tag in pairs])
    assert [one["text_output"].decode() for one in responses] == texts
    calls = [
        (call["tags"], call["size"], call["max_batch_size"]) for call in model._translator.calls
    ]
    assert calls == [({"<2de>"}, 3, 2), ({"<2en>"}, 2, 1)]
    assert model._translator.options["inter_threads"] == 2


def test_ctranslate2_does_not_share_its_process_with_onnx_runtime() -> None:
    pytest.importorskip("ctranslate2")
    code = (
        "import sys, types\n"
        "name = 'triton_python_backend_utils'\n"
        "sys.modules[name] = types.ModuleType(name)\n"
        f"import {BACKEND}\n"
        "print('onnxruntime' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert done.stdout.split() == ["False", "False"]
