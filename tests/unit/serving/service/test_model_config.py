"""The Triton configuration, read back through NVIDIA's protobuf."""

from __future__ import annotations

from typing import Any

import pytest
from dragoman_options.table import INFO, OPTIONS, OUTPUTS, SCORE, STREAM, TRANSLATE
from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.service.configuration import (
    RULES,
    check_names,
    engine_settings,
    request_rules,
)
from dragoman_serving.service.model_config import BACKEND, model_config
from dragoman_serving.service.requests import RequestRules
from google.protobuf import json_format, text_format
from tritonclient.grpc import model_config_pb2

from tests.conftest import REPOSITORY


def read(model: str) -> Any:
    path = REPOSITORY / "model_repository" / model / "config.pbtxt"
    config = text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    assert config.name == model
    assert config.backend == BACKEND
    # The engine manages all cores; a second instance would load the model once more.
    assert [group.count for group in config.instance_group] == [1]
    assert not config.input  # the backend sets them
    assert not config.output
    assert not config.HasField("dynamic_batching")  # the engine does the batching
    return config


def tensors(model: str) -> Any:
    return json_format.Parse(model_config(model), model_config_pb2.ModelConfig())


def parameters_of(config: Any) -> dict[str, str]:
    return {name: value.string_value for name, value in config.parameters.items()}


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        (TRANSLATE, ["text_input"]),
        (STREAM, ["text_input"]),
        (SCORE, ["text_input", "target_input"]),
    ],
)
def test_the_inputs_are_the_texts_and_the_options(model: str, texts: list[str]) -> None:
    config = tensors(model)
    assert [tensor.name for tensor in config.input if not tensor.optional] == texts
    assert [tensor.name for tensor in config.input if tensor.optional] == list(OPTIONS)
    expected = [output.name for output in OUTPUTS.values() if model in output.models]
    assert [tensor.name for tensor in config.output] == expected
    assert (config.max_batch_size > 1) is (model != STREAM)


def test_info_needs_no_input() -> None:
    config = tensors(INFO)
    assert not config.input
    assert [tensor.name for tensor in config.output] == [INFO]


@pytest.mark.parametrize("model", [TRANSLATE, STREAM, SCORE])
def test_the_shipped_configurations_have_the_defaults(model: str) -> None:
    config = read(model)
    assert config.model_transaction_policy.decoupled is (model == STREAM)
    assert request_rules(parameters_of(config)) == RequestRules()
    if model == TRANSLATE:
        assert engine_settings(parameters_of(config)) == EngineSettings()
    else:
        check_names(parameters_of(config), RULES)
