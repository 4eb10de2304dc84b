"""Sizes of a Transformer and the shapes of its tensors; does not need PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from dragoman.kernel.errors import UsageError
from dragoman.kernel.manifest import Activation, DecoderKind
from dragoman.kernel.positions import PositionRates

NEVER = -(2.0**15)
"""Output bias of tokens that are never generated: their probability becomes 0; fits fp16."""

Precision = Literal["auto", "bf16", "fp32", "fp16"]
"""Number format of matrix products in training."""

Shapes = dict[str, tuple[int, ...]]
"""Shapes of tensors, by name."""


@dataclass(frozen=True)
class ModelConfig:
    """Dimensions of a Transformer.

    The fields below `decoder` are for models that were trained elsewhere.

    Raises:
        UsageError: a size is not positive, the heads do not divide the model size, the dropout or
            `norm_epsilon` is out of range, or a word is none of those that are known.
    """

    vocab_size: int = 8000
    model_size: int = 256
    feed_forward_size: int = 1024
    heads: int = 4
    encoder_layers: int = 6
    decoder_layers: int = 3
    dropout: float = 0.1
    norm: Literal["post", "pre"] = "post"
    decoder: DecoderKind = "attention"
    activation: Activation = "relu"
    """Activation between the two linear maps of the feed-forward layers."""
    attention_bias: bool = False
    output_bias: bool = False
    """Added to the logits."""
    src_vocab_size: int | None = None
    """Entries of the encoder's own embedding; None: it shares the decoder's."""
    own_output: bool = False
    """Whether the output projection has its own matrix instead of the decoder's embedding."""
    norm_epsilon: float = 1e-5
    """Added to the variance in layer norms."""
    position_rates: PositionRates = "paper"
    """See `sinusoidal_positions`."""

    def __post_init__(self) -> None:
        sizes = ("vocab_size", "model_size", "feed_forward_size", "heads", "src_vocab_size")
        for name in (*sizes, "encoder_layers", "decoder_layers"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise UsageError(f"model.{name} is {size}: give a positive number")
        if self.model_size % (2 * self.heads):
            raise UsageError(
                f"model.model_size is {self.model_size}: give an even multiple of "
                f"model.heads, {self.heads}"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise UsageError(f"model.dropout is {self.dropout}: give a number from 0 up to below 1")
        if self.norm not in ("post", "pre"):
            raise UsageError(f"model.norm is {self.norm!r}: give 'post' (as in the paper) or 'pre'")
        for name, kind in (
            ("decoder", DecoderKind),
            ("activation", Activation),
            ("position_rates", PositionRates),
        ):
            word, known = getattr(self, name), get_args(kind)
            if word not in known:
                choice = ", ".join(map(repr, known))
                raise UsageError(f"model.{name} is {word!r}: give one of {choice}")
        if not 0.0 < self.norm_epsilon < 1.0:
            raise UsageError(
                f"model.norm_epsilon is {self.norm_epsilon}: give a number between 0 and 1"
            )

    @property
    def head_size(self) -> int:
        """Size D of one attention head."""
        return self.model_size // self.heads


PRESETS: dict[str, dict[str, object]] = {
    "tiny": {
        "model_size": 64,
        "feed_forward_size": 256,
        "heads": 4,
        "encoder_layers": 2,
        "decoder_layers": 2,
    },
    "mini": {
        "model_size": 128,
        "feed_forward_size": 256,
        "heads": 4,
        "encoder_layers": 4,
        "decoder_layers": 4,
    },
    "small": {
        "model_size": 256,
        "feed_forward_size": 1024,
        "heads": 4,
        "encoder_layers": 6,
        "decoder_layers": 3,
    },
    "base": {
        "model_size": 512,
        "feed_forward_size": 2048,
        "heads": 8,
        "encoder_layers": 6,
        "decoder_layers": 6,
    },
    "big": {
        "model_size": 1024,
        "feed_forward_size": 4096,
        "heads": 16,
        "encoder_layers": 6,
        "decoder_layers": 6,
        "dropout": 0.3,
    },
}
"""Named dimensions. `base` and `big` are from the paper's Table 3; `small` is the size of the
shipped model, and `mini` is for small corpora."""


def weight_shapes(config: ModelConfig) -> Shapes:
    """Shapes of all tensors of a checkpoint, by their names in `Transformer.state_dict()`."""
    size = config.model_size
    shapes: Shapes = {"embedding.weight": (config.vocab_size, size)}
    if config.src_vocab_size is not None:
        shapes["src_embedding.weight"] = (config.src_vocab_size, size)
    if config.own_output:
        shapes["own_output.weight"] = (config.vocab_size, size)
    if config.output_bias:
        shapes["output_bias"] = (config.vocab_size,)
    for layer in range(config.encoder_layers):
        shapes |= _layer_shapes(config, f"encoder_layers.{layer}", ("self_attention",))
    for layer in range(config.decoder_layers):
        name = f"decoder_layers.{layer}"
        if config.decoder == "ssru":
            shapes |= _ssru_shapes(f"{name}.ssru", size)
            shapes |= _layer_shapes(config, name, ("cross_attention",))
        else:
            shapes |= _layer_shapes(config, name, ("self_attention", "cross_attention"))
    if config.norm == "pre":
        shapes |= _norm_shapes("encoder_norm", size) | _norm_shapes("decoder_norm", size)
    return shapes


def _layer_shapes(config: ModelConfig, name: str, attentions: tuple[str, ...]) -> Shapes:
    size, inner = config.model_size, config.feed_forward_size
    shapes: Shapes = {}
    for attention in attentions:
        for part, outputs in (("query", size), ("key_value", 2 * size), ("output", size)):
            linear = f"{name}.{attention}.{part}"
            shapes |= _linear_shapes(linear, outputs, size, config.attention_bias)
        shapes |= _norm_shapes(f"{name}.{attention}_norm", size)
    shapes |= _linear_shapes(f"{name}.feed_forward.inner", inner, size)
    shapes |= _linear_shapes(f"{name}.feed_forward.outer", size, inner)
    return shapes | _norm_shapes(f"{name}.feed_forward_norm", size)


def _ssru_shapes(name: str, size: int) -> Shapes:
    candidate = _linear_shapes(f"{name}.candidate", size, size, bias=False)
    forget = _linear_shapes(f"{name}.forget", size, size)
    return candidate | forget | _norm_shapes(f"{name}_norm", size)


def _linear_shapes(name: str, outputs: int, inputs: int, bias: bool = True) -> Shapes:
    shapes: Shapes = {f"{name}.weight": (outputs, inputs)}
    return {**shapes, f"{name}.bias": (outputs,)} if bias else shapes


def _norm_shapes(name: str, size: int) -> Shapes:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}
