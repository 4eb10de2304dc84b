"""How gradients change the weights: Adam, or Muon for the matrices and Adam for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from torch import Tensor

from dragoman_training.network.transformer import Transformer
from dragoman_training.steps.adam import Adam
from dragoman_training.steps.muon import Muon

Method = Literal["adam", "muon"]
_OF_ADAM, _OF_MUON = {"step", "exp_avg", "exp_avg_sq"}, {"momentum_buffer"}


class Optimizer:
    """The optimizer of a run; its state is stored by the index of the model's parameters.

    Muon updates the layers' matrices, but not those with one row for each token. Its updates have
    the size of Adam's, so that one learning rate serves both.
    """

    def __init__(self, model: Transformer, method: Method) -> None:
        """Assign the model's parameters; the learning rate is zero until it is set."""
        self._weights = list(model.parameters())
        matrices: list[Tensor] = []
        others: list[Tensor] = []
        for name, weight in model.named_parameters():
            by_muon = method == "muon" and weight.dim() == 2 and "_layers." in name
            (matrices if by_muon else others).append(weight)
        self._parts: list[Adam | Muon] = [Adam(others)]
        if matrices:
            self._parts.append(Muon(matrices))
        self._by_muon = set(matrices)

    @property
    def learning_rate(self) -> float:
        """The current learning rate."""
        return self._parts[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for part in self._parts:
            part.learning_rate = rate

    def step(self) -> None:
        """Update the weights by their gradients."""
        for part in self._parts:
            part.step()

    def state(self) -> dict[str, Tensor]:
        """The optimizer state; `3.exp_avg` is the fourth parameter's mean gradient."""
        return {
            f"{number}.{name}": value
            for number, weight in enumerate(self._weights)
            for part in self._parts
            if weight in part.state
            for name, value in part.state[weight].items()
        }

    def load_state(self, tensors: Mapping[str, Tensor]) -> int:
        """Restore what `state` returned, as far as the same method made it.

        Returns:
            Number of parameters without restored state.
        """
        by_weight: dict[str, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            of, _, name = key.partition(".")
            by_weight.setdefault(of, {})[name] = value
        missing = 0
        for number, weight in enumerate(self._weights):
            by_muon, values = weight in self._by_muon, by_weight.get(str(number), {})
            if values.keys() == (_OF_MUON if by_muon else _OF_ADAM):
                part = self._parts[by_muon]
                part.state[weight] = {key: v.to(weight.device) for key, v in values.items()}
            else:
                missing += 1
        return missing
