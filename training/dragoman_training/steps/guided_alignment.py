"""Guided alignment: trains one cross-attention head on word alignments.

The head's weights are taken at the step that reads a token, as in `dragoman align-heads` and
serving: at that step the token is known, but not the next one.

Source: Garg et al. 2019, section 4.2, https://arxiv.org/abs/1909.02074, for the loss.
"""

from __future__ import annotations

from torch import Tensor, nn

from dragoman_training.config import AlignmentConfig
from dragoman_training.network.transformer import MultiHeadAttention, Transformer


def link_loss(log_weights: Tensor, linked: Tensor) -> Tensor:
    """Cross-entropy of a head's weights and the word alignments, summed over linked target tokens.

    The alignment of a target token is a uniform distribution over its source tokens.

    Args:
        log_weights: [B, T, S], logarithms of the head's weights.
        linked: bool [B, T, S]; a target token without links adds no loss.

    Returns:
        Scalar, in nats.
    """
    sources = linked.sum(dim=-1).clamp(min=1)  # [B, T]
    of_links = log_weights.where(linked, log_weights.new_zeros(()))
    return -(of_links.sum(dim=-1) / sources).sum()


class GuidedAlignment:
    """The guided head, and its loss in the model's last run."""

    def __init__(self, model: Transformer, config: AlignmentConfig) -> None:
        """Register a hook that records the head's inputs in every training run of the model.

        Args:
            model: to train; not compiled yet, as compiled code accepts no new hooks.
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
        """`link_loss` of the model's last training run, without the weight.

        Args:
            linked: as `Batch.linked`, of the batch that the model ran with.
        """
        assert self._inputs is not None
        log_weights = self._attention.log_weights(self._head, *self._inputs)
        return link_loss(log_weights, linked.to(log_weights.device))

    def forget(self) -> None:
        """Drop the recorded inputs, to free memory."""
        self._inputs = None

    def _keep(self, module: nn.Module, inputs: tuple[Tensor, Tensor, Tensor]) -> None:
        if module.training:
            self._inputs = inputs
