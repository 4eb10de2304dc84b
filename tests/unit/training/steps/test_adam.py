from __future__ import annotations

import torch
from dragoman_training.steps.adam import Adam


def test_steps_are_those_of_the_paper() -> None:
    """Algorithm 1 of Kingma and Ba 2015, in fp64."""
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 5), (7,))]
    unused = torch.nn.Parameter(torch.ones(2))
    right = [weight.detach().double() for weight in weights]
    means, squares = ([torch.zeros_like(weight) for weight in right] for _ in range(2))
    optimizer = Adam([*weights, unused])
    for step, learning_rate in enumerate((0.1, 0.01, 0.3), start=1):
        optimizer.learning_rate = learning_rate
        for weight, mean, square, expected in zip(weights, means, squares, right, strict=True):
            weight.grad = torch.randn_like(weight)
            gradient = weight.grad.double()
            mean.mul_(0.9).add_(0.1 * gradient)
            square.mul_(0.98).add_(0.02 * gradient**2)
            root = (square / (1 - 0.98**step)).sqrt()
            expected -= learning_rate * mean / (1 - 0.9**step) / (root + 1e-9)
        optimizer.step()
        for weight, expected in zip(weights, right, strict=True):
            torch.testing.assert_close(weight.double(), expected, rtol=1e-5, atol=1e-5)
    assert unused not in optimizer.state
    assert unused.tolist() == [1.0, 1.0]
