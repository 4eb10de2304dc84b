"""What a folder's `config.json` says of a Marian model.

Source: https://huggingface.co/docs/transformers/model_doc/marian
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.errors import UsageError
from dragoman.manifest import Activation
from training.model import ModelConfig

CONFIG = "config.json"

_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
}
_NOT_IN_TRANSFORMERS = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
"""Settings of Marian's that `transformers` ignores: a model that has them is none of its."""


@dataclass(frozen=True)
class MarianSettings:
    """What it says of the network.

    Attributes:
        path: of the file.
        sizes: with the source's vocabulary as Marian counts it.
        tgt_vocab_size: entries of the target's vocabulary.
        scaled: whether embeddings are multiplied by the square root of their size.
        shared: whether both sides have one embedding.
        tied: whether the output projection is the decoder's embedding.
        max_tokens: of a sentence, on either side.
        pad: an id.
        begin: the id that decoding starts with.
        end: an id.
    """

    path: Path
    sizes: ModelConfig
    tgt_vocab_size: int
    scaled: bool
    shared: bool
    tied: bool
    max_tokens: int
    pad: int
    begin: int
    end: int

    @classmethod
    def read(cls, path: Path) -> MarianSettings:
        """Read a file.

        Raises:
            UsageError: it cannot be read, or describes another kind of model.
        """
        values = read_json(path)
        if values.get("model_type") != "marian":
            raise UsageError(f"{path}: model_type is {values.get('model_type')!r}, not 'marian'")
        for name in _NOT_IN_TRANSFORMERS:
            if values.get(name):
                raise UsageError(f"{path}: {name} is set, which is not supported")
        if "quantization_config" in values:
            raise UsageError(f"{path}: the weights are quantised; import the model before that")

        def number(name: str, default: int | None = None) -> int:
            value = values.get(name, default)
            if isinstance(value, list) and len(value) == 1:
                value = value[0]
            if type(value) is not int or value < 0:
                raise UsageError(f"{path}: {name} is {value!r}: expected a number")
            return value

        def either(name: str) -> int:
            """What both sides must have alike."""
            numbers = {side: number(f"{side}_{name}") for side in ("encoder", "decoder")}
            if numbers["encoder"] != numbers["decoder"]:
                raise UsageError(f"{path}: {name} is not the same on both sides: {numbers}")
            return numbers["encoder"]

        def flag(name: str, default: bool) -> bool:
            value = values.get(name, default)
            if type(value) is not bool:
                raise UsageError(f"{path}: {name} is {value!r}: expected true or false")
            return value

        activation = _ACTIVATIONS.get(values.get("activation_function", "gelu"))
        if activation is None:
            known = ", ".join(_ACTIVATIONS)
            raise UsageError(
                f"{path}: activation_function is {values['activation_function']!r}; known: {known}"
            )
        try:
            sizes = ModelConfig(
                vocab_size=number("vocab_size"),
                model_size=number("d_model"),
                feed_forward_size=either("ffn_dim"),
                heads=either("attention_heads"),
                encoder_layers=number("encoder_layers"),
                decoder_layers=number("decoder_layers"),
                activation=activation,
                attention_bias=True,
                output_bias=True,
            )
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        shared = flag("share_encoder_decoder_embeddings", True)
        tgt_vocab_size = sizes.vocab_size
        if not shared and values.get("decoder_vocab_size") is not None:
            tgt_vocab_size = number("decoder_vocab_size")
        return cls(
            path,
            sizes,
            tgt_vocab_size=tgt_vocab_size,
            scaled=flag("scale_embedding", False),
            shared=shared,
            tied=flag("tie_word_embeddings", True),
            max_tokens=number("max_position_embeddings", 1024),
            pad=number("pad_token_id"),
            begin=number("decoder_start_token_id"),
            end=number("eos_token_id"),
        )


def content_of(token: Any) -> str:
    """A token as a tokenizer's configuration writes it: by itself, or with how it is treated."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UsageError: it cannot be read, or is none.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{path}: is not a JSON object")
    return values
