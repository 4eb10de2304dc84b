"""Reads the `config.json` of a Marian model.

Source: https://huggingface.co/docs/transformers/model_doc/marian
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Activation
from dragoman.kernel.settings import read_json
from dragoman_training.network.architecture import ModelConfig

CONFIG = "config.json"
_POINTER = b"version https://git-lfs.github.com/spec/"

_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
}
_NOT_IN_TRANSFORMERS = ("normalize_before", "normalize_embedding", "add_final_layer_norm")
"""Marian settings that `transformers` ignores; a model that has them is not one of its models."""


@dataclass(frozen=True)
class MarianSettings:
    """The settings of the network.

    Attributes:
        path: of the file.
        sizes: with Marian's count for the source vocabulary.
        tgt_vocab_size: entries of the target vocabulary.
        scaled: whether embeddings are multiplied by the square root of their size.
        shared: whether both sides share one embedding.
        tied: whether the output projection is the decoder's embedding.
        max_tokens: maximum length of a sentence, on either side.
        pad: id of the padding token.
        begin: id that decoding starts with.
        end: id of the end token.
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
        values = _Values(path, read_object(path))
        values.check_kind()
        sizes = values.sizes()
        shared = values.flag("share_encoder_decoder_embeddings", True)
        return cls(
            path,
            sizes,
            tgt_vocab_size=sizes.vocab_size if shared else values.tgt_vocab_size(),
            scaled=values.flag("scale_embedding", False),
            shared=shared,
            tied=values.flag("tie_word_embeddings", True),
            max_tokens=values.number("max_position_embeddings", 1024),
            pad=values.number("pad_token_id"),
            begin=values.number("decoder_start_token_id"),
            end=values.number("eos_token_id"),
        )


@dataclass(frozen=True)
class _Values:
    """A file's values by name, with checked types."""

    path: Path
    values: Mapping[str, Any]

    def check_kind(self) -> None:
        """Refuse models of another kind."""
        kind = self.values.get("model_type")
        if kind != "marian":
            raise UsageError(f"{self.path}: model_type is {kind!r}, not 'marian'")
        for name in _NOT_IN_TRANSFORMERS:
            if self.values.get(name):
                raise UsageError(f"{self.path}: {name} is set, which is not supported")
        if "quantization_config" in self.values:
            raise UsageError(
                f"{self.path}: the weights are quantized; import the model before quantization"
            )

    def sizes(self) -> ModelConfig:
        """The sizes that `dragoman_training.network.transformer` needs."""
        sizes: dict[str, Any] = {
            "vocab_size": self.number("vocab_size"),
            "model_size": self.number("d_model"),
            "feed_forward_size": self.number_of_both("ffn_dim"),
            "heads": self.number_of_both("attention_heads"),
            "encoder_layers": self.number("encoder_layers"),
            "decoder_layers": self.number("decoder_layers"),
        }
        activation = self.activation()
        try:
            return ModelConfig(
                **sizes, activation=activation, attention_bias=True, output_bias=True
            )
        except UsageError as error:
            raise UsageError(f"{self.path}: {error}") from error

    def number(self, name: str, default: int | None = None) -> int:
        value = self.values.get(name, default)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if type(value) is not int or value < 0:
            raise UsageError(f"{self.path}: {name} is {value!r}: expected a number")
        return value

    def number_of_both(self, name: str) -> int:
        """A value that must be the same on both sides."""
        numbers = {side: self.number(f"{side}_{name}") for side in ("encoder", "decoder")}
        if numbers["encoder"] != numbers["decoder"]:
            raise UsageError(f"{self.path}: {name} is not the same on both sides: {numbers}")
        return numbers["encoder"]

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        if type(value) is not bool:
            raise UsageError(f"{self.path}: {name} is {value!r}: expected true or false")
        return value

    def activation(self) -> Activation:
        name = self.values.get("activation_function", "gelu")
        if not isinstance(name, str) or name not in _ACTIVATIONS:
            known = ", ".join(_ACTIVATIONS)
            raise UsageError(f"{self.path}: activation_function is {name!r}; known: {known}")
        return _ACTIVATIONS[name]

    def tgt_vocab_size(self) -> int:
        """Entries of the target vocabulary; by default as many as the source's."""
        said = self.values.get("decoder_vocab_size") is not None
        return self.number("decoder_vocab_size" if said else "vocab_size")


def content_of(token: Any) -> str:
    """The text of a token, which the configuration gives as a string or as an object."""
    if isinstance(token, Mapping):
        token = token.get("content")
    return token if isinstance(token, str) else ""


def refuse_pointers(folder: Path) -> None:
    """Refuse a folder in which Git LFS has not yet replaced its pointers.

    Raises:
        UsageError: it has such a file.
    """
    for path in filter(Path.is_file, folder.iterdir()):
        with contextlib.suppress(OSError), path.open("rb") as file:  # whoever reads it reports it
            if file.read(len(_POINTER)) == _POINTER:
                raise UsageError(f"{path}: is a Git LFS pointer: run git lfs pull in its folder")


def refuse_own_format(path: Path) -> None:
    """Refuse a file in Marian's own format, or a folder with only that.

    Raises:
        UsageError: it is in that format.
    """
    files = path.glob("*.npz") if not (path / CONFIG).exists() else ()
    if any(files) or (path.suffix == ".npz" and path.is_file()):
        raise UsageError(
            f"{path}: is in Marian's own format: convert it to that of transformers first, with "
            "its convert_marian_to_pytorch.py"
        )


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UsageError: it cannot be read, or is not a JSON object.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise UsageError(f"{path}: is not a JSON object")
    return values
