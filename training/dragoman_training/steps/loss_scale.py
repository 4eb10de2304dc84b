"""Loss scaling for fp16."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from dragoman.kernel.errors import UsageError

log = logging.getLogger(__name__)

_LARGEST = 2.0**24
_GROWTH_STEPS = 2000
"""Steps without an overflow after which the scale is doubled."""


@dataclass(frozen=True)
class LossScale:
    """The factor of the loss in fp16, so that small gradients do not underflow.

    Source: Micikevicius et al. 2018, section 3.2, https://arxiv.org/abs/1710.03740
    """

    value: float = 2.0**16
    good_steps: int = 0
    """Steps since the scale changed."""
    skipped_steps: int = 0
    """Steps skipped because their gradients overflowed fp16."""

    def after_step(self, step: int, overflowed: bool) -> LossScale:
        """The scale of the next step.

        Raises:
            UsageError: the gradients overflow at every scale.
        """
        if not overflowed:
            grows = self.good_steps + 1 == _GROWTH_STEPS
            value = min(2 * self.value, _LARGEST) if grows else self.value
            return replace(self, value=value, good_steps=0 if grows else self.good_steps + 1)
        if self.value <= 1.0:
            raise UsageError(
                f"step {step}: the gradients overflow fp16 at any scale; lower "
                "training.peak_learning_rate, or set training.precision = 'bf16'"
            )
        log.info("step %d skipped: fp16 overflow at a loss scale of %g", step, self.value)
        return LossScale(self.value / 2, 0, self.skipped_steps + 1)
