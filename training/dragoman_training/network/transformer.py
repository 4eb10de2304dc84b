"""The Transformer of Vaswani et al. 2017, "Attention Is All You Need".

Shape letters, used throughout the project:

    B sentences       R rows (sentence x beam)     S source length    T target length
    C cache length    L layers                     H heads            D head size
    E model size      F feed-forward size          V vocabulary

Instead of self-attention, a decoder layer may have a recurrence, the SSRU.

A mask's name says which side is true: in a `keep_mask`, true positions are attended to.

Source: https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.kernel.positions import sinusoidal_positions
from dragoman_training.network.architecture import ModelConfig

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
}


def attention(query: Tensor, key: Tensor, value: Tensor, keep_mask: Tensor) -> Tensor:
    """Scaled dot-product attention, written out: softmax(Q K^T / sqrt(D)) V.

    A test compares it with PyTorch's fused kernel, which replaces it on a GPU. On a CPU in bf16
    this form trains fourteen times faster than the fused kernel (docs/lab-notebook.md, "Attention
    and kernels on a CPU").

    Args:
        query: [B, H, T, D].
        key: [B, H, S, D].
        value: [B, H, S, D].
        keep_mask: bool, broadcastable to [B, H, T, S]; true where attention is allowed.

    Returns:
        [B, H, T, D].

    Source: Vaswani et al. 2017, section 3.2.1.
    """
    return attention_weights(query, key, keep_mask) @ value


def attention_weights(query: Tensor, key: Tensor, keep_mask: Tensor) -> Tensor:
    """Attention weights: softmax(Q K^T / sqrt(D)), zero where masked.

    Args:
        query: [B, H, T, D].
        key: [B, H, S, D].
        keep_mask: bool, broadcastable to [B, H, T, S]; true where attention is allowed.

    Returns:
        [B, H, T, S]; each row sums to one.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # [B, H, T, S]
    return scores.masked_fill(~keep_mask, float("-inf")).softmax(dim=-1)


class Dropout(nn.Module):
    """Dropout whose mask is sampled as random bytes, so that its rate is a multiple of 1/256.

    On a CPU, PyTorch's own dropout samples one float for each value and takes a quarter of a small
    model's training step; sampling sixty-four bits at a time takes a sixth of that.
    """

    def __init__(self, rate: float) -> None:
        """Round `rate`, in [0, 1), to the nearest 1/256."""
        super().__init__()
        self.dropped_bytes = round(rate * 256)

    def forward(self, x: Tensor) -> Tensor:
        """Zero a share of x and scale up the rest; in evaluation, return x itself."""
        if not self.training or self.dropped_bytes == 0:
            return x
        if torch.compiler.is_compiling() or x.device.type != "cpu":
            # In-place sampling breaks a compiled graph; on a GPU, PyTorch's own is one kernel.
            return F.dropout(x, self.dropped_bytes / 256)
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
        words.random_(-(2**63), None)  # both bounds open: every one of the 64 bits is random
        drawn = words.view(torch.uint8)[: x.numel()].view(x.shape)
        scale = 256 / (256 - self.dropped_bytes)
        return x * ((drawn >= self.dropped_bytes).to(x.dtype) * scale)


class MultiHeadAttention(nn.Module):
    """Multi-head attention, without biases as in the paper, or with them.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Create the four projections, keys and values in one matrix."""
        super().__init__()
        self.heads = config.heads
        size, bias = config.model_size, config.attention_bias
        self.query = nn.Linear(size, size, bias=bias)
        self.key_value = nn.Linear(size, 2 * size, bias=bias)
        self.output = nn.Linear(size, size, bias=bias)

    def forward(self, x: Tensor, memory: Tensor, keep_mask: Tensor) -> Tensor:
        """Attend from x to memory.

        Args:
            x: [B, T, E], where the queries come from.
            memory: [B, S, E], where keys and values come from; x itself in self-attention.
            keep_mask: bool, broadcastable to [B, H, T, S].

        Returns:
            [B, T, E].
        """
        query = self._split_heads(self.query(x))
        key, value = map(self._split_heads, self.key_value(memory).chunk(2, dim=-1))
        if x.device.type == "cpu":
            attended = attention(query, key, value, keep_mask)
        else:
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=keep_mask)
        # [B, H, T, D] to [B, T, H, D] to [B, T, E]
        return self.output(attended.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def weights(self, x: Tensor, memory: Tensor, keep_mask: Tensor) -> Tensor:
        """The attention weights [B, H, T, S] of `forward`, for the same arguments."""
        query = self._split_heads(self.query(x))
        key, _ = self.key_value(memory).chunk(2, dim=-1)
        return attention_weights(query, self._split_heads(key), keep_mask)

    def log_weights(self, head: int, x: Tensor, memory: Tensor, keep_mask: Tensor) -> Tensor:
        """The logarithms [B, T, S] of one head's weights, in fp32; minus infinity where masked.

        Only this head's queries and keys are computed.
        """
        size = self.query.out_features // self.heads
        own = slice(head * size, (head + 1) * size)  # keys come before values
        with torch.autocast(x.device.type, enabled=False):
            query, key = (
                F.linear(given.float(), layer.weight[own], None if bias is None else bias[own])
                for given, layer, bias in (
                    (x, self.query, self.query.bias),
                    (memory, self.key_value, self.key_value.bias),
                )
            )
            scores = query @ key.transpose(-2, -1) / math.sqrt(size)  # [B, T, S]
            return scores.masked_fill(~keep_mask[:, 0], float("-inf")).log_softmax(dim=-1)

    def _split_heads(self, x: Tensor) -> Tensor:
        # [B, T, E] to [B, T, H, D] to [B, H, T, D]
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear maps with an activation between, a ReLU by default.

    Source: Vaswani et al. 2017, section 3.3.
    """

    def __init__(self, config: ModelConfig) -> None:
        """Create the maps E to F and F to E, both with bias."""
        super().__init__()
        self.inner = nn.Linear(config.model_size, config.feed_forward_size)
        self.outer = nn.Linear(config.feed_forward_size, config.model_size)
        self.activate = _ACTIVATIONS[config.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, T, E] to [B, T, E], each position independently."""
        return self.outer(self.activate(self.inner(x)))  # type: ignore[no-any-return]


def _cells(forget: Tensor, update: Tensor) -> Tensor:
    """c[t] = f[t] c[t-1] + u[t], all [B, T, E], from zero."""
    cells = update.clone(memory_format=torch.contiguous_format)
    for step in range(1, cells.size(1)):
        cells[:, step].addcmul_(forget[:, step], cells[:, step - 1])
    return cells


# An operator of its own, because a compiler would unroll the loop for every length.
_operator = torch.library.custom_op("dragoman::recurrence", _cells, mutates_args=())


@_operator.register_fake
def _(_forget: Tensor, update: Tensor) -> Tensor:
    return torch.empty_like(update, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of an update is the same recurrence, from the last step to the first."""
    forget, cells = ctx.saved_tensors
    cells_of = _operator if torch.compiler.is_compiling() else _cells
    update_grad = cells_of(forget.flip(1).roll(1, dims=1), grad.flip(1)).flip(1)
    return update_grad * F.pad(cells[:, :-1], (0, 0, 1, 0)), update_grad


_operator.register_autograd(_gradients, setup_context=_keep)


class _Recurrence(torch.autograd.Function):
    """The operator without a compiler, which it would import when it is first called."""

    forward = staticmethod(_cells)
    setup_context = staticmethod(_keep)
    backward = staticmethod(_gradients)


def _recurrence(forget: Tensor, update: Tensor) -> Tensor:
    if torch.compiler.is_compiling():
        return _operator(forget, update)  # type: ignore[no-any-return]
    return _Recurrence.apply(forget, update)  # type: ignore[no-any-return,no-untyped-call]


class Ssru(nn.Module):
    """Simpler Simple Recurrent Unit: each position mixes its own input into a moving average.

    f = sigmoid(Wf x + bf); c = f c + (1 - f) W x; the result is relu(c), with c zero at first. Only
    the elementwise recurrence depends on the order of the tokens, and it is computed in fp32.

    Source: Kim et al. 2019, https://aclanthology.org/D19-5632
    """

    def __init__(self, config: ModelConfig) -> None:
        """Create W and Wf, [E, E] each; only Wf has a bias."""
        super().__init__()
        self.candidate = nn.Linear(config.model_size, config.model_size, bias=False)
        self.forget = nn.Linear(config.model_size, config.model_size)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, T, E] to [B, T, E]; each position sees itself and those before it."""
        forget, candidate = self.forget(x).float().sigmoid(), self.candidate(x).float()
        return F.relu(_recurrence(forget, (1 - forget) * candidate))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each in a residual connection with its norm."""

    def __init__(self, config: ModelConfig) -> None:
        """Build the two sub-layers."""
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.self_attention = MultiHeadAttention(config)
        self.self_attention_norm = _norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = _norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, src_keep_mask: Tensor) -> Tensor:
        """Map [B, S, E] to [B, S, E] under a mask [B, 1, 1, S]."""
        if self.pre_norm:
            normed = self.self_attention_norm(x)
            x = x + self.dropout(self.self_attention(normed, normed, src_keep_mask))
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))  # type: ignore[no-any-return]
        x = self.self_attention_norm(x + self.dropout(self.self_attention(x, x, src_keep_mask)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Causal self-attention or an SSRU, attention to the encoder's output, then feed-forward."""

    def __init__(self, config: ModelConfig) -> None:
        """Build the three sub-layers."""
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.is_recurrent = config.decoder == "ssru"
        if self.is_recurrent:
            self.ssru = Ssru(config)
            self.ssru_norm = _norm(config)
        else:
            self.self_attention = MultiHeadAttention(config)
            self.self_attention_norm = _norm(config)
        self.cross_attention = MultiHeadAttention(config)
        self.cross_attention_norm = _norm(config)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = _norm(config)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, memory: Tensor, causal_keep_mask: Tensor, src_keep_mask: Tensor
    ) -> Tensor:
        """Map [B, T, E] to [B, T, E], with memory [B, S, E] and masks [T, T] and [B, 1, 1, S]."""
        norm = self.ssru_norm if self.is_recurrent else self.self_attention_norm
        if self.pre_norm:
            x = x + self.dropout(self._read_prefix(norm(x), causal_keep_mask))
            normed = self.cross_attention_norm(x)
            x = x + self.dropout(self.cross_attention(normed, memory, src_keep_mask))
            return x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))  # type: ignore[no-any-return]
        x = norm(x + self.dropout(self._read_prefix(x, causal_keep_mask)))
        attended = self.cross_attention(x, memory, src_keep_mask)
        x = self.cross_attention_norm(x + self.dropout(attended))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))  # type: ignore[no-any-return]

    def _read_prefix(self, x: Tensor, causal_keep_mask: Tensor) -> Tensor:
        if self.is_recurrent:
            return self.ssru(x)  # type: ignore[no-any-return]
        return self.self_attention(x, x, causal_keep_mask)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """The encoder-decoder; one matrix is both embeddings and the output projection.

    Models that were trained elsewhere may have separate ones: `src_embedding` and `own_output`.

    With `norm = "pre"`, each stack ends in one more layer norm; without it, the output would be an
    unnormalized sum.

    Source: Vaswani et al. 2017, sections 3.1, 3.4 and 3.5; pre-norm: https://arxiv.org/abs/2002.04745
    """

    def __init__(self, config: ModelConfig) -> None:
        """Build the network and initialize its weights from PyTorch's random generator."""
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.model_size)
        if config.src_vocab_size is not None:
            self.src_embedding = nn.Embedding(config.src_vocab_size, config.model_size)
        if config.own_output:
            self.own_output = nn.Linear(config.model_size, config.vocab_size, bias=False)
        if config.output_bias:
            self.output_bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.encoder_layers = nn.ModuleList(
            EncoderLayer(config) for _ in range(config.encoder_layers)
        )
        self.decoder_layers = nn.ModuleList(
            DecoderLayer(config) for _ in range(config.decoder_layers)
        )
        self.encoder_norm = _norm(config) if config.norm == "pre" else nn.Identity()
        self.decoder_norm = _norm(config) if config.norm == "pre" else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.positions = self._position_table(512)
        self._initialise()

    def _initialise(self) -> None:
        weights = dict(self.named_parameters())
        of_vocabulary = ("embedding.weight", "src_embedding.weight", "own_output.weight")
        for name, weight in weights.items():
            if weight.dim() > 1 and name not in of_vocabulary:
                nn.init.xavier_uniform_(weight)
            elif name.endswith("bias"):
                nn.init.zeros_(weight)
        # Multiplied by sqrt(E) at the input, this gives embeddings of unit variance; used as the
        # output projection, it gives logits of unit variance.
        for name in filter(weights.__contains__, of_vocabulary):
            nn.init.normal_(weights[name], std=self.config.model_size**-0.5)

    def encode(self, src_ids: Tensor, src_keep_mask: Tensor) -> Tensor:
        """Run the encoder.

        Args:
            src_ids: int64 [B, S], padded with anything.
            src_keep_mask: bool [B, S], false at padding.

        Returns:
            [B, S, E]; rows at padding are meaningless.
        """
        own = self.config.src_vocab_size is not None
        x = self._embed(src_ids, self.src_embedding if own else self.embedding)
        mask = src_keep_mask[:, None, None, :]  # [B, 1, 1, S]
        for layer in self.encoder_layers:
            x = layer(x, mask)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def decode(self, tgt_ids: Tensor, memory: Tensor, src_keep_mask: Tensor) -> Tensor:
        """Run the decoder over whole prefixes.

        Args:
            tgt_ids: int64 [B, T], beginning with the start symbol.
            memory: [B, S, E] from `encode`.
            src_keep_mask: bool [B, S].

        Returns:
            [B, T, E], to be projected by `project`.
        """
        x = self._embed(tgt_ids, self.embedding)
        length = tgt_ids.size(1)
        causal = torch.ones(length, length, dtype=torch.bool, device=tgt_ids.device).tril()
        mask = src_keep_mask[:, None, None, :]  # [B, 1, 1, S]
        for layer in self.decoder_layers:
            x = layer(x, memory, causal, mask)
        return self.decoder_norm(x)  # type: ignore[no-any-return]

    def project(self, x: Tensor) -> Tensor:
        """Map [..., E] to logits [..., V] with the embedding matrix or a separate output matrix."""
        return F.linear(x, *self.output)

    @property
    def output(self) -> tuple[Tensor, Tensor | None]:
        """The output projection [V, E], and its bias [V] if it has one."""
        matrix = self.own_output if self.config.own_output else self.embedding
        return matrix.weight, self.output_bias if self.config.output_bias else None

    def forward(self, src_ids: Tensor, src_keep_mask: Tensor, tgt_ids: Tensor) -> Tensor:
        """Teacher-forced decoder output before the projection.

        Args:
            src_ids: int64 [B, S].
            src_keep_mask: bool [B, S].
            tgt_ids: int64 [B, T].

        Returns:
            [B, T, E].
        """
        return self.decode(tgt_ids, self.encode(src_ids, src_keep_mask), src_keep_mask)

    def _embed(self, ids: Tensor, embedding: nn.Embedding) -> Tensor:
        if ids.size(1) > self.positions.size(0):
            self.positions = self._position_table(2 * ids.size(1))
        self.positions = self.positions.to(self.embedding.weight)
        scaled = embedding(ids) * math.sqrt(self.config.model_size)
        return self.dropout(scaled + self.positions[: ids.size(1)])  # type: ignore[no-any-return]

    def _position_table(self, length: int) -> Tensor:
        size, rates = self.config.model_size, self.config.position_rates
        return torch.from_numpy(sinusoidal_positions(length, size, rates))


def _norm(config: ModelConfig) -> nn.LayerNorm:
    return nn.LayerNorm(config.model_size, eps=config.norm_epsilon)
