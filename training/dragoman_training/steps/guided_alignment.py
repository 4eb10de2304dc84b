"""Guided alignment: one cross-attention head is trained to find the words that links name.

The head's weights are those of the step that reads a token, as `dragoman align-heads` and serving
take them: there the token is known, and not yet the next one.

Source: Garg et al. 2019, section 4.2, https://arxiv.org/abs/1909.02074, for the loss.
"""

from __future__ import annotations

from torch import Tensor, nn

from dragoman_training.config import AlignmentConfig
from dragoman_training.network.transformer import MultiHeadAttention, Transformer


def link_loss(log_weights: Tensor, linked: Tensor) -> Tensor:
    """Sum over linked target tokens of the cross-entropy of a head's weights and the links.

    The links of a target token are a distribution: all its source tokens are equally probable.

    Args:
        log_weights: [B, T, S], logarithms of the head's weights.
        linked: bool [B, T, S]; a target token without links counts nothing.

    Returns:
        Scalar, in nats.
    """
    sources = linked.sum(dim=-1).clamp(min=1)  # [B, T]
    of_links = log_weights.where(linked, log_weights.new_zeros(()))
    return -(of_links.sum(dim=-1) / sources).sum()


class GuidedAlignment:
    """The head that is guided, and its loss in the model's last run."""

    def __init__(self, model: Transformer, config: AlignmentConfig) -> None:
        """Take note of what the head attends from and to, in every run of a model in training.

        Args:
            model: which is trained; not compiled yet, as compiled code has no further hooks.
            config: which head, and the weight of its loss.
        """
        assert config.weight is not None
        self.weight, self._head = config.weight, config.head
        attention = model.decoder_layers[config.layer_of(len(model.decoder_layers))].cross_attention
        assert isinstance(attention, MultiHeadAttention)
        self._attention = attention
        self._inputs: tuple[Tensor, Tensor, Tensor] | None = None
        attention.register_forward_pre_hook(self._keep)

    def loss(self, linked: Tensor) -> Tensor:
        """`link_loss` of the model's last run in training, not yet weighted.

        Args:
            linked: as `Batch.linked`, of the batch that the model ran with.
        """
        assert self._inputs is not None
        log_weights = self._attention.log_weights(self._head, *self._inputs)
        return link_loss(log_weights, linked.to(log_weights.device))

    def forget(self) -> None:
        """Let go of the last run, whose memory is needed."""
        self._inputs = None

    def _keep(self, module: nn.Module, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
        if module.training:
            self._inputs = inputs
