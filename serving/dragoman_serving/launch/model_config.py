"""A Triton model's `config.pbtxt`, read as Triton reads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from dragoman.kernel.errors import UsageError


@dataclass(frozen=True)
class ModelConfig:
    """What the launcher must know of it."""

    backend: str
    parameters: dict[str, str]


def read_model_config(path: Path) -> ModelConfig:
    """Read a configuration.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        text = path.read_text(encoding="utf-8")
        parsed = text_format.Parse(text, model_config_pb2.ModelConfig())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not a Triton configuration: {error}") from error
    entries = parsed.parameters.items()
    return ModelConfig(parsed.backend, {name: entry.string_value for name, entry in entries})
