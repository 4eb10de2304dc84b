"""The Triton configuration, read back through NVIDIA's protobuf."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dragoman_serving.engine.settings import EngineSettings
from dragoman_serving.launch.backends import BACKEND
from dragoman_serving.request.checks import OF_SCORING
from dragoman_serving.request.options import RequestOptions
from dragoman_serving.service.configuration import (
    RULES,
    check_names,
    engine_settings,
    request_rules,
)
from dragoman_serving.service.requests import RequestRules
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tests.conftest import REPOSITORY


def read(model: str) -> Any:
    path = REPOSITORY / "model_repository" / model / "config.pbtxt"
    config = text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    assert config.name == model
    assert config.backend == BACKEND
    # The engine takes care of all cores; a second instance would load the model once more.
    assert [group.count for group in config.instance_group] == [1]
    return config


def parameters_of(config: Any) -> dict[str, str]:
    return {name: value.string_value for name, value in config.parameters.items()}


def test_the_inputs_are_the_texts_and_the_options() -> None:
    config = read("translate")
    options = [tensor.name for tensor in config.input if tensor.optional]
    assert options == [field.name for field in fields(RequestOptions)]
    assert [tensor.name for tensor in config.input if not tensor.optional] == ["text_input"]
    assert config.max_batch_size > 1
    assert not config.HasField("dynamic_batching")  # the engine does it
    assert not config.model_transaction_policy.decoupled
    assert engine_settings(parameters_of(config)) == EngineSettings()
    assert request_rules(parameters_of(config)) == RequestRules()


def test_given_translations_are_asked_about_as_texts_are() -> None:
    config, unary = read("score"), read("translate")
    required = [tensor.name for tensor in config.input if not tensor.optional]
    assert required == ["text_input", "target_input"]
    options = {tensor.name: tensor for tensor in config.input if tensor.optional}
    assert set(options) == set(OF_SCORING)
    assert all(tensor in list(unary.input) for tensor in options.values())
    assert all(tensor in list(unary.output) for tensor in config.output)
    assert not config.model_transaction_policy.decoupled
    check_names(parameters_of(config), RULES)
    assert request_rules(parameters_of(config)) == RequestRules()


def test_streams_are_asked_as_the_others() -> None:
    config, unary = read("translate_stream"), read("translate")
    assert config.model_transaction_policy.decoupled
    assert list(config.input) == list(unary.input)
    assert list(config.output) == list(unary.output)[:3]
    check_names(parameters_of(config), RULES)
    assert request_rules(parameters_of(config)) == RequestRules()
