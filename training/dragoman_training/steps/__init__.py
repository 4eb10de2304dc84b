"""One optimizer step: loss, gradients, learning rate, and the processes that share it."""
