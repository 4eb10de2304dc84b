"""The Triton configuration, read back through NVIDIA's protobuf."""

from __future__ import annotations

from dataclasses import fields

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from serving.engine.settings import EngineSettings
from serving.translator import RequestOptions
from serving.triton_models.configuration import engine_settings
from tests.conftest import REPOSITORY


def test_the_inputs_are_the_texts_and_the_options() -> None:
    path = REPOSITORY / "model_repository" / "translate" / "config.pbtxt"
    config = text_format.Parse(path.read_text(encoding="utf-8"), model_config_pb2.ModelConfig())
    assert config.name == path.parent.name
    options = [tensor.name for tensor in config.input if tensor.optional]
    assert options == [field.name for field in fields(RequestOptions)]
    assert [tensor.name for tensor in config.input if not tensor.optional] == ["text_input"]
    assert config.max_batch_size > 1
    assert config.HasField("dynamic_batching")
    assert not config.model_transaction_policy.decoupled
    parameters = {name: value.string_value for name, value in config.parameters.items()}
    assert engine_settings(parameters) == EngineSettings()
